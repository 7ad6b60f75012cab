"""Networks in fewer bits: right ones pass by their own steps, wrong ones are found with what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import twinnet
from tests.engines.planted import network
from tests.models import MODELS, model_path
from tests.narrow import Files, weight_of
from tests.needs import need_engine
from tests.onnx_edit import make_model, save
from twinnet.engines import find_engine
from twinnet.errors import UsageError
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.result import Result
from twinnet.trace import TraceBuilder


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("onnxruntime")


def _check(net: object, inputs: object, twin: str, **options: object) -> Result:
    found = twinnet.check(net, inputs, twin, **options)
    assert isinstance(found, Result)
    return found


# -- right ones ----------------------------------------------------------------------------------------------------

OPTIONS = {"quantize": "static", "per_channel": "1", "reduce_range": "1"}
_WAYS = (
    # Seven bits where products are summed: a processor without VNNI saturates sums of two 8-bit ones.
    "quantize=static&reduce_range=1",
    "quantize=static&per_channel=1&opt=off&reduce_range=1",
    "quantize=static&activations=int8&opt=extended&reduce_range=1",
    "quantize=dynamic&reduce_range=1",
    "quantize=weights",
    "quantize=weights&per_channel=1&weights=uint8",
    "quantize=float16",
)


_NETWORKS = ("mbconv", "transformer", "unet")
_EACH = [
    pytest.param(name, way, marks=() if number % len(_NETWORKS) == place or not number else pytest.mark.slow)
    for number, way in enumerate(_WAYS)
    for place, name in enumerate(_NETWORKS)
]
"""Every way on one network or another, and the first on all of them; the rest takes longer and says little more."""


@pytest.mark.parametrize(("name", "way"), _EACH)
def test_a_network_in_fewer_bits_passes_by_its_own_steps(name: str, way: str) -> None:
    module, args = network(name)
    found = _check(module, args, f"onnxruntime?{way}", keep="none")
    assert found.verdict == "PASS", found
    assert found.twin.precision == ("float16" if "float16" in way else "int8")
    assert found.coverage.judged >= 15
    worst = max(p.difference.max_abs for p in found.outputs)
    assert worst > 1e-5  # it is another network, and far beyond what float32 rounds


@pytest.mark.parametrize("calibrate", [pytest.param("entropy", marks=pytest.mark.slow), "percentile"])
def test_other_calibrations_pass_where_they_cut_off_next_to_nothing(narrow: Files, calibrate: str) -> None:
    found = _check(
        narrow.module, narrow.image, f"onnxruntime?quantize=static&reduce_range=1&calibrate={calibrate}"
    )
    plain = _check(narrow.module, narrow.image, "onnxruntime?quantize=static&reduce_range=1")
    assert found.verdict == plain.verdict == "PASS", found
    # Percentiles cut a little off, so that it is another twin; entropy keeps the ranges of so little data.
    same = found.outputs[0].difference.max_abs == plain.outputs[0].difference.max_abs
    assert same == (calibrate == "entropy")


def test_all_inputs_calibrate(narrow: Files) -> None:
    """The second input is four times as large: a range from the first alone would cut it off."""
    image = narrow.image.numpy()
    samples = [{"image": image}, {"image": image * 4}]
    found = _check(str(narrow.network), samples, "onnxruntime?quantize=static&reduce_range=1")
    assert found.inputs.samples == 2 and found.verdict == "PASS", found


def test_the_deployed_numbers_are_those_of_the_tool(narrow: Files) -> None:
    """What twinnet runs is what ONNX Runtime's own quantiser makes with the same settings."""
    image = {"image": narrow.image.numpy()}
    ours = find_engine("onnxruntime").open(load_network(str(narrow.network)), OPTIONS, None, Job(image))
    theirs = find_engine("onnxruntime").open(load_network(str(narrow.int8)), {}, None, Job(image))
    assert np.array_equal(*(next(iter(s.run(image).values())) for s in (ours, theirs)))


