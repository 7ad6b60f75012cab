"""A candidate with its cause repaired: a repro that still fails then shows something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twinnet.pairing import IDENTITY
from twinnet.result import Fact
from twinnet.shrink.seed import Link, Runner
from twinnet.shrink.steps import Steps, with_range, with_read_steps, with_weights_repaired

if TYPE_CHECKING:
    from twinnet.shrink.trial import Candidate

__all__ = ["Repair", "other_engine", "own_file", "own_steps"]


@dataclass(frozen=True)
class Repair:
    """The repaired candidate, the engine that runs its twin, and what was repaired, in words."""

    candidate: Candidate
    side: Runner
    what: str


def other_engine(candidate: Candidate, twin: Runner, other: Runner) -> Repair | None:
    """The same file under another engine, for a fault that is the engine's."""
    if not other.engine or (other.engine, dict(other.options)) == (twin.engine, dict(twin.options)):
        return None
    return Repair(candidate, other, f"the same file under {other}")


def own_file(candidate: Candidate, twin: Runner) -> Repair:
    """The network's file under the twin's engine, for a fault that is the file's."""
    links: Mapping[str, Link] = {
        n: Link(n, n, replace(IDENTITY)) for n in (*candidate.feeds, *candidate.outputs)
    }
    whole = replace(candidate, twin=candidate.network, links=links)
    return Repair(whole, twin, "network.onnx in place of twin.onnx")


def own_steps(candidate: Candidate, steps: Steps, output: str, cause: Fact, twin: Runner) -> Repair | None:
    """The twin's file with the quantisation repaired that the cause names; None if it names something else."""
    target = steps.pairs[output].twin_site.tensor
    if cause.code in ("steps.range", "steps.below"):
        names = steps.declared.step_names(target)
        if cause.code == "steps.below":
            low, high = 0.0, float(cause.params["high"]) - float(cause.params["low"])
        else:
            low, high = (float(v) for v in cause.params["network"])
        made = with_range(candidate, output, names, (low, high)) if names else None
        what = f"a range of {target} that holds [{low:.4g}, {high:.4g}]"
        return None if made is None else Repair(made, twin, what)
    if cause.code.startswith("steps.read_"):
        taken = {
            k.twin: k.transform
            for n in candidate.feeds
            if (k := candidate.links.get(n)) is not None and k.transform.scale is not None
        }
        model = with_read_steps(candidate.twin, {**steps.declared.written, **taken})
        what = "data read with the steps they were written with"
        return None if model is None else Repair(replace(candidate, twin=model), twin, what)
    kept = steps.kept(output) if cause.code.startswith("steps.") else None
    model = with_weights_repaired(candidate.twin, kept, cause) if kept is not None else None
    if model is None:
        return None
    return Repair(replace(candidate, twin=model), twin, "the network's weights in the twin's steps")
