"""A plan as an ONNX model of standard operators: any runtime can run it, and gets the same integers.

The graph takes `image`, uint8 [planes, rows, columns], and gives `result`, uint8 [planes, channels, rows',
columns']. Values are int64 throughout, tables stay int8, and each requantisation is done in double, step
by step. Tensors that hold a site's numbers carry its name (`PAYLOAD_LAST` after it where the payload is the last axis),
so that sites can be tapped by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.extras import optional_packages
from twinnet.files import atomic_write
from twinnet.lut._onnx_graph import GraphWriter
from twinnet.lut._onnx_lookup import lookup
from twinnet.lut.plan import INPUT, Plan, Plane, Stage, Term, turn

if TYPE_CHECKING:
    from twinnet.lut.net import LutNet

__all__ = ["PAYLOAD_LAST", "to_onnx"]

PAYLOAD_LAST = ":payload-last"
"""Ends the name of a tensor [planes, rows, columns, payload] that holds a site [planes, payload, rows, columns]."""

OPSET = 18
"""Old enough for every current runtime, new enough for axes as inputs of all reductions."""


def to_onnx(network: LutNet | Plan, path: str | Path | None = None, record: bool = False) -> Any:
    """The ONNX model of a plan, or of a network in table mode; written to `path` if one is given.

    With `record`, every site is an output too, under its own name and as in `twinnet.lut.plan.sites`.

    >>> from twinnet.lut import export
    >>> from twinnet.restore.nets import srlut
    >>> model = to_onnx(export(srlut.build("V", scale=2, width=4)))
    >>> [o.name for o in model.graph.output]
    ['result']
    """
    with optional_packages():
        import onnx
    if isinstance(network, Plan):
        plan = network
    else:
        from twinnet.lut.lowering import lower

        plan = lower(network)
    model = _Writer(plan, record).model()
    onnx.checker.check_model(model)
    if path is not None:
        if not Path(path).parent.is_dir():
            raise UsageError(f"no such folder: {Path(path).parent}")
        atomic_write(path, model.SerializeToString())
    return model


class _Writer(GraphWriter):
    """Writes the graph of one plan."""

    def __init__(self, plan: Plan, record: bool) -> None:
        super().__init__()
        self.plan, self.recording = plan, record
        self.outputs: list[tuple[str, int, int]] = []

    def note(self, name: str, tensor: str, dtype: Any) -> str:
        """Make a site an output, or give its tensor the site's name; returns what the tensor is called now."""
        from onnx import helper

        maker = self.makers.get(tensor)
        if not self.recording and maker is not None and tensor not in self.read:
            maker.output[0] = name
            del self.makers[tensor]
            return name
        if self.recording:
            self.nodes.append(helper.make_node("Identity", [tensor], [name], name=f"site:{name}"))
            self.outputs.append((name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), 4))
        return tensor

    # -- the graph -------------------------------------------------------------------------------------------

    def model(self) -> Any:
        from onnx import TensorProto, helper

        unsqueezed = self.op("Unsqueeze", "image", self.constant([1]))
        registers = {INPUT: self.cast(unsqueezed, np.int64)}
        for stage in self.plan.stages:
            registers[stage.name] = self.stage(stage, registers)
        result = self.cast(registers[self.plan.stages[-1].name], np.uint8)
        self.nodes.append(helper.make_node("Identity", [result], ["result"], name="result"))
        image = helper.make_tensor_value_info("image", TensorProto.UINT8, ["planes", "rows", "columns"])
        outs = [
            helper.make_tensor_value_info(
                "result", TensorProto.UINT8, ["planes", self.plan.channels, None, None]
            )
        ]
        outs += [
            helper.make_tensor_value_info(name, kind, [None] * rank) for name, kind, rank in self.outputs
        ]
        graph = helper.make_graph(self.nodes, "lut", [image], outs, list(self.initializers.values()))
        model = helper.make_model(
            graph, producer_name="twinnet", opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8
        )
        model.doc_string = f"lookup-table network, x{self.plan.scale}, {len(self.plan.tables)} tables"
        return model

    def stage(self, stage: Stage, registers: dict[str, str]) -> str:
        total: str | None = None
        for group in stage.groups:
            terms = [term for term in stage.terms if term.group == group]
            prefix = f"{stage.name}.{group}" if group else stage.name
            self.note_planes(f"{prefix}.input.x", terms[0].sample.planes, registers)
            blended = [term.blend for term in terms if term.blend is not None]
            if blended:
                self.note_planes(f"{prefix}.input.prev_x", blended[0].planes, registers)
            part: str | None = None
            for term in terms:
                table = self.plan.tables[term.table]
                factor = stage.denominator // term.denominator(table)
                # All rotations go through the table at once, stacked along the planes.
                turned = [self.values(term, stage.cell, registers, r) for r in term.rotations]
                stacked = self.op("Concat", *turned, axis=0) if len(turned) > 1 else turned[0]
                numerators = lookup(self, term, table, stacked)
                for k, r in enumerate(term.rotations):
                    source = registers[term.sample.planes[0].register]
                    numerator = self.share(numerators, k, source) if len(turned) > 1 else numerators
                    site = f"{stage.name}.{term.name}.rot{r}"
                    if self.recording:
                        raw = self.op("Transpose", numerator, perm=[0, 3, 1, 2])
                        self.note(f"{site}.sr", raw, np.int64)
                    else:
                        numerator = self.note(f"{site}.sr{PAYLOAD_LAST}", numerator, np.int64)
                    placed = self.note(site, self.place(numerator, stage, r), np.int64)
                    placed = placed if factor == 1 else self.op("Mul", placed, self.constant(factor))
                    part = placed if part is None else self.op("Add", part, placed)
            assert part is not None
            if group:
                part = self.note(prefix, part, np.int64)
            total = part if total is None else self.op("Add", total, part)
        assert total is not None
        return self.note(stage.name, self.requant(stage, total), np.int64)

    def share(self, stacked: str, k: int, source: str) -> str:
        """The k-th rotation of stacked numerators; `source` has as many planes as one of them."""
        planes = self.once(("planes", source), lambda: self.op("Shape", source, start=0, end=1))
        start = self.op("Mul", planes, self.constant([k]))
        return self.op("Slice", stacked, start, self.op("Add", start, planes), self.constant([0]))

    def note_planes(self, name: str, planes: Sequence[Plane], registers: dict[str, str]) -> None:
        if self.recording:
            found = [
                self.op("Unsqueeze", self.plane(p, registers), self.constant([1]))
                for p in dict.fromkeys(planes)
            ]
            self.note(name, self.op("Concat", *found, axis=1) if len(found) > 1 else found[0], np.int64)

    def plane(self, plane: Plane, registers: dict[str, str]) -> str:
        """[planes, rows, columns]."""
        register = registers[plane.register]
        return self.once(
            ("plane", plane), lambda: self.op("Gather", register, self.constant(plane.channel), axis=1)
        )

    def coordinates(self, plane: Plane, name: str, axis: int, offset: int, cell: int, padding: str) -> str:
        """Source positions of all sites along one axis, mapped back inside."""
        size = self.once(
            ("size", plane.register, axis),
            lambda: self.op("Squeeze", self.op("Shape", name, start=axis, end=axis + 1), self.constant([0])),
        )
        zero, one = self.constant(0), self.constant(1)

        def make() -> str:
            start = self.op("Range", zero, size, self.constant(cell))
            moved = self.op("Add", start, self.constant(offset)) if offset else start
            last = self.op("Sub", size, one)
            if padding == "edge":
                return self.op("Min", self.op("Max", moved, zero), last)
            period = self.op("Mul", last, self.constant(2))
            # A single pixel has period 0; dividing by 1 then gives position 0, as it should.
            folded = self.op("Mod", moved, self.op("Max", period, one))
            mirrored = self.op("Sub", period, folded)
            return self.op("Where", self.op("Less", folded, size), folded, mirrored)

        return self.once(("at", plane.register, axis, offset, cell, padding), make)

    def pixels(
        self, term: Term, planes: Sequence[Plane], cell: int, registers: dict[str, str], r: int
    ) -> str:
        """[planes, site rows, site columns, offsets]."""
        taps = []
        for p, offset in enumerate(term.sample.offsets):
            plane = planes[0] if len(planes) == 1 else planes[p]
            name = self.plane(plane, registers)
            ty, tx = turn(offset, r, cell)
            rows = self.coordinates(plane, name, 1, ty, cell, term.sample.padding)
            columns = self.coordinates(plane, name, 2, tx, cell, term.sample.padding)
            tap = self.op("Gather", self.op("Gather", name, rows, axis=1), columns, axis=2)
            taps.append(self.op("Unsqueeze", tap, self.constant([3])))
        return self.op("Concat", *taps, axis=3) if len(taps) > 1 else taps[0]

    def fixed(self, term: Term, pixels: str) -> str:
        sample = term.sample
        if sample.weights is None:
            return (
                pixels
                if not sample.value_bits
                else self.op("Mul", pixels, self.constant(1 << sample.value_bits))
            )
        shift = sample.weight_bits - sample.value_bits
        summed = self.op("MatMul", pixels, self.constant(np.array(sample.weights).T))
        return self.rounded(summed, shift)

    def rounded(self, name: str, shift: int) -> str:
        """Divide by 2^shift, half up; values are not negative, so a plain integer division floors."""
        if not shift:
            return name
        return self.op(
            "Div", self.op("Add", name, self.constant(1 << (shift - 1))), self.constant(1 << shift)
        )

    def values(self, term: Term, cell: int, registers: dict[str, str], r: int) -> str:
        values = self.fixed(term, self.pixels(term, term.sample.planes, cell, registers, r))
        blend = term.blend
        if blend is None:
            return values
        other = self.fixed(term, self.pixels(term, blend.planes, cell, registers, r))
        one = 1 << blend.gain_bits
        first = self.op("Mul", other, self.constant(np.array(blend.gains)))
        second = self.op("Mul", values, self.constant(one - np.array(blend.gains)))
        return self.rounded(self.op("Add", first, second), blend.gain_bits)

    # -- after the tables ------------------------------------------------------------------------------------

    def place(self, numerator: str, stage: Stage, r: int) -> str:
        """[planes, channels, rows, columns]: the payload reordered for the rotation, then a pixel shuffle."""
        n = stage.upscale
        order = np.arange(stage.channels * n * n).reshape(stage.channels, n, n)
        turned = np.rot90(order, -r, (1, 2)).reshape(-1)
        if r and n > 1:
            numerator = self.op("Gather", numerator, self.constant(turned), axis=3)
        shape = self.op("Shape", numerator, start=0, end=3)
        split = self.op("Concat", shape, self.constant([stage.channels, n, n]), axis=0)
        blocks = self.op("Transpose", self.op("Reshape", numerator, split), perm=[0, 3, 1, 4, 2, 5])
        batch = self.op("Slice", shape, self.constant([0]), self.constant([1]))
        sides = self.op(
            "Mul", self.op("Slice", shape, self.constant([1]), self.constant([3])), self.constant(n)
        )
        flat = self.op("Concat", batch, self.constant([stage.channels]), sides, axis=0)
        return self.op("Reshape", blocks, flat)

    def requant(self, stage: Stage, total: str) -> str:
        x = self.op("Div", self.cast(total, np.float64), self.constant(stage.denominator, np.float64))
        for step in stage.requant.steps:
            kind, *values = step
            constants = [self.constant(v, np.float64) for v in values]
            if kind == "clip":
                x = self.op("Min", self.op("Max", x, constants[0]), constants[1])
            else:
                names = {"div": "Div", "mul": "Mul", "add": "Add", "round": "Round"}
                x = self.op(names[kind], x, *constants)
        return self.cast(x, np.int64)
