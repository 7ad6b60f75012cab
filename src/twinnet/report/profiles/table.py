"""A profile, and two of them compared, as one screen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from twinnet.profile.building import CompileProfile
from twinnet.profile.compare import Change, Comparison
from twinnet.profile.model import Profile, Row
from twinnet.report.figures import clean, count
from twinnet.report.profiles import words

__all__ = ["columns", "comparison_text", "compile_text", "profile_text"]

_ROWS = 12
_WIDEST = 44


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows as lines with columns; those of `right` are flush right.

    >>> columns([("a", "time"), ("bb", "3")], right=[1])
    ['a   time', 'bb     3']
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def profile_text(profile: Profile, folder: str = "", rows: int = _ROWS) -> str:
    """One screen: the whole, the three dearest places and what limits them, the dearest rows, what to do next."""
    spread = f"{words.seconds(profile.bare.p10)} to {words.seconds(profile.bare.p90)}"
    unpaired = profile.unpaired
    runs = count(profile.repeats, "run").replace("\u00a0", " ")
    lines = [
        _subject(profile),
        f"machine  {clean(words.bound(profile))}",
        f"whole    {words.seconds(profile.bare.p50)} (8 of 10 runs: {spread}; {runs})",
        *([f"busy     {words.busy(profile)}"] if words.busy(profile) else []),
        f"timers   {words.timing(profile)}",
        f"joined   {words.share(profile.joined)} of the steps' time belongs to layers of the network{_rest(profile)}",
        *([f"unpaired {clean(unpaired)}: only names tie steps to layers"] if unpaired else []),
        "",
    ]
    for number, row in enumerate(profile.dearest(), start=1):
        why = words.limited(row)
        place = clean(row.label) + (f"  {clean(row.source)}" if row.source else "")
        lines.append(f"{number}.  {words.share(row.share):>5}  {place}{f': {why}' if why else ''}")
    lines += ["", *_table(profile, rows)]
    if folder:
        there = (Path(folder) / "trace.pftrace").is_file()
        trace = "trace.pftrace (Perfetto)" if there else "trace.json"
        lines += ["", f"files    {folder}/profile.html, profile.csv, {trace}"]
        lines.append(f"next     twinnet profile compare {folder} OTHER")
    return "\n".join(lines)


def _subject(profile: Profile | CompileProfile) -> str:
    version = f"{profile.engine} {profile.version}".strip()
    return f"network  {clean(profile.network)}     twin  {clean(profile.spec)} ({clean(version)})"


def compile_text(profile: CompileProfile, rows: int = 8, *, named: bool = False) -> str:
    """What building took, and the layers that should take most time; of which twin, if it is to be `named`."""
    steps = ", ".join(f"{clean(name)} {words.seconds(spent)}" for name, spent in profile.steps)
    passes = ", ".join(f"{clean(name)} {words.seconds(spent)}" for name, spent in profile.passes[:5])
    whole = f"estimate {words.seconds(profile.seconds)} a run on {clean(profile.target.name)}"
    lines = [_subject(profile)] if named else []
    lines += [f"times    {profile.engine} does not measure them: those below are estimates"] if named else []
    lines += [f"built    {steps or 'nothing to build'}"]
    if profile.size is not None:
        between = "".join(f"; {name} {words.much(size)}" for name, size in profile.intermediate)
        lines.append(f"size     {words.much(profile.size)}{between}")
    lines += [f"passes   {passes}"] if passes else []
    shown = sorted(profile.estimates, key=lambda one: -one.seconds)[:rows]
    inside = _shared(
        [one.module for one in shown if one.module],
        [f"{one.module or one.name} {one.op}" for one in shown],
    )
    cells = [
        (
            _short(clean(f"{one.module or one.name} {one.op}".removeprefix(inside))),
            clean(one.source),
            words.seconds(one.seconds),
            words.much(one.flops, "FLOP"),
            words.much(one.bytes),
            one.limit or ("" if one.by == "shapes" else one.by),
        )
        for one in shown
    ]
    head = (
        f"place in {clean(inside[:-1])}" if inside else "place",
        *("line", "estimate", "FLOP", "bytes", "limit"),
    )
    return "\n".join([*lines, whole, "", *columns([head, *cells], right=(2, 3, 4))])


def _rest(profile: Profile) -> str:
    return f"; not: {words.some(profile.rest)}" if profile.rest else ""


def _table(profile: Profile, most: int) -> list[str]:
    head = ("place", "step", "time", "p10", "p90", "share", "calls", "FLOP/s", "bytes", "limit")
    shown = profile.dearest(most)
    inside = _shared([row.module for row in shown if row.module], [row.label for row in shown])
    head = (f"place in {clean(inside[:-1])}" if inside else "place", *head[1:])
    rows = [head, *(_cells(row, inside) for row in shown)]
    if profile.between:
        time, share = words.seconds(profile.between), words.share(profile.gap)
        rows.append((words.BETWEEN, profile.engine, time, "", "", share, "", "", "", ""))
    lines = columns(rows, right=(2, 3, 4, 5, 6, 7, 8))
    left = len(profile.rows) - len(shown)
    if left > 0:
        rest = sum(row.share for row in profile.rows) - sum(row.share for row in shown)
        lines.append(f"... and {left} more with {words.share(max(rest, 0.0))} of the time")
    return lines


def _shared(modules: Sequence[str], labels: Sequence[str]) -> str:
    """The modules that all rows are inside, with a dot behind them; empty if the labels fit as they are.

    >>> _shared(["net.body.a", "net.body.b.c"], ["net.body.a " + "conv2d+" * 6])
    'net.body.'
    """
    if all(len(label) <= _WIDEST for label in labels):
        return ""
    outer = [module.split(".")[:-1] for module in modules]
    first, last = (
        min(outer, default=[]),
        max(outer, default=[]),
    )  # what these two share, all between them share
    same = [a for a, b in takewhile(lambda pair: pair[0] == pair[1], zip(first, last))]
    return ".".join(same) + "." if same else ""


def _cells(row: Row, inside: str = "") -> tuple[str, ...]:
    return (
        _short(clean(row.label.removeprefix(inside))),
        _short(clean(row.op), 20),
        words.seconds(row.p50),
        words.seconds(row.p10),
        words.seconds(row.p90),
        words.share(row.share),
        str(row.calls),
        words.rate(row).removesuffix("FLOP/s"),
        words.much(row.bytes),
        row.limit or ("helps" if row.helps else ""),
    )


def _short(text: str, most: int = _WIDEST) -> str:
    return text if len(text) <= most else f"{text[: most - 12]}...{text[-9:]}"


def comparison_text(made: Comparison, limit: float | None = None) -> str:
    """What got slower or faster beyond noise; the rest is counted."""
    how = "measured in turns" if made.in_turns else "measured apart"
    lines = [f"before   {clean(made.before)}", f"after    {clean(made.after)}     ({how})"]
    if made.differs:
        told = "; ".join(f"{clean(name)}: {clean(a)}, then {clean(b)}" for name, a, b in made.differs)
        lines.append(f"differs  {told}")
    lines += [f"pace     {told}"] if (told := _pace(made)) else []
    whole = made.whole
    lines += [f"whole    {_ratio(whole)}", ""]
    changed = [*made.slower, *made.faster]
    if all(c.verdict in ("new", "gone") for c in made.changes):
        lines.append("no place is in both: only the whole is compared")
    elif changed:
        rows = [("", "place", "line", "before", "after", "ratio", "share"), *(_change(c) for c in changed)]
        lines += columns(rows, right=(3, 4, 5, 6))
    else:
        lines.append("no place got slower or faster beyond noise")
    for verdict, text in (("new", "only after"), ("gone", "only before")):
        found = [c for c in made.changes if c.verdict == verdict and c.share >= 0.01]
        lines += [f"{text}: {_short(clean(c.label))} {words.seconds(max(c.before, c.after))}" for c in found]
    same = sum(c.verdict == "same" for c in made.changes)
    small = sum(c.verdict == "small" for c in made.changes)
    places, short = count(same, "place"), f"{small} {'is' if small == 1 else 'are'} too short to judge"
    lines += ["", f"{places} did not change, {short}".replace("\u00a0", " ")]
    if limit is not None:
        past = made.past(limit)
        said = f"{_named(past, whole)} slower than {limit:g} x"
        lines.append(f"{'FAIL' if past else 'PASS'}     {said}")
    return "\n".join(lines)


_FELT = 0.01
"""A pace that differs by less is not worth a line."""


def _pace(made: Comparison) -> str:
    """What was taken out of all times, and whose it is; empty if it is next to nothing."""
    moved = abs(made.pace - 1) > _FELT
    if made.everywhere:
        machine = (
            f"the machine took {made.pace:.2f} x as long, which is taken out"
            if moved
            else "the machine did not"
        )
        return f"all of the twin changed; {machine}"
    if not moved:
        return ""
    whose = "as the machine did" if made.measured else "the machine, or all of the twin"
    return f"everything took {made.pace:.2f} x as long, {whose}; taken out below"


def _named(past: Sequence[Change], whole: Change) -> str:
    places = sum(change is not whole for change in past)
    told = ["the whole"] if len(past) > places else []
    told += [count(places, "place").replace("\u00a0", " ")] if places else []
    return f"{' and '.join(told)} {'is' if len(past) == 1 else 'are'}" if told else "nothing is"


def _change(change: Change) -> tuple[str, ...]:
    return (
        change.verdict,
        _short(clean(change.label)),
        clean(change.source),
        words.seconds(change.before),
        words.seconds(change.after),
        _times(change),
        words.share(change.share),
    )


def _ratio(whole: Change) -> str:
    said = "no change beyond noise" if whole.verdict in ("same", "small") else whole.verdict
    return f"{words.seconds(whole.before)}, then {words.seconds(whole.after)}: {_times(whole)}, {said}"


def _times(change: Change) -> str:
    return "" if change.ratio is None else f"{change.ratio:.2f} x"
