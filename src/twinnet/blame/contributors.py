"""Contributors: segments whose error is within budget, ranked by their impact on the output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from twinnet.blame.context import Blame, Context, error_of, impact_and_share
from twinnet.errors import EngineError
from twinnet.pairing import Pair

__all__ = ["rank", "strongest"]

_HELD = 256 << 20


def rank(pairs: Iterable[tuple[Pair, float]], context: Context, *, most: int = 16) -> dict[str, Blame]:
    """Impact of each segment's born error on the output, by network tensor, the largest first.

    `pairs` come with their ratio. Computing an impact means evaluating everything after the segment, so segments are
    first sorted by their relative error, and only the impact of the first `most` is computed.
    """
    found: list[tuple[float, float, str, torch.Tensor]] = []
    for pair, ratio in pairs:
        try:
            found_here = error_of(pair, context)
            if found_here is None:
                continue
            error, expected = found_here
            born = torch.where(error.isfinite(), error, 0.0)
            size = _rms(born) / max(_rms(expected), 2.0**-126)
        except EngineError:
            continue
        if size > 0:
            found.append((size, ratio, pair.site.tensor, born))
            found = _first(sorted(found, key=lambda row: row[0], reverse=True)[:most])
    ranked: dict[str, Blame] = {}
    for _, ratio, tensor, born in found:
        try:
            impact, share = impact_and_share(tensor, born, context)
        except EngineError:
            continue
        if impact:
            ranked[tensor] = Blame(ratio, impact=impact, born_share=share)
    return dict(sorted(ranked.items(), key=lambda item: item[1].impact or 0.0, reverse=True))


def strongest(known: Mapping[str, Blame], found: Mapping[str, Blame], most: int) -> dict[str, Blame]:
    """Merge two rankings: the first `most`, each segment with the larger of its impacts.

    >>> strongest({"a": Blame(1, impact=2.0)}, {"a": Blame(1, impact=1.0), "b": Blame(1, impact=3.0)}, 2)["a"].impact
    2.0
    """
    both = dict(known)
    for tensor, blame in found.items():
        if tensor not in both or (blame.impact or 0.0) > (both[tensor].impact or 0.0):
            both[tensor] = blame
    ranked = sorted(both.items(), key=lambda item: item[1].impact or 0.0, reverse=True)
    return dict(ranked[:most])


def _first(
    rows: list[tuple[float, float, str, torch.Tensor]],
) -> list[tuple[float, float, str, torch.Tensor]]:
    """The first rows that fit into memory together; at least one."""
    held = 0
    for count, row in enumerate(rows):
        held += row[3].numel() * row[3].element_size()
        if held > _HELD and count:
            return rows[:count]
    return rows


def _rms(t: torch.Tensor) -> float:
    finite = t[t.isfinite()]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0
