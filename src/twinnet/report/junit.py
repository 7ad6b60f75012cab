"""junit.xml: a check as a test, for the CI servers that read nothing else.

One test per check and one per finding; findings that a baseline knows are skipped. A check that could not run is an
error, never a failure.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from twinnet.report import figures, words
from twinnet.report.terminal import render_text
from twinnet.result import Finding, Result, ResultSet

__all__ = ["render_junit", "xml_text"]

# What XML 1.0 cannot hold, not even escaped.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(result: Result | ResultSet) -> str:
    """The text of junit.xml."""
    root = ET.Element("testsuites", name="twinnet")
    for one in result.results if isinstance(result, ResultSet) else (result,):
        root.append(_suite(one))
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(result: Result) -> ET.Element:
    network, twin = xml_text(result.network.name), xml_text(result.twin.spec or result.twin.name)
    seconds = f"{words.total_time(result) or 0.0:.3f}"
    suite = ET.Element("testsuite", name=f"{network} / {twin}", time=seconds)
    check = ET.SubElement(suite, "testcase", classname=network, name=twin, time=seconds)
    message = xml_text(words.verdict_words(result))
    if result.verdict == "FAIL":
        ET.SubElement(check, "failure", message=message, type="FAIL").text = xml_text(render_text(result))
    elif result.verdict == "ERROR":
        first = xml_text(result.error.strip().partition("\n")[0]) or message
        log = f"{render_text(result)}\n\n{result.log}"
        ET.SubElement(check, "error", message=first, type=xml_text(result.stage) or "ERROR").text = xml_text(
            log
        )
    remarks = [words.weak_words(result), *(words.guard_words(guard) for guard in result.guards)]
    if remarks := [remark for remark in remarks if remark]:
        ET.SubElement(check, "system-out").text = xml_text("\n".join(remarks))
    for finding in result.findings:
        suite.append(_case(network, twin, finding))
    for finding in result.known_findings:
        suite.append(_known(network, twin, finding))
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    return suite


def _known(network: str, twin: str, finding: Finding) -> ET.Element:
    case = _named(network, twin, finding)
    why = finding.cause.sentence if finding.cause else words.share_words(finding)
    ET.SubElement(case, "skipped", message=xml_text(f"known from the baseline: {why}"))
    return case


def _named(network: str, twin: str, finding: Finding) -> ET.Element:
    name = xml_text(figures.clean(finding.place.label))
    return ET.Element("testcase", classname=f"{network} / {twin}", name=name, time="0.000")


def _case(network: str, twin: str, finding: Finding) -> ET.Element:
    case = _named(network, twin, finding)
    kind = xml_text(finding.cause.kind) if finding.cause else "unknown cause"
    message = xml_text(finding.cause.sentence if finding.cause else words.share_words(finding))
    lines = [
        f"born in {words.place_words(finding)} {figures.clean(finding.place.source)}",
        f"creates {figures.figure(finding.born)}, {figures.times(finding.ratio)} its noise floor",
        f"differs by {figures.figure(finding.error)} here; {finding.inherited_by} later sites inherit it",
    ]
    ET.SubElement(case, "failure", message=message, type=kind).text = xml_text("\n".join(lines))
    return case


def xml_text(text: str) -> str:
    """Text as XML can hold it: control characters are spelt out."""
    shown = _ILLEGAL.sub(lambda m: m[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)
    return shown.replace("\r", "\\r").replace(figures.NBSP, " ")
