"""Resize: mode, coordinates, rounding; grid sampling: mode, border, corners."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from twinnet.blame.causes.family import Candidate, NotApplicable, changed, family
from twinnet.blame.problem import ByCause, Patch, Problem
from twinnet.layers.graph import Layer
from twinnet.result import fact

_COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
_LAST_DIGIT = 2.0**-21
"""A coordinate's rounding on the way into [-1, 1] and back, as a share of itself and of the picture's size."""
_NEAREST = ("floor", "round_prefer_floor", "round_prefer_ceil", "ceil")


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind == "resize":
            yield from _resize(i, layer)
        elif layer.kind == "grid_sample":
            yield from _unchecked(i, layer)
            for name, values in (
                ("mode", ("linear", "nearest", "cubic")),
                ("padding", ("zeros", "border", "reflection")),
                ("align_corners", (False, True)),
            ):
                ours = layer.attrs.get(name, values[0])
                for other in values:
                    if other != ours:
                        found = fact("resize.sampled", attribute=name, network=ours, twin=other)
                        yield changed("resize", found, i, **{name: other})


def _unchecked(i: int, layer: Layer) -> Iterator[Candidate]:
    """Bilinear sampling that checks each neighbour of a place against one end of the picture only."""
    a = layer.attrs
    if a.get("mode", "linear") != "linear" or a.get("padding", "zeros") != "zeros":
        return

    def change(problem: Problem) -> Patch:
        def run(x: torch.Tensor, grid: torch.Tensor) -> tuple[torch.Tensor]:
            corners = bool(a.get("align_corners"))
            # A place on a whole number has two pairs of neighbours: which, is a matter of its last digit.
            found, known = _from_memory(x, grid, corners, 0.0)
            if layer.outputs[0] == problem.target and problem.got.shape == found.shape:
                for nudge in (-_LAST_DIGIT, _LAST_DIGIT):
                    other, also = _from_memory(x, grid, corners, nudge)
                    nearer = (problem.got - other).abs() < (problem.got - found).abs()
                    found, known = torch.where(nearer, other, found), known & also
            return (_told_by_the_rest(problem, layer, found, known),)

        return problem.become(i, "opaque", layer.inputs[:2], run=ByCause(run))

    found = fact("resize.unchecked", network="0", twin="memory beside the picture")
    yield Candidate(kind="resize", fact=found, change=change, whole=True)


def _told_by_the_rest(
    problem: Problem, layer: Layer, found: torch.Tensor, known: torch.Tensor
) -> torch.Tensor:
    """`found`, with the twin's own values where anything may stand; half of the wrong elements must be known."""
    if known.all() or layer.outputs[0] != problem.target or problem.got.shape != found.shape:
        return found
    wrong = (problem.got.double() - problem.expected.double()).abs() > problem.floor
    if 2 * int((wrong & known).sum()) < int(wrong.sum()):
        raise NotApplicable("most of what differs was read from unknown memory")
    return torch.where(known, found, problem.got.to(found.dtype))


def _from_memory(
    x: torch.Tensor, grid: torch.Tensor, corners: bool, nudge: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """What is read if the lower neighbour is 0 only before the beginning, the upper one only beyond the end.

    Neighbours are chosen as if places lay further by `nudge`, a share of what a coordinate goes through.

    What lies on the other side is read as if the picture went on: from another row, channel or picture. Memory before
    and behind them all is not known: the second result tells which elements do not depend on it.
    """
    if x.dim() != 4 or grid.dim() != 4:
        raise NotApplicable("not a picture")
    count, channels, height, width = x.shape
    flat, memory = x.reshape(-1), x.numel()
    plane = torch.arange(count * channels).reshape(count, channels, 1, 1)
    sides = []
    for size, axis in ((height, 1), (width, 0)):
        # In float32, as engines do: next to a whole number the neighbours are others.
        place = grid[..., axis].to(torch.float32) + 1
        place = place * ((size - 1) / 2) if corners else place * (size / 2) - 0.5
        near = place + nudge * (place.abs() + size)
        lower = near.trunc() - (near < 0).to(place.dtype)
        share = (place - lower).unsqueeze(1).double()
        lower = lower.long().unsqueeze(1)
        sides.append(((lower, lower >= 0, 1 - share), (lower + 1, lower + 1 < size, share)))
    found = torch.zeros(count, channels, *grid.shape[1:3], dtype=x.dtype)
    known = torch.ones(found.shape, dtype=torch.bool)
    for row, row_counts, row_share in sides[0]:
        for column, counts, share in sides[1]:
            at = (plane * height + row) * width + column
            read, inside = row_counts & counts, (at >= 0) & (at < memory)
            value = flat[at.clamp(0, memory - 1)]
            found += torch.where(read & inside, value, 0.0) * row_share * share
            known &= inside | ~read
    return found, known


def _resize(i: int, layer: Layer) -> Iterator[Candidate]:
    a = layer.attrs
    mode, rule = a.get("mode", "nearest"), a.get("coordinates", "half_pixel")
    near = a.get("nearest", "round_prefer_floor")
    ways = [
        (m, c, n)
        for m in ("nearest", "linear", "cubic")
        for c in _COORDINATES
        for n in (_NEAREST if m == "nearest" else (near,))
    ]
    # Ways that differ in one respect come first and are the simpler ones.
    for m, c, n in sorted(ways, key=lambda w: (w[0] != mode) + (w[1] != rule) + (w[2] != near)):
        apart = {
            name: (ours, theirs)
            for name, ours, theirs in (("mode", mode, m), ("coordinates", rule, c), ("rounding", near, n))
            if ours != theirs
        }
        if not apart:
            continue
        ours, theirs = ("/".join(v[k] for v in apart.values()) for k in (0, 1))
        found = fact("resize.another", attributes=tuple(apart), network=ours, twin=theirs)
        way = changed("resize", found, i, mode=m, coordinates=c, nearest=n)
        yield replace(way, cost=1.0 + 0.1 * (len(apart) - 1))
    if mode == "cubic":
        for value in (-0.5, -0.75, -1.0):
            if value != (ours := a.get("cubic_a", -0.75)):
                yield changed("resize", fact("resize.cubic", network=ours, twin=value), i, cubic_a=value)
    for name in ("antialias", "exclude_outside"):
        ours = bool(a.get(name, False))
        found = fact("resize.switched", attribute=name, network=ours, twin=not ours)
        yield changed("resize", found, i, **{name: not ours})
