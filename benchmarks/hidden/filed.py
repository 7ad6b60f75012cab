"""ONNX files that are wrong where a run does not go: other sizes, turns of a loop, one weight of a quantised layer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

from benchmarks.hidden.attack import attack, checked

Model = onnx.ModelProto
_HEAD = '<ir_version: 9, opset_import: ["": 17]> g '

_TEXTS: dict[str, tuple[str, Any, Any, Callable[[np.random.Generator], dict[str, np.ndarray]]]] = {
    "the branch of an If that is not taken": (
        """(float[1,8] x) => (float[1,8] y) {
        m = ReduceMean <keepdims = 0> (x)  z = Constant <value = float {-5.0}> ()  c = Greater (m, z)
        y = If (c) <then_branch = t () => (float[1,8] a) { a = Relu(x) },
                    else_branch = e () => (float[1,8] b) { b = WHAT(x) }> }""",
        "Neg",
        "Exp",
        lambda rng: {"x": rng.random((1, 8), np.float32)},
    ),
    "a loop that is wrong from its second turn on, one turn run": (
        """(float[1,8] x, int64 n) => (float[1,8] y) {
        c = Constant <value = bool {1}> ()
        y = Loop (n, c, x) <body = b (int64 i, bool d, float[1,8] s) => (bool e, float[1,8] t) {
            e = Identity(d)  f = Cast <to = 1> (i)  k = Constant <value = float {WHAT}> ()
            u = Mul(f, k)  t = Add(s, u) }> }""",
        "2.0",
        "3.0",
        lambda rng: {"x": rng.random((1, 8), np.float32), "n": np.int64(1)},
    ),
    "a scan over one step that starts from 0": (
        """(float[1,4] s, float[N,4] x) => (float[1,4] y, float[N,4] z) {
        y, z = Scan <num_scan_inputs = 1, body = b (float[1,4] a, float[4] v) => (float[1,4] c, float[4] d) {
            c = WHAT(a, v)  k = Constant <value_ints = [4]> ()  d = Reshape(c, k) }> (s, x) }""",
        "Max",
        "Add",
        lambda rng: {"s": np.zeros((1, 4), np.float32), "x": rng.random((1, 4), np.float32)},
    ),
    "the second of a batch is mixed with the first, a batch of one": (
        """(float[N,3,8,8] x) => (float[N,3,8,8] y) {
        i = Constant <value_ints = [0]> ()  f = Gather <axis = 0> (x, i)  d = Sub(x, f)
        k = Constant <value = float {WHAT}> ()  e = Mul(d, k)  y = Sub(x, e) }""",
        "0.0",
        "0.5",
        lambda rng: {"x": rng.random((1, 3, 8, 8), np.float32)},
    ),
    "a small number in a norm, beside large ones": (
        """(float[2,16] x) => (float[2,16] y) {
        k = Constant <value = float {1000.0}> ()  h = Mul(x, k)
        w = Constant <value_floats = [1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.,1.]> ()
        y = LayerNormalization <epsilon = WHAT> (h, w) }""",
        "0.00001",
        "0.001",
        lambda rng: {"x": rng.standard_normal((2, 16), np.float32)},
    ),
    "a factor of something that is 0": (
        """(float[1,3,8,8] x) => (float[1,3,8,8] y) {
        five = Constant <value = float {5.0}> ()  h = Sub(x, five)  r = Relu(h)
        k = Constant <value = float {WHAT}> ()  e = Mul(r, k)  y = Add(e, x) }""",
        "1.0",
        "3.0",
        lambda rng: {"x": rng.random((1, 3, 8, 8), np.float32)},
    ),
}


def _check(net: Model, sample: dict[str, np.ndarray], twin: Model) -> Any:
    with tempfile.TemporaryDirectory(prefix="twinnet-hidden-") as folder:
        files = [Path(folder) / "net.onnx", Path(folder) / "twin.onnx"]
        for file, model in zip(files, (net, twin), strict=True):
            onnx.save(model, file)
        return checked(str(files[0]), sample, str(files[1]))


def _register_text(name: str, text: str, right: str, wrong: str, data: Any) -> None:
    @attack(f"file: {name}")
    def parsed(rng: np.random.Generator) -> Any:
        net, twin = (parser.parse_model(_HEAD + text.replace("WHAT", what)) for what in (right, wrong))
        return _check(net, data(rng), twin)


for _name, _text in _TEXTS.items():
    _register_text(_name, *_text)


@attack("file: positions beyond the longest sequence")
def positions(rng: np.random.Generator) -> Any:
    table = rng.standard_normal((64, 8)).astype(np.float32)
    text = """(float[1,T,8] x) => (float[1,T,8] y) {
        s = Shape(x)  one = Constant <value_ints = [1]> ()  zero = Constant <value_ints = [0]> ()
        n = Gather <axis = 0> (s, one)  p = Slice(table, zero, n, zero)  y = Add(x, p) }"""
    models = [parser.parse_model(_HEAD + text) for _ in range(2)]
    for model in models:
        model.graph.initializer.append(numpy_helper.from_array(table, "table"))
        table = np.concatenate([table[:9], 2 * table[9:]])
    return _check(models[0], {"x": rng.random((1, 9, 8), np.float32)}, models[1])


def _convolutions(rng: np.random.Generator) -> Model:
    """Three convolutions with a ReLU between them."""
    nodes, constants, tensor = [], [], "x"
    for number, (before, after) in enumerate(((3, 8), (8, 8), (8, 6))):
        weight = rng.normal(0, 1.5 / (9 * before) ** 0.5, (after, before, 3, 3)).astype(np.float32)
        bias = rng.normal(0, 0.3, after).astype(np.float32)
        names = [f"w{number}", f"b{number}"]
        constants += [numpy_helper.from_array(a, n) for a, n in zip((weight, bias), names, strict=True)]
        nodes.append(helper.make_node("Conv", [tensor, *names], [f"c{number}"], pads=[1, 1, 1, 1]))
        tensor = f"c{number}"
        if number < 2:
            nodes.append(helper.make_node("Relu", [tensor], [f"r{number}"]))
            tensor = f"r{number}"
    ends = [helper.make_tensor_value_info(n, 1, [1, c, 16, 16]) for n, c in (("x", 3), ("c2", 6))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])


def _quantised(net: Model, samples: list[np.ndarray], signed: bool) -> Model:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Samples(CalibrationDataReader):
        left = iter([{"x": sample} for sample in samples])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.left, None)

    with tempfile.TemporaryDirectory(prefix="twinnet-hidden-") as folder:
        files = Path(folder) / "net.onnx", Path(folder) / "int8.onnx"
        onnx.save(net, files[0])
        ways: dict[str, Any] = {
            "per_channel": True,
            "reduce_range": True,
            "activation_type": QuantType.QInt8 if signed else QuantType.QUInt8,
        }
        quantize_static(str(files[0]), str(files[1]), Samples(), quant_format=QuantFormat.QDQ, **ways)
        return onnx.load(files[1])


def _change(model: Model, name: str, change: Callable[[np.ndarray], Any]) -> None:
    held = next(t for t in model.graph.initializer if t.name == name)
    array = np.atleast_1d(numpy_helper.to_array(held)).copy()
    change(array)
    held.CopyFrom(numpy_helper.from_array(array, name))


def _add(place: int, much: float) -> Callable[[np.ndarray], None]:
    def change(array: np.ndarray) -> None:
        array.reshape(-1)[place] += array.dtype.type(much)

    return change


def _multiply(place: int, by: float) -> Callable[[np.ndarray], None]:
    def change(array: np.ndarray) -> None:
        array[place] *= by

    return change


_CHANGES: dict[str, tuple[str, Callable[[np.ndarray], None]]] = {
    "the zero point of one channel": ("w1_zero_point", _add(2, 1)),
    "one weight by two steps": ("w1_quantized", _add(5, 2)),
    "one bias by a hundred of its steps": ("b1_quantized", _add(3, 100)),
    "the scale of one channel by a per cent": ("w2_scale", _multiply(1, 1.01)),
}


def _register_change(name: str, tensor: str, change: Callable[[np.ndarray], None], signed: bool) -> None:
    @attack(f"8 bits{', signed' if signed else ''}: {name}")
    def changed(rng: np.random.Generator) -> Any:
        net = _convolutions(rng)
        samples = [rng.standard_normal((1, 3, 16, 16), np.float32) for _ in range(4)]
        twin = _quantised(net, samples, signed)
        _change(twin, tensor, change)
        return _check(net, {"x": samples[0]}, twin)


for _name, _made in _CHANGES.items():
    for _signed in (False, True):  # ONNX Runtime makes signed activations unsigned, under other names
        _register_change(_name, *_made, _signed)


@attack("file: one channel by a per cent, beside an idle quantiser that makes it seem quantised")
def idle(rng: np.random.Generator) -> Any:
    net = _convolutions(rng)
    twin = Model()
    twin.CopyFrom(net)
    _change(twin, "w1", _multiply(1, 1.01))
    graph = twin.graph
    constants = {"scale": np.float32(1 / 32), "zero": np.uint8(128), "none": np.float32(0)}
    graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items())
    graph.node[-1].output[0] = "last"
    steps = (
        ("QuantizeLinear", ["x", "scale", "zero"], "q"),
        ("DequantizeLinear", ["q", "scale", "zero"], "d"),
        ("ReduceSum", ["d"], "s"),
        ("Mul", ["s", "none"], "m"),
        ("Add", ["last", "m"], "c2"),
    )
    graph.node.extend(helper.make_node(op, given, [made]) for op, given, made in steps)
    return _check(net, {"x": rng.standard_normal((1, 3, 16, 16), np.float32)}, twin)
