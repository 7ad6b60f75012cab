"""Integers that LiteRT's kernels compute, against exactly rounded ones: within the bound of their arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.needs import need_engine
from twinnet.engines._litert_program import KERNELS, make_interpreter
from twinnet.layers import evaluate_with_error
from twinnet.tflite.model import read_model
from twinnet.tflite.read import read_tflite
from twinnet.tflite.view import View

_OPS = ("FULLY_CONNECTED", "ADD", "MUL", "QUANTIZE", "MEAN", "LEAKY_RELU", "AVERAGE_POOL_2D")
_SHAPES = {"FULLY_CONNECTED": (64, 32), "MEAN": (64, 4, 4, 8), "AVERAGE_POOL_2D": (16, 6, 6, 8)}
_OPTIONS = {"FULLY_CONNECTED": "FullyConnectedOptions", "ADD": "AddOptions", "MUL": "MulOptions"}
_OPTIONS |= {
    "GELU": "GeluOptions",
    "MEAN": "ReducerOptions",
    "LEAKY_RELU": "LeakyReluOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
}

_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "GELU": lambda x: x,
    "SQRT": np.sqrt,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "EXP": np.exp,
    "LOG": np.log,
    "TANH": np.tanh,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
}
_POSITIVE = {"SQRT", "RSQRT", "LOG"}


def _function(op: str, rng: np.random.Generator, dtype: str, zero: int) -> tuple[float, float, int, int]:
    """The step of a function's data, step and zero point of its result, and the least of the data: none saturates."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    reach = float(10 ** rng.uniform(-1, 1))
    step, fixed = reach / (high - zero + 1), {"TANH": 1.0, "LOGISTIC": 1.0 if dtype == "int16" else 0.5}
    if op in fixed:
        return step, fixed[op] / (high + 1), 0 if fixed[op] == 1 else low, low
    least = reach * float(10 ** rng.uniform(-2, -1)) if op in _POSITIVE else -reach
    most = float(np.abs(_FUNCTIONS[op](np.linspace(least, reach, 1000))).max())
    # A table's value is moved by its neighbours, so that those at the ends must not saturate either.
    least, most = (least + 256 * step if dtype == "int16" else least, most * float(rng.uniform(1.01, 1.5)))
    if dtype == "int8":
        return step, most / 255, low, zero + int(least / step) + 1
    return step, most / high, 0, max(int(least / step), low)


