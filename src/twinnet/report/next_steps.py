"""What to do next: the command to type, or the calls that a result in memory offers."""

from __future__ import annotations

import shlex
from pathlib import Path

from twinnet.report import quoting
from twinnet.report.figures import clean
from twinnet.report.words import takes_network
from twinnet.result import Result

__all__ = ["has_seeds", "next_command", "next_in_python"]

_ADVISE = ("--advise-target", "--advise-out")
"""Options with a value that have done their part once the improved twin is written."""


def next_command(result: Result) -> tuple[str, str]:
    """The command to type next, and what it does."""
    advised = _next_with_advice(result)
    if advised[0]:
        return advised
    run = shlex.quote(clean(result.folder)) if result.folder else ""
    if result.verdict == "ERROR":
        if run and (result.seeds or has_seeds(result.folder)):
            return f"twinnet repro {run}", "writes the smallest network that gives the same error"
        if result.stage == "names":
            return _next_for_names(result)
        if result.stage == "pair" and result.network.given and result.twin.description:
            pair = shlex.join([clean(result.network.given), clean(result.twin.description)])
            return f"twinnet diff {pair}", "lists everything that differs"
        if result.stage == "connect":  # ssh's log is short, and shown
            return "", ""
        if result.log and (again := quoting.command(result.command)):
            return f"{again} -v", "shows the engine's whole log"
        if "\n" in result.error.strip():  # it says itself what to do
            return "", ""
        return "twinnet env", "shows what is installed, for a bug report"
    if not run:
        return "", ""
    if result.verdict == "PASS":
        return f"twinnet show {run} --open", "opens the report"
    if result.findings and (result.seeds or has_seeds(result.folder) or not Path(result.folder).exists()):
        return f"twinnet repro {run}", "writes the smallest file that shows it"
    site = result.first_failing
    if site is None:
        return f"twinnet show {run} --open", "opens the report"
    return f"twinnet show {run} {shlex.quote(clean(site.tensor))}", "draws the difference there"


def has_seeds(folder: str | Path) -> bool:
    """Whether `twinnet repro` finds in a run what it works from."""
    return (Path(folder) / "seeds").is_dir()


def next_in_python(result: Result) -> list[tuple[str, str]]:
    """What a result that is only in memory offers, and what each call does."""
    if result.folder:
        return []
    offers = [("result.show()", "draws the worst difference")] if result.tensors else []
    if result.pairs:
        offers.append(("result.to_frame()", "all pairs as a table"))
    return [*offers, ('result.save("run")', "writes report.html and the rest of a run folder")]


def _next_with_advice(result: Result) -> tuple[str, str]:
    """The command that makes the advised twin, or checks it once it is there."""
    advice = result.advice
    typed = result.argv
    if advice is None or not advice.best or not typed or result.findings:
        return "", ""
    if advice.file:
        said: list[str] = []
        skip = False
        for word in typed:
            if skip or word == "--advise" or word.startswith(tuple(f"{o}=" for o in _ADVISE)):
                skip = False
            elif word in _ADVISE:
                skip = True
            else:
                said.append(word)
        for i, word in enumerate(said):
            if word in ("--twin", "-t") and i + 1 < len(said):
                said[i + 1] = advice.file
            elif word.startswith("--twin="):
                said[i] = f"--twin={advice.file}"
        return clean(shlex.join(said)), "checks the improved twin"
    if advice.how == "run" and not takes_network(result.twin):
        return clean(shlex.join([*typed, "--advise-out", "improved.onnx"])), "writes the improved twin"
    return "", ""


def _next_for_names(result: Result) -> tuple[str, str]:
    """How to get a map of names where nothing pairs, or how to use the one that was written."""
    again = quoting.command(result.command)
    if not again:
        return "", ""
    if "--names-out" in result.argv:
        return again.replace("--names-out", "--names"), "compares by the map, once you have edited it"
    return f"{again} --names-out names.toml", "writes the most likely map of names, to edit"
