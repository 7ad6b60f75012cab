"""Show a finished run: the report in a browser, one site in the terminal."""

from __future__ import annotations

import difflib
import shutil
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from twinnet.errors import UsageError
from twinnet.result import PairResult, Result, ResultSet
from twinnet.store import TensorFile, write_tensors

__all__ = ["Drawing", "draw_site", "drawing_of", "find_pair", "load_tensors", "open_report", "save_tensors"]

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
    hint = f"did you mean {', '.join(dict.fromkeys(close))}?"
    if not close:
        some = ", ".join(pair.site.label for pair in pairs[:4])
        hint = f"it has {some}{' ...' if len(pairs) > 4 else ''}; pairs.csv in the run folder lists all"
    raise UsageError(f"this run has no site {asked!r}", hint=hint)


@dataclass(frozen=True)
class Drawing:
    """The difference at one site: text in a terminal, pictures in a notebook."""

    pair: PairResult
    ours: np.ndarray
    theirs: np.ndarray

    def text(self, *, ascii_only: bool = False) -> str:
        """Figures, a heat map, the worst channels and a histogram, as wide as the terminal."""
        from twinnet.report.draw import draw_difference, fitted

        site = self.pair.site
        head = [f"site     {site.label}" + (f"   {site.source}" if site.source else "")]
        if site.label != site.tensor:
            head.append(f"tensor   {site.tensor}")
        head.append(f"status   {self._status()}")
        columns = shutil.get_terminal_size().columns
        drawn = draw_difference(self.ours, self.theirs, columns, ascii=ascii_only)
        return fitted(head, columns) + "\n\n" + drawn

    def _status(self) -> str:
        pair = self.pair
        words = f"{pair.status}" + (f": {pair.reason}" if pair.reason is not None else "")
        if pair.ratio is not None and pair.born is not None:
            words += f"   (born {pair.born:.2g}, {pair.ratio:.2g} x its noise floor)"
        return words

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from twinnet.report.html import render_page
        from twinnet.report.pictures import picture_of

        picture = picture_of(self.pair.site.tensor, self.ours, self.theirs, anchor="")
        return render_page("drawing.html.j2", p=picture, site=self.pair.site, status=self._status())


def drawing_of(result: Result, asked: str = "") -> Drawing:
    """The difference at one site of a result, from memory or from its run folder; by default at the worst."""
    tensors = dict(result.tensors) or (load_tensors(Path(result.folder)) if result.folder else {})
    if not tensors:
        place = f"{result.folder} holds" if result.folder else "this result holds"
        raise UsageError(
            f"{place} no tensors", hint="run the check again with --keep worst (the default) or --keep all"
        )
    pairs = result.pairs or result.outputs
    if asked:
        pair = find_pair(pairs, asked)
    else:
        from twinnet.report.pictures import worst_tensors

        name = worst_tensors(result, tensors)[0]
        pair = next((p for p in pairs if p.site.tensor == name), pairs[0])
    name = pair.site.tensor
    if name not in tensors:
        raise UsageError(
            f"the tensors of {name} were not kept",
            hint=f"kept: {', '.join(list(tensors)[:8])}; run the check again with --keep all for the rest",
        )
    return Drawing(pair, *tensors[name])


def draw_site(run: str | Path, asked: str, *, ascii_only: bool = False) -> str:
    """The difference at one site, drawn for a terminal."""
    result = Result.load(run)
    if isinstance(result, ResultSet):
        folders = ", ".join(r.folder or r.twin.spec for r in result)
        raise UsageError("this folder holds several runs", hint=f"name one of them: {folders}")
    return drawing_of(result, asked).text(ascii_only=ascii_only)


def open_report(run: str | Path) -> str:
    """Open report.html in the default browser; returns a message."""
    path = (Path(run) / "report.html").resolve()
    if not path.exists():
        raise UsageError(f"{run} holds no report.html")
    opened = webbrowser.open(path.as_uri())
    return f"opened {path}" if opened else f"no browser here; the report is {path}"
