"""Which operators of a TFLite file a delegate takes over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twinnet.engines._litert_child import Child
from twinnet.job import Job
from twinnet.tflite.network import TfliteNetwork

__all__ = ["Assignment", "assignment"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """Operators (by index) that the delegate runs, and how many pieces of the network it runs as one."""

    delegated: frozenset[int]
    pieces: int


def assignment(network: TfliteNetwork) -> Assignment:
    """Load a file and see what XNNPACK takes.

    An interpreter that keeps all tensors delegates every operator by itself, so that each can be told; one as deployed
    shows the pieces.
    """
    graph = network.model.main
    shapes = {
        t: tuple(n if isinstance(n, int) else 1 for n in graph.tensors[t].shape or ()) for t in graph.inputs
    }
    child = Child(Job({}))
    try:
        file = child.folder / "network.tflite"
        file.write_bytes(network.data)
        settings = {"kernels": "xnnpack", "threads": 1, "delegate": None, "shapes": _lists(shapes)}
        alone = child.load(file, {**settings, "preserve": True}).steps()
        whole = child.load(file, {**settings, "preserve": False}).steps()
    finally:
        child.close()
    made = {t for step in alone if step["op"] == "DELEGATE" for t in step["outputs"]}
    taken = frozenset(o.index for o in graph.operators if o.outputs and made.issuperset(o.outputs))
    return Assignment(taken, sum(step["op"] == "DELEGATE" for step in whole))


def _lists(shapes: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return {str(t): list(shape) for t, shape in shapes.items()}
