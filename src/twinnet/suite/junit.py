"""junit.xml of a session: a test suite per model and engine; FAIL is a failure, ERROR an error."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from twinnet.report.junit import xml_text
from twinnet.suite.outcome import Outcome
from twinnet.suite.summary import answer_words

__all__ = ["render_junit"]


def render_junit(outcomes: Sequence[Outcome]) -> str:
    """The text of junit.xml."""
    root = ET.Element("testsuites", name="twinnet suite")
    suites: dict[str, ET.Element] = {}
    for outcome in outcomes:
        title = xml_text(f"{outcome.case.model} / {outcome.case.column}")
        if title not in suites:
            suites[title] = ET.SubElement(root, "testsuite", name=title)
        suites[title].append(_case(outcome))
    for suite in suites.values():
        suite.set("tests", str(len(suite)))
        suite.set("time", f"{sum(float(c.get('time', '0')) for c in suite):.3f}")
        for kind in ("failure", "error", "skipped"):
            counted = {"failure": "failures", "error": "errors"}.get(kind, kind)
            suite.set(counted, str(len(suite.findall(f"testcase/{kind}"))))
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in suites.values())))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(outcome: Outcome) -> ET.Element:
    model = xml_text(outcome.case.model)
    case = ET.Element("testcase", classname=model, name=xml_text(outcome.name), time=f"{outcome.seconds:.3f}")
    message = xml_text(outcome.message.partition("\n")[0])
    if outcome.expected == "yes":
        ET.SubElement(case, "skipped", message=xml_text(f"expected {outcome.kind}: {outcome.reason}"))
    elif outcome.verdict == "SKIP":
        ET.SubElement(case, "skipped", message=message)
    elif outcome.verdict == "ERROR":
        ET.SubElement(case, "error", message=message, type=outcome.step).text = xml_text(
            answer_words(outcome)
        )
    elif outcome.verdict == "FAIL":
        ET.SubElement(case, "failure", message=message, type="FAIL").text = xml_text(answer_words(outcome))
    elif outcome.expected == "no":
        words = f"passes, but {outcome.wanted} is expected"
        ET.SubElement(case, "failure", message=xml_text(words), type="unexpected pass")
    if outcome.covers:
        ET.SubElement(case, "system-out").text = xml_text("covers " + ", ".join(outcome.covers))
    return case
