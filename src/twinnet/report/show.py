"""Show a finished run: the report in a browser, one site in the terminal."""

from __future__ import annotations

import difflib
import shutil
import webbrowser
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from twinnet.errors import UsageError
from twinnet.result import PairResult, Result, ResultSet
from twinnet.store import TensorFile, write_tensors

__all__ = ["draw_site", "find_pair", "load_tensors", "open_report", "save_tensors"]

_NETWORK, _TWIN = "traces/network.safetensors", "traces/twin.safetensors"


def save_tensors(folder: Path, tensors: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Keep pairs of tensors in a run folder."""
    if tensors:
        write_tensors(folder / _NETWORK, {name: pair[0] for name, pair in tensors.items()})
        write_tensors(folder / _TWIN, {name: pair[1] for name, pair in tensors.items()})


def load_tensors(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The pairs of tensors that a run folder holds, by the network's name."""
    if not (folder / _NETWORK).exists() or not (folder / _TWIN).exists():
        return {}
    ours, theirs = TensorFile(folder / _NETWORK), TensorFile(folder / _TWIN)
    return {name: (ours[name], theirs[name]) for name in ours if name in theirs}


def find_pair(pairs: Sequence[PairResult], asked: str) -> PairResult:
    """Find a pair by tensor, module or label: exactly, by pattern, or by a part of the name.

    If several match, the worst one is returned.
    """
    asked = asked.lstrip(".")

    def names(pair: PairResult) -> tuple[str, ...]:
        return pair.site.tensor, pair.site.own_name, pair.site.module, pair.site.label, pair.twin_site.tensor

    for test in (
        lambda name: name == asked,
        lambda name: fnmatchcase(name, asked),
        lambda name: asked.lower() in name.lower(),
    ):
        found = [p for p in pairs if any(name and test(name) for name in names(p))]
        if found:
            return max(found, key=lambda p: (p.status == "fail", p.ratio or 0.0, p.difference.max_abs))
    known = [name for p in pairs for name in names(p) if name]
    close = difflib.get_close_matches(asked, known, 3, 0.4)
    hint = f"did you mean {', '.join(dict.fromkeys(close))}?" if close else "see pairs.csv in the run folder"
    raise UsageError(f"this run has no site {asked!r}", hint=hint)


def draw_site(run: str | Path, asked: str, *, ascii_only: bool = False) -> str:
    """The difference at one site, drawn for a terminal."""
    from twinnet.report.draw import draw_difference

    result = Result.load(run)
    if isinstance(result, ResultSet):
        folders = ", ".join(r.folder or r.twin.spec for r in result)
        raise UsageError("this folder holds several runs", hint=f"name one of them: {folders}")
    pair = find_pair(result.pairs or result.outputs, asked)
    folder = Path(run)
    if not (folder / _NETWORK).exists():
        raise UsageError(
            f"{folder} holds no tensors",
            hint="run the check again with --keep worst (the default) or --keep all",
        )
    ours, theirs = TensorFile(folder / _NETWORK), TensorFile(folder / _TWIN)
    name = pair.site.tensor
    if name not in ours or name not in theirs:
        kept = ", ".join(list(ours.keys())[:8])
        raise UsageError(
            f"the tensors of {name} were not kept",
            hint=f"kept: {kept}; run the check again with --keep all for the rest",
        )
    columns = shutil.get_terminal_size().columns
    head = [f"site     {pair.site.label}" + (f"   {pair.site.source}" if pair.site.source else "")]
    if pair.site.label != name:
        head.append(f"tensor   {name}")
    words = f"{pair.status}" + (f": {pair.reason}" if pair.reason is not None else "")
    if pair.ratio is not None and pair.born is not None:
        words += f"   (born {pair.born:.2g}, {pair.ratio:.2g} x its noise floor)"
    head.append(f"status   {words}")
    return "\n".join(head) + "\n\n" + draw_difference(ours[name], theirs[name], columns, ascii=ascii_only)


def open_report(run: str | Path) -> str:
    """Open report.html in the default browser; returns a message."""
    path = (Path(run) / "report.html").resolve()
    if not path.exists():
        raise UsageError(f"{run} holds no report.html")
    opened = webbrowser.open(path.as_uri())
    return f"opened {path}" if opened else f"no browser here; the report is {path}"
