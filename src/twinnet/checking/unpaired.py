"""What to tell and write about names that nothing pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinnet.errors import EngineError
from twinnet.name_map import write_name_map
from twinnet.pairing import Pairing
from twinnet.pairing.likely import likely_pairs
from twinnet.site import Site
from twinnet.trace import Trace

__all__ = ["nothing_pairs", "write_names"]

_SHOWN = 6


def write_names(path: str | Path, pairing: Pairing, trace: Trace, twin_trace: Trace) -> None:
    """Write the map of names as it is, with the most likely partners of the rest, for `--names` (see there)."""
    called = _called(pairing.sites)
    sure = {called[p.site.tensor]: p.twin_site.tensor for p in pairing.pairs}
    likely = {called[a.tensor]: b.tensor for a, b in likely_pairs(pairing, trace, twin_trace)}
    ours = [called[s.tensor] for s in pairing.unmatched if called[s.tensor] not in likely]
    theirs = [s.tensor for s in pairing.unmatched_twin if s.tensor not in likely.values()]
    write_name_map(path, sure, likely, (ours, theirs))


def nothing_pairs(
    pairing: Pairing, trace: Trace, twin_trace: Trace, written: str | Path | None
) -> EngineError:
    """The error of a twin none of whose tensors could be paired: what there is on both sides, and what to do."""
    called = _called(pairing.sites)
    lines = [
        "no tensor of the twin could be paired with the network",
        f"the network has {_listed([called[s.tensor] for s in pairing.sites])}",
        f"the twin has {_listed([s.tensor for s in pairing.twin_sites])}",
    ]
    likely = likely_pairs(pairing, trace, twin_trace)
    if likely:
        lines.append(f"most likely {_listed([f'{called[a.tensor]} = {b.tensor}' for a, b in likely])}")
    hint = "--names FILE says which is which"
    if written is not None:
        hint = f"the most likely map is in {written}: edit it, and pass it with --names"
    return EngineError("\n".join(lines), stage="names", hint=hint)


def _called(sites: Sequence[Site]) -> dict[str, str]:
    """What the user calls each tensor: an output by its name, what a module returns by the module."""
    outputs = {site.output for site in sites}
    last = {site.module: site.tensor for site in sites if site.module and site.module not in outputs}
    return {s.tensor: s.output or (s.module if last.get(s.module) == s.tensor else s.tensor) for s in sites}


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