def test_a_bias_that_two_layers_share(tmp_path: Path) -> None:
    """The tool copies it under its name and the next number free among weights, here the name of a result."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "val_1"], ["c"]),
        helper.make_node("Transpose", ["c"], ["val_10"], perm=[0, 1, 3, 2]),
        helper.make_node("Conv", ["val_10", "w", "val_1"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    held = {"w": rng.normal(0, 0.4, (4, 4, 1, 1)), "val_1": rng.normal(0, 0.4, 4)}
    held = {name: array.astype(np.float32) for name, array in held.items()}
    path = save(make_model(nodes, {"x": (1, 4, 5, 5)}, ["y"], held), tmp_path / "shared.onnx")
    x = {"x": rng.normal(0, 1, (1, 4, 5, 5)).astype(np.float32)}
    assert _check(str(path), x, "onnxruntime?quantize=static&reduce_range=1").verdict == "PASS"


# -- an engine that does more than it was asked for ----------------------------------------------------------------


def test_data_rounded_where_only_weights_should_be(tmp_path: Path) -> None:
    """ONNX Runtime turns such products into MatMulNBits and, unless told otherwise, rounds their data to 8 bits."""
    module, args = network("transformer")
    key = "config.session.qdq_matmulnbits_accuracy_level"
    found = _check(module, args, f"onnxruntime?quantize=weights&{key}=4")
    assert found.verdict == "FAIL", found
    cause = found.findings[0].cause
    assert cause is not None and cause.explains > 0.99
    assert "rounds the data to 8 bits in blocks of 32" in cause.sentence
    assert _check(module, args, f"onnxruntime?quantize=weights&opt=basic&{key}=4").verdict == "PASS"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        # The tool keeps transposed convolutions in float; the engine then takes it upon itself to round their weights.
        ("unet", ["engine rounds the weights to 8 bits", "pads with 0 where the network pads with 0.5"]),
        # Indices among values that a step makes equal are no finding.
        ("pooling", ["divides by the whole window at the edge"]),
    ],
)
def test_integer_operators_that_do_otherwise_are_named(name: str, words: list[str]) -> None:
    module, args = network(name)
    found = _check(module, args, "onnxruntime?quantize=static&format=qoperator&reduce_range=1", keep="none")
    assert found.verdict == "FAIL" and len(found.findings) == len(words), found
    for finding, said in zip(found.findings, words, strict=True):
        assert finding.cause is not None and said in finding.cause.sentence, finding
    if name == "unet":
        option = "config.session.disable_quant_qdq=1"
        found = _check(module, args, f"onnxruntime?quantize=static&format=qoperator&reduce_range=1&{option}")
        assert [f.cause.fact.code for f in found.findings if f.cause] == ["padding.clipped"], found


# -- wrong ones ----------------------------------------------------------------------------------------------------


def _change(model: onnx.ModelProto, name: str, how: Callable[[np.ndarray], np.ndarray]) -> None:
    tensor = weight_of(model, name)
    before = numpy_helper.to_array(tensor)
    after = np.array(how(before.copy())).astype(before.dtype).reshape(before.shape)
    tensor.CopyFrom(numpy_helper.from_array(after, name))


def _quantiser(model: onnx.ModelProto, weight: str) -> onnx.NodeProto:
    made = next(n for n in model.graph.node if n.op_type == "Conv" and weight in n.input[1]).output[0]
    return next(n for n in model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] == made)


def _reader(model: onnx.ModelProto, weight: str) -> onnx.NodeProto:
    held = _quantiser(model, weight).output[0]
    return next(n for n in model.graph.node if n.op_type == "DequantizeLinear" and n.input[0] == held)


def _scale(model: onnx.ModelProto, narrow: Files) -> None:
    _change(model, "left.weight_scale", lambda s: s * np.where(np.arange(16) == 3, 1.5, 1))


def _zero(model: onnx.ModelProto, narrow: Files) -> None:
    _change(model, "stem.conv.weight_zero_point", lambda z: z + 3)


def _saturated(model: onnx.ModelProto, narrow: Files) -> None:
    """One channel in steps of a quarter the size: most of its weights do not fit any more."""
    scale = numpy_helper.to_array(weight_of(model, "left.weight_scale"))[3]
    real = numpy_helper.to_array(weight_of(onnx.load(narrow.network), "left.weight"))[3]

    def smaller(q: np.ndarray) -> np.ndarray:
        q[3] = np.clip(np.round(real / (scale / 4)), -127, 127)
        return q

    _change(model, "left.weight_quantized", smaller)
    _change(model, "left.weight_scale", lambda s: np.where(np.arange(16) == 3, s / 4, s))


def _small_range(model: onnx.ModelProto, narrow: Files) -> None:
    _change(model, _quantiser(model, "right.weight").input[1], lambda s: s / 3)


def _read_scale(model: onnx.ModelProto, narrow: Files) -> None:
    node = _reader(model, "down.conv.weight")
    scale = numpy_helper.to_array(weight_of(model, node.input[1]))
    model.graph.initializer.append(numpy_helper.from_array(np.array(scale * 1.1, scale.dtype), "other"))
    node.input[1] = "other"


def _read_zero(model: onnx.ModelProto, narrow: Files) -> None:
    node = _reader(model, "down.conv.weight")
    zero = numpy_helper.to_array(weight_of(model, node.input[2]))
    model.graph.initializer.append(numpy_helper.from_array(np.array(zero + 5, zero.dtype), "other"))
    node.input[2] = "other"


def _one_bit(model: onnx.ModelProto, narrow: Files) -> None:
    def flipped(q: np.ndarray) -> np.ndarray:
        q[2, 1, 0, 0] ^= 64
        return q

    _change(model, "down.conv.weight_quantized", flipped)


_WRONG: dict[str, tuple[Callable[[onnx.ModelProto, Files], None], str, str, str]] = {
    # Weights of seven bits lie too far apart for the scale itself to be named.
    "scale": (_scale, "all", "left", "weights of channel 3 further than half a step"),
    "zero point": (_zero, "all", "stem", "zero point of the weights that is off by 3"),
    "saturated channel": (_saturated, "all", "left", "weights of channel 3 end at"),
    "small range": (_small_range, "all", "right", "the range is too small"),
    "read with another scale": (_read_scale, "off", "down", "scale 1.1x the one they were written with"),
    "read with another zero point": (
        _read_zero,
        "off",
        "down",
        "zero point 5 where they were written with 0",
    ),
    "one bit": (_one_bit, "all", "down", "one of the weights of channel 2"),
}


@pytest.mark.parametrize("fault", _WRONG)
def test_what_is_wrong_with_a_quantised_twin_is_said(narrow: Files, fault: str, tmp_path: Path) -> None:
    plant, level, place, words = _WRONG[fault]
    model = onnx.load(narrow.int8)
    plant(model, narrow)
    file = tmp_path / "bad.onnx"
    onnx.save(model, file)
    found = _check(narrow.module, narrow.image, f"onnxruntime?opt={level}:{file}")
    assert found.verdict == "FAIL" and len(found.findings) == 1, found
    finding = found.findings[0]
    assert any(place in label for label in finding.segment), finding
    assert finding.cause is not None and finding.cause.kind == "quantisation", finding
    assert words in finding.cause.sentence, finding.cause


# -- files of others, and options ----------------------------------------------------------------------------------


def test_a_real_network_with_dynamic_steps_runs() -> None:
    found = _check(str(model_path("ddddocr")), MODELS["ddddocr"].inputs(), "onnxruntime", keep="none")
    assert found.verdict == "PASS" and found.coverage.judged > 50, found


@pytest.mark.slow
def test_a_real_network_with_static_steps() -> None:
    """Whole without fusions; with them its softmax is off by a step here and there (see the next test).

    Processors without VNNI also lose parts of its products, which the first findings name.
    """
    file, inputs = str(model_path("smart-turn")), MODELS["smart-turn"].inputs()
    assert _check(file, inputs, "onnxruntime?opt=basic", keep="none").verdict == "PASS"
    found = _check(file, inputs, "onnxruntime", keep="none")
    softmax = [f for f in found.findings if any("Softmax" in label for label in f.segment)]
    assert found.verdict == "FAIL" and len(softmax) == 4 and all(f.born == 1.0 for f in softmax), found
    for other in (f for f in found.findings[:8] if f not in softmax):
        assert other.cause is not None and other.cause.fact.code == "steps.pairs", other


def test_a_fused_softmax_is_off_by_a_step(tmp_path: Path) -> None:
    """The smallest network that shows it: ONNX Runtime's QLinearSoftmax takes exponentials from a table."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Softmax", ["d"], ["p"], axis=-1),
        helper.make_node("QuantizeLinear", ["p", "t", "o"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "t", "o"], ["y"]),
    ]
    held = {"s": np.float32(0.08), "z": np.uint8(120), "t": np.float32(0.0035), "o": np.uint8(0)}
    path = save(
        make_model(nodes, {"x": (50, 400)}, ["y"], {n: np.array(v) for n, v in held.items()}),
        tmp_path / "s.onnx",
    )
    x = {"x": (np.random.default_rng(0).normal(0, 40, (50, 400)) * 0.08).astype(np.float32)}
    assert _check(str(path), x, "onnxruntime?opt=basic").verdict == "PASS"
    found = _check(str(path), x, "onnxruntime")
    assert found.verdict == "FAIL", found
    assert found.findings[0].born is not None and found.findings[0].born <= 1.0