def _made(op: str, rng: np.random.Generator, dtype: str = "int8") -> tuple[bytes, list[np.ndarray]]:
    """A file with one operator on integers, with steps at random, and its inputs."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated

    schema: Any = schema_py_generated
    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.buffers, graph.tensors = 3, [schema.BufferT()], []
    numbers = {name: getattr(schema.TensorType, name.upper()) for name in ("int8", "int16", "int32", "int64")}
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max

    def tensor(
        shape: tuple[int, ...], kind: str, scale: Any, zero: int, data: np.ndarray | None = None
    ) -> int:
        made = schema.TensorT()
        made.name, made.shape, made.type = f"t{len(graph.tensors)}".encode(), list(shape), numbers[kind]
        if scale is not None:
            steps = schema.QuantizationParametersT()
            steps.scale = np.atleast_1d(np.asarray(scale, np.float32))
            steps.zeroPoint = np.full(len(steps.scale), zero, np.int64)
            made.quantization = steps
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
            made.buffer = len(model.buffers)
            model.buffers.append(buffer)
        graph.tensors.append(made)
        return len(graph.tensors) - 1

    def zero() -> int:
        return 0 if dtype == "int16" else int(rng.integers(-128, 128))

    shape, x_scale = _SHAPES.get(op, (4096,)), float(rng.uniform(0.01, 0.1))
    x_zero = zero()
    x = tensor(shape, dtype, x_scale, x_zero)
    arrays = [rng.integers(low, high + 1, shape).astype(dtype)]
    inputs, out, y_scale, y_zero = [x], shape, x_scale * float(rng.uniform(0.3, 3)), zero()
    if op == "FULLY_CONNECTED":
        weights = rng.integers(-127, 128, (16, 32)).astype(np.int8)
        w_scale = rng.uniform(0.001, 0.01, 16).astype(np.float32)
        kind = "int64" if dtype == "int16" else "int32"
        bias = rng.integers(-2000, 2000, 16).astype(kind)
        inputs += [tensor((16, 32), "int8", w_scale, 0, weights)]
        inputs += [tensor((16,), kind, w_scale * np.float32(x_scale), 0, bias)]
        out, y_scale = (64, 16), x_scale * float(rng.uniform(0.2, 2)) * 32 * 0.1
    elif op in ("ADD", "MUL"):
        other = float(rng.uniform(0.01, 0.1))
        inputs.append(tensor(shape, dtype, other, zero()))
        arrays.append(rng.integers(low, high + 1, shape).astype(dtype))
        y_scale = (x_scale + other if op == "ADD" else x_scale * other * (high + 1)) * float(
            rng.uniform(0.3, 2)
        )
    elif op == "MEAN":
        inputs.append(tensor((2,), "int32", None, 0, np.array([1, 2], np.int32)))
        out = (64, 1, 1, 8)
    elif op in _FUNCTIONS:
        x_zero = x_zero if dtype == "int16" else min(x_zero, 0)
        x_scale, y_scale, y_zero, least = _function(op, rng, dtype, x_zero)
        steps = graph.tensors[x].quantization
        steps.scale, steps.zeroPoint = np.array([x_scale], np.float32), np.array([x_zero], np.int64)
        arrays = [np.maximum(arrays[0], least).astype(dtype)]
    elif op == "AVERAGE_POOL_2D":
        out, y_scale, y_zero = (16, 3, 3, 8), x_scale, x_zero
    made = tensor(out, dtype, y_scale, y_zero)
    code, node = schema.OperatorCodeT(), schema.OperatorT()
    number = getattr(schema.BuiltinOperator, op)
    code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), 2
    if op == "FULLY_CONNECTED":  # a scale for each row of the weights
        code.version = 9
    node.opcodeIndex, node.inputs, node.outputs = 0, inputs, [made]
    if op in _OPTIONS:
        options = getattr(schema, f"{_OPTIONS[op]}T")()
        if op == "LEAKY_RELU":
            options.alpha = 0.3
        if op == "MEAN":
            options.keepDims = True
        if op == "AVERAGE_POOL_2D":
            options.strideH = options.strideW = options.filterHeight = options.filterWidth = 2
            options.padding = schema.Padding.VALID
        node.builtinOptions = options
        node.builtinOptionsType = getattr(schema.BuiltinOptions, _OPTIONS[op])
    graph.operators, graph.inputs, graph.outputs = (
        [node],
        [i for i in inputs if i in (0, 1)][: len(arrays)],
        [made],
    )
    model.operatorCodes, model.subgraphs = [code], [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output()), arrays


def _over(
    data: bytes, arrays: list[np.ndarray], kernels: str, file: Path, stretched: float = 1.0
) -> tuple[float, float]:
    """By how many steps the kernels exceed what is allowed, and how far they are off.

    `stretched` is a factor by which the step of their result is wrong.
    """
    file.write_bytes(data)
    interpreter = make_interpreter(str(file), {"kernels": kernels})
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    got = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    model = read_model(data)
    graph = read_tflite(model, View(model.main), kernels=kernels)
    given = {name: torch.from_numpy(array) for name, array in zip(graph.inputs, arrays, strict=True)}
    [name] = graph.outputs
    if stretched != 1:
        last = next(layer for layer in graph.layers if name in layer.outputs)
        scale = last.inputs[1] or ""
        graph = replace(graph, constants={**graph.constants, scale: stretched * graph.constants[scale]})
    value, bound = evaluate_with_error(graph, given, {}, unit=2.0**-24, keep=[name])[name]
    off = np.abs(got.astype(np.float64) - value.numpy().astype(np.float64))
    allowed = 0.0 if bound is None else bound.numpy()
    return float((off - allowed).max()), float(off.max())


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *((op, "int8") for op in _OPS),
        *((op, "int8") for op in ("SQRT", "RSQRT", "TANH", "LOGISTIC")),
        *((op, "int16") for op in ("FULLY_CONNECTED", "ADD", "MUL", "QUANTIZE", *_FUNCTIONS)),
    ],
)
def test_kernels_stay_within_the_bound(op: str, dtype: str, tmp_path: Path) -> None:
    need_engine("litert")
    rng = np.random.default_rng([len(op), len(dtype)])
    for _ in range(12):
        data, arrays = _made(op, rng, dtype)
        for kernels in KERNELS:
            over, off = _over(data, arrays, kernels, tmp_path / "one.tflite")
            assert over <= 0, (kernels, off)


@pytest.mark.parametrize(
    ("op", "kernels", "dtype"),
    [
        ("QUANTIZE", "builtin", "int8"),
        ("QUANTIZE", "xnnpack", "int8"),
        ("MEAN", "builtin", "int8"),
        ("MUL", "reference", "int8"),
        ("SQRT", "xnnpack", "int8"),
        ("TANH", "xnnpack", "int16"),
        ("RSQRT", "xnnpack", "int16"),
    ],
)
def test_the_bound_is_needed(
    op: str, kernels: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the same files are off, and with a step that is wrong by a tenth they are off in any case."""
    need_engine("litert")
    from twinnet.tflite.operators import _node, elementwise

    rng = np.random.default_rng(1)
    made = [_made(op, rng, dtype) for _ in range(12)]
    wrong = 0
    for data, arrays in made:
        over, _ = _over(data, arrays, kernels, tmp_path / "one.tflite", stretched=1.1)
        wrong += over > 0
    assert wrong >= len(made) - 1  # one whose results all saturate shows nothing
    monkeypatch.setattr(_node, "fixed_point", lambda node, kernels: {})
    monkeypatch.setattr(elementwise, "lines", lambda node: {})
    assert any(_over(data, arrays, kernels, tmp_path / "one.tflite")[0] > 0 for data, arrays in made)
