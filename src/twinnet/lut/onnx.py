"""A plan as an ONNX model of standard operators: any runtime can run it, and gets the same integers.

The graph takes `image`, uint8 [planes, rows, columns], and gives `result`, uint8 [planes, channels, rows',
columns']. Values are int64 throughout, tables stay int8, and each requantisation is done in double, step
by step. Tensors that hold a site's numbers carry its name (`PAYLOAD_LAST` after it where the payload is the last axis),
so that whoever taps the graph sees the sites.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.errors import MissingExtra, UsageError
from twinnet.lut.plan import INPUT, Plan, Plane, Stage, Table, Term

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
    try:
        import onnx
    except ImportError as error:
        raise MissingExtra("onnx", "onnx") from error
    if isinstance(network, Plan):
        plan = network
    else:
        from twinnet.lut.lowering import lower

        plan = lower(network)
    model = _Writer(plan, record).model()
    onnx.checker.check_model(model)
    if path is not None:
        target = Path(path)
        if not target.parent.is_dir():
            raise UsageError(f"no such folder: {target.parent}")
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
        os.close(handle)
        try:
            onnx.save_model(model, temporary)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(target)
        finally:
            Path(temporary).unlink(missing_ok=True)
    return model


class _Writer:
    """Writes one graph. Methods take and return names of tensors."""

    def __init__(self, plan: Plan, record: bool) -> None:
        self.plan, self.recording = plan, record
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.outputs: list[tuple[str, int, int]] = []
        self.known: dict[Any, str] = {}
        self.makers: dict[str, Any] = {}
        self.read: set[str] = set()
        self.count = 0

    # -- small things
    # ------------------------------------------------------------------------------------------

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        from onnx import helper

        self.count += 1
        names = [f"{kind.lower()}_{self.count}" + (f"_{k}" if outputs > 1 else "") for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        self.makers.update(dict.fromkeys(names, self.nodes[-1]))
        self.read.update(inputs)
        return names if outputs > 1 else names[0]

    def constant(self, value: Any, dtype: Any = np.int64, name: str | None = None) -> str:
        from onnx import numpy_helper

        array = np.asarray(value, dtype)
        content = ("constant", array.dtype.str, array.shape, array.tobytes()) if name is None else name
        if content not in self.known:
            self.known[content] = name if name is not None else f"constant_{len(self.initializers)}"
            # `ascontiguousarray` would turn a scalar into a vector.
            self.initializers[self.known[content]] = numpy_helper.from_array(
                array.copy(), self.known[content]
            )
        return self.known[content]

    def cast(self, name: str, dtype: Any) -> str:
        from onnx import helper

        return self.op("Cast", name, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def once(self, key: Any, make: Any) -> str:
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

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

    # -- the graph
    # ---------------------------------------------------------------------------------------------

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
                numerators = self.lookup(term, table, stacked)
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
        e, taps = cell - 1, []
        for p, (dy, dx) in enumerate(term.sample.offsets):
            plane = planes[0] if len(planes) == 1 else planes[p]
            name = self.plane(plane, registers)
            ty, tx = ((dy, dx), (dx, e - dy), (e - dy, e - dx), (e - dx, dy))[r]
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

    # -- tables
    # ------------------------------------------------------------------------------------------------

    def lookup(self, term: Term, table: Table, values: str) -> str:
        """Numerators [planes, site rows, site columns, payload]."""
        u = term.units(table)
        dense = self.constant(table.values, np.int8, term.table)
        if not table.banded:
            return self.interpolate(
                term, values, u, table.nodes, table.axes, _Dense(self, dense, table.nodes, table.axes)
            )
        assert table.coarse is not None
        first = self.op("Slice", values, *map(self.constant, ([0], [1], [-1])))
        others = self.op("Slice", values, *map(self.constant, ([1], [table.near + 1], [-1])))
        away = self.op("Abs", self.op("Sub", others, first))
        worst = self.op("ReduceMax", away, self.constant([-1]), keepdims=1)
        in_band = self.op("LessOrEqual", worst, self.constant(table.width * u))
        near = self.interpolate(term, values, u, table.nodes, table.axes, _Band(self, dense, table))
        near = self.op("Mul", near, self.constant(table.thin))
        thinned = self.constant(table.coarse, np.int8, f"{term.table}.coarse")
        coarse = _Dense(self, thinned, table.coarse_nodes, table.axes)
        far = self.interpolate(term, values, u * table.thin, table.coarse_nodes, table.axes, coarse)
        return self.op("Where", in_band, near, far)

    def interpolate(
        self, term: Term, values: str, u: int, nodes: int, axes: int, rows: _Dense | _Band
    ) -> str:
        units = self.constant(u)
        bins = self.op("Min", self.op("Div", values, units), self.constant(nodes - 2))
        frac = self.op("Sub", values, self.op("Mul", bins, units))
        if term.interpolation == "multilinear":
            return self.multilinear(frac, bins, u, axes, rows)
        falling, order = self.op("TopK", frac, self.constant([axes]), axis=-1, largest=1, sorted=1, outputs=2)
        tops = [self.op("Slice", falling, *map(self.constant, ([k], [k + 1], [-1]))) for k in range(axes)]
        weights = [self.op("Sub", units, tops[0])]
        weights += [self.op("Sub", tops[k], tops[k + 1]) for k in range(axes - 1)] + [tops[-1]]
        # One-hot rows of the sorted axes, added up along the walk, are the vertices relative to the lower
        # corner.
        steps = self.op("Gather", self.constant(np.eye(axes, dtype=np.int64)), order, axis=0)
        vertex, total = bins, self.op("Mul", weights[0], rows(bins))
        for k in range(axes):
            step = self.op("Gather", steps, self.constant(k), axis=3)
            vertex = self.op("Add", vertex, step)
            total = self.op("Add", total, self.op("Mul", weights[k + 1], rows(vertex)))
        return total if not term.compat else self.slip(frac, bins, units, rows, total)

    def slip(self, frac: str, bins: str, units: str, rows: _Dense | _Band, right: str) -> str:
        """The published interpolation slip of SR-LUT: see the plan."""
        a, b, c, d = (self.op("Slice", frac, *map(self.constant, ([k], [k + 1], [-1]))) for k in range(4))
        tests = [
            self.op("GreaterOrEqual", c, a), self.op("Greater", a, b), self.op("Greater", c, d),
            self.op("Greater", d, a),
        ]  # fmt: skip
        where = tests[0]
        for test in tests[1:]:
            where = self.op("And", where, test)
        corners = ((0, 0, 0, 0), (0, 0, 1, 0), (1, 0, 1, 0), (1, 0, 1, 1), (1, 1, 1, 1))
        pairs = ((units, c), (c, a), (a, d), (d, b))
        weights = [*(self.op("Sub", x, y) for x, y in pairs), b]
        wrong: str | None = None
        for corner, weight in zip(corners, weights):
            part = self.op("Mul", weight, rows(self.op("Add", bins, self.constant(corner))))
            wrong = part if wrong is None else self.op("Add", wrong, part)
        assert wrong is not None
        return self.op("Where", where, wrong, right)

    def multilinear(self, frac: str, bins: str, units: int, axes: int, rows: _Dense | _Band) -> str:
        """All corners at once, along an axis of their own: far fewer nodes than one chain per corner."""
        corners = np.array(list(product((0, 1), repeat=axes)))
        cells = self.op("Unsqueeze", bins, self.constant([3]))
        inside = self.op("Unsqueeze", frac, self.constant([3]))
        # Per axis frac at an upper corner, units - frac at a lower one.
        sides = self.op(
            "Add",
            self.op("Mul", inside, self.constant(2 * corners - 1)),
            self.constant((1 - corners) * units),
        )
        weights = self.op("ReduceProd", sides, self.constant([-1]), keepdims=1)
        entries = rows(self.op("Add", cells, self.constant(corners)))
        return self.op("ReduceSum", self.op("Mul", weights, entries), self.constant([3]), keepdims=0)

    # -- after the tables
    # --------------------------------------------------------------------------------------

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


class _Dense:
    """Rows of a dense table at vertices [..., axes]."""

    def __init__(self, writer: _Writer, table: str, nodes: int, axes: int) -> None:
        self.w, self.table = writer, table
        self.strides = writer.constant([[nodes ** (axes - 1 - k)] for k in range(axes)])

    def __call__(self, vertex: str) -> str:
        w = self.w
        flat = w.op("Squeeze", w.op("MatMul", vertex, self.strides), w.constant([-1]))
        return w.cast(w.op("Gather", self.table, flat, axis=0), np.int64)


class _Band:
    """Rows of the band of a compressed table at vertices [..., axes]."""

    def __init__(self, writer: _Writer, values: str, table: Table) -> None:
        self.w, self.values, self.table = writer, values, table

    def __call__(self, vertex: str) -> str:
        w, t = self.w, self.table
        assert t.index is not None
        diameter = 2 * t.width + 1
        first = w.op("Slice", vertex, *map(w.constant, ([0], [1], [-1])))
        others = w.op("Slice", vertex, *map(w.constant, ([1], [t.near + 1], [-1])))
        away = w.op("Mod", w.op("Sub", others, first), w.constant(diameter))
        key = w.op("Concat", first, away, axis=-1)
        flat = w.op("MatMul", key, w.constant([[diameter ** (t.near - k)] for k in range(t.near + 1)]))
        row = w.op("Gather", w.constant(t.index.reshape(-1)), flat, axis=0)
        for k in range(t.near + 1, t.axes):
            rest = w.op("Slice", vertex, *map(w.constant, ([k], [k + 1], [-1])))
            row = w.op("Add", w.op("Mul", row, w.constant(t.nodes)), rest)
        # Vertices outside the band never carry weight; any row will do for them.
        safe = w.op("Min", w.op("Max", row, w.constant(0)), w.constant(len(t.values) - 1))
        flat_row = w.op("Squeeze", safe, w.constant([-1]))
        return w.cast(w.op("Gather", self.values, flat_row, axis=0), np.int64)