@pytest.mark.parametrize("way", ["static", "static&per_channel=1", "static&activations=int8", "dynamic"])
def test_seven_bits_are_enough_where_eight_overflow(narrow: Files, way: str) -> None:
    """With `reduce_range` no weight needs its eighth bit, and the twin is held to the wider steps it declares."""
    network, sample = load_network(str(narrow.network)), {"image": narrow.image.numpy()}
    span = {}
    for narrower in ("0", "1"):
        options = dict(o.split("=") for o in f"quantize={way}&reduce_range={narrower}".split("&"))
        session = find_engine("onnxruntime").open(network, options, None, Job(sample))
        assert session.artefact is not None
        held = [numpy_helper.to_array(t) for t in session.artefact.model.graph.initializer]
        weights = [w.astype(int) for w in held if w.dtype in (np.int8, np.uint8) and w.ndim > 1]
        assert len(weights) == 5
        span[narrower] = max(int(np.ptp(w)) for w in weights)
    assert span["1"] <= 128 < span["0"], span  # symmetric ones go from -64 to 64
    found = _check(str(narrow.network), narrow.image, f"onnxruntime?quantize={way}&reduce_range=1")
    assert found.verdict == "PASS" and found.coverage.judged >= 5, found


@pytest.mark.parametrize("level", ["off", "basic", "extended", "all"])
def test_float16_overflows_where_it_is_watched_and_not_where_it_is_used(level: str, tmp_path: Path) -> None:
    """A sum of squares beyond 65504, as in the layer norm of a real classifier, and the product that reads it."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["squares"]),
        helper.make_node("ReduceSum", ["squares", "axes"], ["sum"], keepdims=1),
        helper.make_node("Mul", ["sum", "c"], ["y"]),
    ]
    held = {"axes": np.array([1]), "c": np.array([1 / 512], np.float32)}
    path = save(make_model(nodes, {"x": (2, 512)}, ["y"], held), tmp_path / "squares.onnx")
    x = {"x": np.full((2, 512), 16, np.float32)}
    options = {"quantize": "float16", "opt": level}
    session = find_engine("onnxruntime").open(load_network(str(path)), options, None, Job(x))
    assert np.array_equal(session.run(x)["y"], np.full((2, 1), 256))
    seen = session.trace(x, {"sum"}, TraceBuilder())
    assert np.isinf(seen["sum"]).all() and np.array_equal(seen["y"], np.full((2, 1), 256))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("calibrate=minmax", "has no effect on a network that is not quantised"),
        ("quantize=dynamic&calibrate=entropy", "has no effect on quantize=dynamic"),
        ("quantize=weights&activations=int8", "has no effect on quantize=weights"),
        ("quantize=weights&reduce_range=1", "it belongs to quantize=static or dynamic"),
        ("quantize=int3", "unknown value 'int3' for quantize"),
        ("quantize=static&per_channel=maybe", "unknown value 'maybe' for per_channel"),
    ],
)
def test_options_that_would_do_nothing_are_refused(narrow: Files, options: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        twinnet.check(str(narrow.network), narrow.image, f"onnxruntime?{options}")
