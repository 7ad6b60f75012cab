"""Times of the operators of a TFLite file, each run alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from twinnet.engines._litert_child import Child
from twinnet.engines.timing import WARM_UP, LayerTime, Span, undisturbed
from twinnet.errors import EngineError
from twinnet.tflite.cut import Cutter
from twinnet.tflite.model import Subgraph

__all__ = ["operator_times"]


def operator_times(
    graph: Subgraph,
    cutter: Cutter,
    values: Mapping[int, np.ndarray],
    computed: Collection[int],
    child: Child,
    settings: Callable[[Any, bool], Mapping[str, Any]],
    runs: int,
) -> tuple[LayerTime, ...]:
    """Every operator that can be run alone, in order; one that cannot has no spans.

    `values` are tensors of a whole run, `computed` those that depend on an input.
    """
    steps = []
    file = child.folder / "operator.tflite"
    for index, op in enumerate(graph.operators):
        made = [t for t in op.outputs if t >= 0 and t in computed]
        if not made:
            continue
        child.job.progress(f"timing {op.label}", index / len(graph.operators))
        read = list(dict.fromkeys(t for t in op.inputs if t >= 0 and t in values and t in computed))
        spans: tuple[Span, ...] = ()
        try:
            data, place = cutter.cut([index], read, made)
            file.write_bytes(data)
            feeds = {place[t]: values[t] for t in read}
            loaded = child.load(file, settings([(t, a.shape) for t, a in feeds.items()], False))
            times = undisturbed(*loaded.time(feeds, runs))
            loaded.drop()
            spans = tuple(Span(number, one) for number, one in enumerate(times[WARM_UP:]))
        except EngineError:
            pass  # it needs the rest of the graph: a variable, another subgraph
        names = tuple(graph.tensors[t].name for t in made)
        readers = [o for o in graph.operators if set(made) & set(o.inputs)]
        toward = tuple(dict.fromkeys(graph.tensors[t].name for o in readers for t in o.outputs if t >= 0))
        steps.append(LayerTime(names[0], op.label, spans, names, toward=toward))
    return tuple(steps)
