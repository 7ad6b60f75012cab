"""The difference of two tensors, drawn in a terminal."""

from __future__ import annotations

import math

import numpy as np

from twinnet.report import figures
from twinnet.report.slices import Compared, reduce_peak
from twinnet.signature import dims

__all__ = ["draw_difference", "fitted"]

# Lower bounds of the shades, as shares of the largest difference.
_STEPS = (1e-3, 1e-2, 1e-1, 0.5)
_SHADES = {False: "\u00b7\u2591\u2592\u2593\u2588", True: ".:+*#"}
_PARTS = " \u258f\u258e\u258d\u258c\u258b\u258a\u2589"
_ODD = "!"
_MOST_ROWS = 20
_CHANNELS = 8
_DECADES = 14


def draw_difference(
    reference: np.ndarray, twin: np.ndarray, console_width: int = 80, *, ascii: bool = False, name: str = ""
) -> str:
    """Figures, a heat map of the worst plane, the worst channels and a histogram, as text.

    Elements that are NaN or infinite on one side only are marked "!", and never turned into numbers.
    `ascii` uses plain characters for terminals without block elements.

    >>> print(draw_difference(np.array([0.0, 1.0]), np.array([0.0, 1.0]), 60))
    tensor   float64 2, 2 elements
    differ   no element differs
    range    0 to 1.0 in the network
    """
    width = max(24, console_width)
    reference, twin = np.asarray(reference), np.asarray(twin)
    lines = [f"site     {figures.clean(name)}"] if name else []
    if reference.shape != twin.shape:
        shapes = f"network {dims(reference.shape)}, twin {dims(twin.shape)}"
        return fitted([*lines, f"tensor   the shapes differ: {shapes}"], width)
    compared = Compared.of(reference, twin)
    lines += _figures(compared, reference, twin)
    if compared.differing:
        lines += ["", *_heat_map(compared, width, ascii)]
        lines += _bars(compared, width, ascii)
        lines += ["", *_histogram(compared, width, ascii)]
    return fitted(lines, width)


def fitted(lines: list[str], width: int) -> str:
    """Lines broken to the width; a continuation stands under the text of its line."""
    fitted = []
    for line in lines:
        while len(line) > width:
            cut = line.rfind(" ", 12, width + 1)
            cut = cut if cut > 0 else width
            fitted.append(line[:cut].rstrip(" "))
            line = " " * 9 + line[cut:].lstrip()
        fitted.append(line.rstrip(" "))
    return "\n".join(fitted).replace(figures.NBSP, " ")


def _figures(compared: Compared, reference: np.ndarray, twin: np.ndarray) -> list[str]:
    total = compared.size.size
    lines = [f"tensor   {compared.dtype} {dims(reference.shape)}, {figures.count(total, 'element')}"]
    if not total:
        return [*lines, "differ   the tensor is empty"]
    if compared.differing:
        share = figures.percent(compared.differing / total)
        number = figures.count(compared.differing, "element")
        lines.append(f"differ   {number} ({share}), mean {figures.figure(compared.mean)}")
        index = compared.index[: reference.ndim]
        values = f"network {_value(reference[index])}, twin {_value(twin[index])}"
        lines.append(f"largest  {_largest(compared)} at [{', '.join(str(i) for i in index)}]: {values}")
    else:
        lines.append("differ   no element differs")
    if compared.odd:
        lines.append(f"NaN/Inf  {figures.count(compared.odd, 'element')} on one side only, marked {_ODD}")
    low, high = compared.range
    if not math.isnan(low):
        lines.append(f"range    {figures.figure(low)} to {figures.figure(high)} in the network")
    if shared := int((~np.isfinite(compared.reference) & ~np.isnan(compared.difference)).sum()):
        lines.append(f"same     {figures.count(shared, 'element')} NaN or Inf on both sides alike")
    return lines


def _largest(compared: Compared) -> str:
    if compared.odd:
        return f"a NaN or Inf (else {figures.figure(compared.largest)})"
    return figures.figure(compared.largest)


def _value(value: object) -> str:
    if isinstance(value, (np.bool_, np.integer)):
        return str(value)
    if isinstance(value, np.complexfloating):
        return f"{complex(value):.7g}"
    return f"{float(value):.7g}"  # type: ignore[arg-type]


