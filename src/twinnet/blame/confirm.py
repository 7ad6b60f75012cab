"""A finding is confirmed where the twin's segment, run alone on the inputs it had, still shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.blame.context import Context, outside
from twinnet.engines._floats import own_floats
from twinnet.errors import TwinnetError
from twinnet.pairing import Pair

if TYPE_CHECKING:
    from twinnet.engines.base import Session
    from twinnet.judge.verdicts import Born

__all__ = ["ALONE", "CONTEXT", "confirm"]

ALONE = "the twin's segment alone shows it"
CONTEXT = "only in context: the twin's segment alone does not show it"


def confirm(
    pair: Pair,
    context: Context,
    twin: Session,
    options: Mapping[str, str],
    judge: Callable[[Pair, Mapping[str, np.ndarray]], Born],
) -> tuple[bool | None, str]:
    """Whether the segment of a failing pair fails alone too, and that in words; None where it cannot be run alone.

    `options` are those of the twin's engine. `judge` judges the pair with another trace of the twin.
    """
    try:
        from twinnet.engines._onnx_cut import between, build
        from twinnet.engines._onnx_graph import OnnxGraph
        from twinnet.engines.alone import SIDES
    except ImportError:
        return None, "onnx is not installed"
    artefact, target = twin.artefact, pair.twin_site.tensor
    if artefact is None or twin.engine not in SIDES:
        return None, f"{twin.engine} cannot run a part of the twin alone"
    graph = OnnxGraph(artefact.model)
    found = context.frontier(pair) if pair.site.tensor in context.graph.producer else None
    known = outside(pair, found[0] if found else (), context)
    fed = {p.twin_site.tensor for p in known} | set(twin.inputs.values())
    try:
        nodes, read = between(graph, [target], fed - {target})
        feeds = {n: np.asarray(context.twin_trace[n]) for n in read}
        model = build(graph, nodes, feeds, [target], artefact.network.weights())
        with own_floats():
            alone = SIDES[twin.engine](model.SerializeToString(), dict(options), feeds)[target]
    except (TwinnetError, KeyError) as error:
        return None, f"its segment could not be cut out: {error}"
    except Exception as error:  # whatever the engine throws at a part it does not like
        first = str(error).strip().splitlines() or [type(error).__name__]
        return None, f"its segment could not be run alone: {first[0][:160]}"
    born = judge(pair, _Instead(context.twin_trace, target, np.asarray(alone)))
    if born.status == "fail":
        return True, ALONE
    return False, CONTEXT


class _Instead(Mapping[str, Any]):
    """A trace with one tensor replaced."""

    def __init__(self, trace: Mapping[str, Any], name: str, array: np.ndarray) -> None:
        self._trace, self._name, self._array = trace, name, array

    def __getitem__(self, name: str) -> Any:
        return self._array if name == self._name else self._trace[name]

    def __iter__(self) -> Any:
        return iter(self._trace)

    def __len__(self) -> int:
        return len(self._trace)
