"""Where an engine begins to refuse a network, found by opening parts of it: nothing is judged."""

from __future__ import annotations

import sys
from collections.abc import Callable

from twinnet.checking.case import placed
from twinnet.checking.options import Options
from twinnet.cutting import Cut
from twinnet.engines import Spec, find_engine
from twinnet.errors import EngineError
from twinnet.job import Job

__all__ = ["first_refused", "opens", "refusing_modules"]


def opens(cut: Cut, twin: Spec, options: Options) -> bool:
    """Whether a cut can be converted, loaded and run; that takes a fraction of a check."""
    spec = placed(twin, options.on)
    assert isinstance(spec, Spec)
    try:
        session = spec.open(cut.network, _job(cut, options))
        try:
            session.run(cut.samples[0])
        finally:
            session.close()
    except EngineError:
        return False
    return True


def first_refused(last: int, opened: Callable[[int], bool]) -> int:
    """The first of the numbers 0 to `last` that is refused; `last` is known to be, and so is all above a refused one.

    >>> first_refused(9, lambda i: i < 6)
    6
    """
    low, high = -1, last
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if opened(middle) else (low, middle)
    return high


def refusing_modules(cut: Cut, twin: Spec, options: Options) -> list[str]:
    """Modules whose nodes are the first that an engine refuses in the exported ONNX file.

    For engines that take ONNX: parts of the file, which was exported for the check, need no further export. Empty if
    that does not tell.
    """
    if find_engine(twin.engine).takes != "onnx" or cut.network.format == "ONNX":
        return []
    from twinnet.cutting.onnx import OnnxCutter
    from twinnet.ladder.graph_source import GraphSource
    from twinnet.onnx.export import onnx_artefact

    try:
        artefact = onnx_artefact(cut.network, None, _job(cut, options))
        samples = [artefact.feeds(cut.samples[0])]
        file = GraphSource(artefact.network, OnnxCutter(artefact.network), samples, most=sys.maxsize)
        last = len(file.places) - 1
        place = first_refused(last, lambda i: opens(file.prefix(i), twin, options))
    except EngineError:  # it is not exported at all
        return []
    made = [value for node in file.nodes_of(place) for value in node.makes]
    found = (artefact.origin[value].module for value in made if value in artefact.origin)
    return list(dict.fromkeys(filter(None, found)))


def _job(cut: Cut, options: Options) -> Job:
    limits = options.limits
    return Job(
        inputs=cut.samples[0],
        samples=cut.samples,
        threads=limits.threads,
        time_limit=limits.time_limit,
        memory=limits.memory,
        report=options.progress,
    )
