"""What the instructions of a recording stand for: the operators of the program they were made from.

A device logs instruction numbers only. An ETRecord maps each to debug handles, and handles to operators; operators made
from one operator share a handle, so they are told apart by their order and their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinnet.executorch.dump import Run
from twinnet.executorch.record import Method, Node

__all__ = ["Sources", "same_op"]


@dataclass(frozen=True)
class Sources:
    """The operators behind each instruction of a method."""

    nodes: Mapping[int, tuple[Node, ...]]
    """In order; several for a delegate, where all are inside it."""
    handles: Mapping[int, tuple[int, ...]]
    backends: Mapping[int, str]
    outs: Mapping[int, int]

    @staticmethod
    def of(method: Method, runs: Sequence[Run] = ()) -> Sources:
        """Join a method with the names that its instructions were logged under."""
        kernels = kernel_names(runs)
        by_handle: dict[int, list[Node]] = {}
        for node in method.nodes:
            if node.handle is not None:
                by_handle.setdefault(node.handle, []).append(node)
        found: dict[int, tuple[Node, ...]] = {}
        delegates: list[int] = []
        for instruction, handles in sorted(method.handles.items()):
            if instruction in method.backends or len(handles) > 1:
                delegates.append(instruction)
            elif handles and (left := by_handle.get(handles[0])):
                found[instruction] = _taken(left, kernels.get(instruction))
        # What has an instruction of its own is in no delegate, although the handle may be.
        for instruction in delegates:
            inside = [
                n
                for h in method.handles[instruction]
                if (left := by_handle.get(h))
                for n in _taken(left, None)
            ]
            found[instruction] = tuple(inside)
        return Sources(found, method.handles, method.backends, method.outs)


def kernel_names(runs: Sequence[Run]) -> dict[int, str]:
    """The operator that each instruction called, without its overload."""
    found: dict[int, str] = {}
    for run in runs:
        for step in run.steps:
            if step.delegate is None and step.name.startswith("native_call_"):
                found.setdefault(step.instruction, step.name.removeprefix("native_call_").partition(".")[0])
    return found


def _taken(left: list[Node], kernel: str | None) -> tuple[Node, ...]:
    """Take the next operator of a handle that runs as this kernel; none if a pass put the kernel there."""
    for index, node in enumerate(left):
        if kernel is None or same_op(node.op, kernel):
            return (left.pop(index),)
    return ()


def same_op(op: str, kernel: str) -> bool:
    """Whether an operator of a program runs as a kernel of that name.

    >>> same_op("aten.mul.Tensor", "mul"), same_op("aten.view.default", "view_copy"), same_op("aten.add.Tensor", "mul")
    (True, True, False)
    """
    parts = op.split(".")
    name = parts[1] if len(parts) > 1 else parts[0]
    plain = kernel.rpartition("::")[2]
    return name == plain or name == plain.removesuffix("_copy") or f"{name}_copy" == plain
