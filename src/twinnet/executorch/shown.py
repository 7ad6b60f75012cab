"""The tensors that a recording shows, each with the name it has in the exported program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from twinnet.executorch.dump import Run, TensorAt, tensors_of
from twinnet.executorch.record import Method, Node, Record
from twinnet.executorch.sources import Sources, kernel_names
from twinnet.site import Site

__all__ = ["Shown", "shown_tensors"]


@dataclass(frozen=True, slots=True)
class Shown:
    """One tensor of a recording and its site."""

    site: Site
    tensor: TensorAt


def shown_tensors(run: Run, record: Record | None = None, method: str = "forward") -> tuple[Shown, ...]:
    """The tensors of one execution in order: results of instructions, then the program's outputs.

    With an ETRecord they have the names of the exported program, where an instruction makes a value of it; operators
    that exist only in the lowered program keep the names they have there. Without, they are numbered.
    """
    made = _Names(run, record, method)
    found: dict[str, Shown] = {}
    for name, site, tensor in made.all():
        if site.role == "output":
            found.pop(name, None)
        while name in found:  # an instruction in a loop
            name += "'"
        dtype = "" if tensor.dtype is None else tensor.dtype.name
        found[name] = Shown(replace(site, tensor=name, shape=tensor.shape, dtype=dtype), tensor)
    return tuple(found.values())


class _Names:
    def __init__(self, run: Run, record: Record | None, method: str) -> None:
        self._run = run
        self._record = record
        self._kernels = kernel_names([run])
        self._method: Method | None = None if record is None else record.method(method)
        self._sources = None if self._method is None else Sources.of(self._method, [run])
        self._exported = {} if record is None or record.exported is None else _by_name(record.exported.nodes)
        self._taken = {name for node in self._exported.values() for name in (node.name, *node.outputs)}
        self._last = self._last_of_origin()

    def all(self) -> Iterator[tuple[str, Site, TensorAt]]:
        grouped: dict[tuple[int, int, int | str | None], list[TensorAt]] = {}
        outputs: list[TensorAt] = []
        for value in self._run.values:
            if value.output:
                outputs += tensors_of(value)
            else:
                grouped.setdefault((value.chain, value.instruction, value.delegate), []).extend(
                    tensors_of(value)
                )
        for (_, instruction, delegate), tensors in grouped.items():
            yield from self._of(instruction, delegate, tensors)
        yield from self._outputs(outputs)

    def _of(
        self, instruction: int, delegate: int | str | None, tensors: Sequence[TensorAt]
    ) -> Iterator[tuple[str, Site, TensorAt]]:
        kernel = self._kernels.get(instruction, "delegate")
        nodes = () if self._sources is None else self._sources.nodes.get(instruction, ())
        count = None if self._sources is None else self._sources.outs.get(instruction)
        results = tensors if count is None or delegate is not None else tensors[len(tensors) - count :]
        ends = self._ends(instruction, nodes) if delegate is None else []
        for index, tensor in enumerate(results):
            if not tensor.shape or 0 not in tensor.shape:
                node, at = ends[index] if len(ends) == len(results) else (None, 0)
                name = "" if node is None else self._name(instruction, node, at, tensor)
                plain = f"{instruction}.{kernel}" if delegate is None else f"{instruction}.{delegate}"
                plain += f".{index}" if len(results) > 1 else ""
                yield name or plain, _site(plain, node, kernel, index), tensor

    def _ends(self, instruction: int, nodes: Sequence[Node]) -> list[tuple[Node, int]]:
        """The results of an instruction, as outputs of nodes; of a delegate those that others read."""
        assert self._sources is not None or not nodes
        if len(nodes) == 1 and instruction not in (self._sources.backends if self._sources else ()):
            return [(nodes[0], i) for i in range(len(nodes[0].outputs))]
        inside = {node.name for node in nodes}
        method = self._method
        if method is None:
            return []
        read = {n for node in method.nodes if node.name not in inside for n in node.inputs} | set(
            method.outputs
        )
        return [(node, i) for node in nodes for i, name in enumerate(node.outputs) if name in read]

    def _name(self, instruction: int, node: Node, index: int, tensor: TensorAt) -> str:
        """The value's name in the exported program, or in the lowered one."""
        assert self._record is not None
        exported = self._record.exported
        origin = self._exported.get(self._record.origin(node))
        if exported is not None and origin is not None and self._last.get(origin.name) == node.name:
            # Of an operator with several results that was taken apart, nobody knows which is where.
            alike = len(origin.outputs) == len(node.outputs) or (len(origin.outputs) == 1 and index == 0)
            name = origin.outputs[index] if alike else ""
            fits = exported.shapes.get(name, tensor.shape) == tensor.shape
            if name and fits and exported.codes.get(name, -1) in (-1, tensor.code):
                return name
        own = node.outputs[index]
        return own if own not in self._taken else f"{instruction}.{own}"

    def _last_of_origin(self) -> dict[str, str]:
        """Of all operators made from one, the last holds its value."""
        found: dict[str, str] = {}
        if self._record is not None and self._method is not None:
            for node in self._method.nodes:
                if origin := self._record.origin(node):
                    found[origin] = node.name
        return found

    def _outputs(self, tensors: Sequence[TensorAt]) -> Iterator[tuple[str, Site, TensorAt]]:
        exported = None if self._record is None else self._record.exported
        names = () if exported is None else exported.outputs
        made = {name: node for node in self._exported.values() for name in node.outputs}
        for index, tensor in enumerate(tensors):
            plain = f"output.{index}"
            name = names[index] if len(names) == len(tensors) else plain
            yield name, _site(name, made.get(name), "output", 0, role="output"), tensor


def _by_name(nodes: Sequence[Node]) -> dict[str, Node]:
    return {node.name: node for node in nodes}


def _site(name: str, node: Node | None, kernel: str, index: int, **more: str) -> Site:
    if node is None:
        return Site(name, name, kernel, index=index, **more)  # type: ignore[arg-type]
    op = node.op.split(".")
    return Site(
        name,
        node.name,
        op[1] if len(op) > 1 else node.op,
        node.module,
        node.call,
        index,
        node.source,
        **more,  # type: ignore[arg-type]
    )
