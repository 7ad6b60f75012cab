"""Resize: mode, coordinates, rounding; grid sampling: mode, border, corners."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from twinnet.blame.causes.family import Candidate, changed, family
from twinnet.blame.problem import Problem
from twinnet.layers.graph import Layer
from twinnet.result import fact

_COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
_NEAREST = ("floor", "round_prefer_floor", "round_prefer_ceil", "ceil")


@family
def propose(problem: Problem) -> Iterator[Candidate]:
    for i, layer in enumerate(problem.layers):
        if layer.kind == "resize":
            yield from _resize(i, layer)
        elif layer.kind == "grid_sample":
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
