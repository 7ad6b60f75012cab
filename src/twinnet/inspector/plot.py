"""Figures of tensors, drawn as SVG: files for later, a picture at once in a notebook."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from twinnet.files import atomic_write
from twinnet.report.figures import clean, figure

__all__ = ["draw_figure", "show_plots"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 900, 260, 70, 70, 30
_LOGARITHMIC = ("mse", "max_abs", "ulp")


def show_plots(found: Mapping[str, Mapping[str, Any]], figures: Sequence[str], out: Path) -> None:
    """Draw each figure, write it, and show it where a notebook runs."""
    for name in figures:
        picture = draw_figure(name, {tensor: values.get(name) for tensor, values in found.items()})
        atomic_write(out / f"{name}.svg", picture.encode())
        _show(picture)


def _show(picture: str) -> None:
    with contextlib.suppress(ImportError):
        from IPython import get_ipython  # type: ignore[import-not-found]
        from IPython.display import SVG, display  # type: ignore[import-not-found]

        shell = get_ipython()
        if shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell":
            display(SVG(picture))


def draw_figure(name: str, values: Mapping[str, float | None]) -> str:
    """One figure of all tensors, in their order. Infinite values stand at the edge, absent ones are crossed.

    >>> draw_figure("snr", {"a": 30.0, "b": None}).count("<circle")
    1
    """
    level = {k: _level(name, v) for k, v in values.items() if v is not None and not math.isnan(v)}
    known = [v for v in level.values() if math.isfinite(v)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    step = (_WIDTH - _LEFT - 20) / max(len(values), 1)
    floor = _HEIGHT - _BOTTOM
    marks = []
    for number, (tensor, value) in enumerate(values.items()):
        x = _LEFT + (number + 0.5) * step
        title = f"<title>{escape(clean(tensor))}: {_said(value)}</title>"
        if tensor in level:
            share = min(max((level[tensor] - low) / (high - low), 0.0), 1.0)
            y = floor - share * (floor - _TOP)
            marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="#2f6db3">{title}</circle>')
        else:
            path = f"M{x - 4:.1f} {floor - 4}l8 8m0 -8l-8 8"
            marks.append(f'<path d="{path}" stroke="#b3402f" stroke-width="2">{title}</path>')
        if len(values) <= 40:
            turned = f'transform="rotate(-35 {x:.1f} {floor + 14})" text-anchor="end"'
            label = escape(clean(tensor)[:14])
            marks.append(f'<text x="{x:.1f}" y="{floor + 14}" font-size="10" {turned}>{label}</text>')
    edges = "".join(
        f'<text x="{_LEFT - 6}" y="{y}" font-size="11" text-anchor="end">{_edge(name, v)}</text>'
        for v, y in ((high, _TOP + 4), (low, floor + 4))
    )
    frame = f'<path d="M{_LEFT} {_TOP}V{floor}H{_WIDTH - 20}" fill="none" stroke="#999"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'font-family="sans-serif"><text x="{_LEFT}" y="18" font-size="13">{escape(name)}</text>'
        f"{frame}{edges}{''.join(marks)}</svg>"
    )


def _level(name: str, value: float) -> float:
    if name not in _LOGARITHMIC:
        return float(value)
    return math.log10(value) if value > 0 else -math.inf


def _edge(name: str, level: float) -> str:
    return figure(10.0**level if name in _LOGARITHMIC and abs(level) < 300 else level)


def _said(value: float | None) -> str:
    return "no figure" if value is None else f"{value:.6g}"
