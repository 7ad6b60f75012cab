"""The end of a session on the terminal: a line per model and engine, what is new, and groups of failures."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from twinnet.report.figures import clean
from twinnet.report.sentences.registry import counted
from twinnet.suite.groups import grouped
from twinnet.suite.outcome import Outcome

__all__ = ["Row", "answer_words", "commands_of", "rows_of", "summary_lines"]


@dataclass(frozen=True, slots=True)
class Row:
    """One model on one engine: the full model, how many layers passed of how many, the first bad layer."""

    model: str
    column: str
    full: Outcome | None
    passed: int
    layers: int
    covered: int
    first_bad: Outcome | None

    @property
    def words(self) -> str:
        """The row as a sentence without its name."""
        parts = [f"full {clean(self.full.kind)}{_mark(self.full)}" if self.full else "full -"]
        if self.layers:
            also = f" ({self.covered} by identical ones)" if self.covered else ""
            parts.append(f"layers {self.passed} of {self.layers}{also}")
        if self.first_bad is not None:
            parts.append(f"first bad {clean(self.first_bad.case.layer)} {self.first_bad.kind}")
        return ", ".join(parts)


def _mark(outcome: Outcome) -> str:
    return " (expected)" if outcome.expected == "yes" else ""


def rows_of(outcomes: Iterable[Outcome]) -> list[Row]:
    """The rows of a session, in the order of its models and engines."""
    found: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault((outcome.case.model, outcome.case.column), []).append(outcome)
    rows = []
    for (model, column), members in found.items():
        full = next((o for o in members if not o.case.layer), None)
        layers = [o for o in members if o.case.layer]
        verdicts = {o.case.layer: o.verdict for o in layers}
        covered = [o for o in layers if o.same_as]
        passed = sum(o.verdict == "PASS" or verdicts.get(o.same_as) == "PASS" for o in layers)
        bad = [o for o in layers if o.verdict in ("FAIL", "ERROR") and o.expected != "yes"]
        bad.sort(key=lambda o: int(o.case.layer.rpartition("_")[2]))
        rows.append(Row(model, column, full, passed, len(layers), len(covered), bad[0] if bad else None))
    return rows


def summary_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """The lines after a session."""
    lines = [f"{clean(row.model)}  {clean(row.column)}  {row.words}" for row in rows_of(outcomes)]
    surprising = [o for o in outcomes if o.expected == "no" and o.wanted]
    if surprising:
        lines += ["", "not as expected (`twinnet suite accept` updates the file):"]
        lines += [f"  {clean(o.name)}: {o.kind}, expected {o.wanted}" for o in surprising]
    groups = grouped(o for o in outcomes if not o.good)
    if groups:
        lines += ["", "failures by message:"]
    for group in groups:
        first = group.outcomes[0]
        what = " ".join(filter(None, (group.engine, group.kind)))
        lines.append(f"  {len(group.outcomes)} x {what}: {clean(first.message.partition(chr(10))[0])[:160]}")
        names = ", ".join(clean(o.name) for o in group.outcomes[:3])
        lines.append(f"      {names}{' ...' if len(group.outcomes) > 3 else ''}")
    reused = sum(o.reused for o in outcomes)
    built = sum(o.built for o in outcomes)
    cases = counted(len(outcomes), "case")
    lines += ["", f"{cases}, {reused} with nothing changed, {counted(built, 'artefact')} made"]
    return lines


def answer_words(outcome: Outcome) -> str:
    """What a failed case says: the one-screen answer of its check, and the commands to go on with."""
    from pathlib import Path

    from twinnet.errors import UsageError
    from twinnet.report.json_file import load_result
    from twinnet.report.next_steps import next_command
    from twinnet.report.terminal import render_text
    from twinnet.result import Result

    lines, said = [], ""
    if outcome.wanted:
        lines += [f"expected {outcome.wanted}, but it is {outcome.kind}", ""]
    if outcome.verdict == "PASS":
        lines.append(f"{clean(outcome.name)} passes; remove its line with `twinnet suite accept`")
        return "\n".join(lines)
    try:
        result = load_result(Path(outcome.folder))
        lines.append(render_text(result))
        said = next_command(result)[0] if isinstance(result, Result) else ""
    except UsageError:  # it did not get as far as a check
        lines.append(f"{outcome.kind}: {outcome.message}")
    if outcome.covers:
        lines.append(f"covers   {', '.join(clean(name) for name in outcome.covers)}")
    lines += [f"{label:8} {command}" for label, command in commands_of(outcome) if command != said]
    return "\n".join(lines)


def commands_of(outcome: Outcome) -> list[tuple[str, str]]:
    """The commands that look closer, reproduce, and run the case again."""
    from pathlib import Path

    from twinnet.report.next_steps import has_seeds

    folder = Path(outcome.folder) if outcome.folder else None
    found = []
    if folder is not None and (folder / "result.json").exists():
        found.append(("look", f"twinnet show {shlex.quote(str(folder))}"))
        cut = next(iter(sorted(folder.glob("layer.*"))), None)
        if cut is not None:
            inputs = shlex.quote(str(folder / "inputs.safetensors"))
            spec = shlex.quote(outcome.case.spec)
            board = next((word for word in outcome.given if word.startswith("ssh://")), "")
            there = f" --on {shlex.quote(board)}" if board else ""
            found.append(
                ("check", f"twinnet check {shlex.quote(str(cut))} --twin {spec} --inputs {inputs}{there}")
            )
        if has_seeds(folder):
            found.append(("repro", f"twinnet repro {shlex.quote(str(folder))}"))
    found.append(("again", shlex.join(["twinnet", "suite", *outcome.given, "-k", outcome.name])))
    return found