def _heat_map(compared: Compared, width: int, ascii: bool) -> list[str]:
    plane = compared.plane()
    height, breadth = plane.difference.shape
    columns = min(breadth, width - 4, 100)
    # A character is about twice as high as wide.
    rows = max(1, min(height, _MOST_ROWS, round(height * columns / breadth / 2) if breadth > 8 else height))
    cells = reduce_peak(plane.difference, rows, columns)
    shades = _SHADES[ascii]
    top = compared.largest
    corner = ("+", "-", "|", "+") if ascii else ("\u250c", "\u2500", "\u2502", "\u2514")
    right = ("+", "+") if ascii else ("\u2510", "\u2518")
    shown = "" if cells.shape == plane.difference.shape else f" as {cells.shape[0]} x {cells.shape[1]} peaks"
    lines = [f"heat map of {plane.place}, {height} x {breadth} elements{shown}"]
    lines.append(corner[0] + corner[1] * cells.shape[1] + right[0])
    lines += [corner[2] + "".join(_shade(v, top, shades) for v in row) + corner[2] for row in cells]
    lines.append(corner[3] + corner[1] * cells.shape[1] + right[1])
    if top:
        bounds = [figures.figure(top * step) for step in _STEPS]
        legend = [f"{shades[0]} less", *(f"{shade} from {bound}" for shade, bound in zip(shades[1:], bounds))]
        legend += [f"{_ODD} NaN or Inf"] if compared.odd else []
        lines.append("  ".join(text.replace(" ", figures.NBSP) for text in legend))
    return lines


def _shade(value: float, top: float, shades: str) -> str:
    if math.isnan(value):
        return _ODD
    if value == 0 or not top:
        return " "
    return shades[sum(abs(value) >= top * step for step in _STEPS)]


def _bars(compared: Compared, width: int, ascii: bool) -> list[str]:
    channels = compared.channels
    if len(channels) < 2:
        return []
    order = [int(c) for c in np.argsort(-channels, kind="stable")[:_CHANNELS] if channels[c] > 0]
    noun = "channel" if len(compared.shape) > 1 else "element"
    digits = len(str(max(order)))
    room = max(4, min(40, width - digits - 22))
    finite = [float(channels[c]) for c in order if math.isfinite(channels[c])]
    top = max(finite, default=0.0)
    head = f"worst of {figures.count(len(channels), noun)}, largest difference in each"
    lines = ["", head]
    for c in order:
        size = float(channels[c])
        bar = _ODD * room if math.isinf(size) else _bar(size / top, room, ascii)
        text = "NaN or Inf" if math.isinf(size) else figures.figure(size)
        lines.append(f"  {c:>{digits}}  {bar:<{room}}  {text}")
    return lines


def _bar(share: float, room: int, ascii: bool) -> str:
    if ascii:
        return "#" * max(1, round(share * room))
    eighths = max(1, round(share * room * 8))
    return "\u2588" * (eighths // 8) + _PARTS[eighths % 8].strip()


def _histogram(compared: Compared, width: int, ascii: bool) -> list[str]:
    found = compared.histogram(most=_DECADES)
    rows = [("equal", found.equal)] if found.equal else []
    exponents = [(int(edge), number) for edge, number in zip(found.edges, found.counts)]
    rows += [(f"1e{low} to 1e{low + 1}", number) for low, number in exponents]
    if found.cut:
        rows[1 if found.equal else 0] = (f"below 1e{exponents[0][0] + 1}", exponents[0][1])
    if found.odd:
        rows.append(("NaN or Inf", found.odd))
    label = max(len(text) for text, _ in rows)
    figure = max(len(figures.grouped(number)) for _, number in rows)
    room = max(4, min(40, width - label - figure - 6))
    top = max(number for _, number in rows)
    lines = ["how many elements differ by how much"]
    for text, number in rows:
        bar = _bar(number / top, room, ascii) if number else ""
        lines.append(f"  {text:<{label}}  {bar:<{room}}  {figures.grouped(number):>{figure}}")
    return lines
