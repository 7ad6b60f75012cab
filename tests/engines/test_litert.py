"""LiteRT: files as networks and as twins, kernel sets, quantising, failures as errors."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.faults.tflite_edit import TfliteEdit
from torch import nn

import twinnet
from tests.needs import need_data, need_engine
from tests.tflite_nets import small, small_tflite
from twinnet.engines import find_engine
from twinnet.engines._litert_make import Quantise, converted, quantised
from twinnet.engines.spec import reference_spec
from twinnet.errors import EngineError
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.report.words import side_words
from twinnet.result import Result
from twinnet.tflite.network import TfliteNetwork
from twinnet.trace import TraceBuilder

KERNELS = ("xnnpack", "builtin", "reference")


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("litert")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("litert") / "small.tflite"
    path.write_bytes(small_tflite().data)
    return path


def _check(net: object, inputs: object, twin: object, **options: object) -> Result:
    found = twinnet.check(net, inputs, twin, keep="none", **options)
    assert isinstance(found, Result)
    return found


# -- right ones ----------------------------------------------------------------------------------------------------


def test_a_converted_network_passes_and_is_paired() -> None:
    module, inputs = small()
    found = _check(module, inputs, "litert")
    assert found.verdict == "PASS", found
    # The two convolutions that norms were folded into, and one of these, have no counterpart.
    assert len(found.pairs) >= 18
    assert "kernels=xnnpack" in side_words(found.twin)


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_file_as_network_and_as_twin(file: Path, kernels: str) -> None:
    found = _check(str(file), None, f"litert?kernels={kernels}")
    assert found.verdict == "PASS", found
    assert len(found.pairs) == 23
    assert found.network.format == "TFLite"


@pytest.mark.parametrize(
    "way",
    [
        "quantize=dynamic",
        pytest.param("quantize=dynamic&kernels=builtin", marks=pytest.mark.slow),
        "quantize=weights",
        pytest.param("quantize=static", marks=pytest.mark.slow),
        "quantize=static&kernels=reference",
        "quantize=static&activations=int16",
    ],
)
def test_a_network_in_fewer_bits_passes_by_its_own_steps(way: str) -> None:
    module, inputs = small()
    found = _check(module, inputs, f"litert?{way}")
    assert found.verdict == "PASS", found
    assert found.twin.precision == "int8"
    assert found.coverage.judged >= 15


# -- tensors -------------------------------------------------------------------------------------------------------


def test_watched_tensors_are_never_overwritten_memory(file: Path) -> None:
    """Each tensor is what a run that ends there gives."""
    net = small_tflite()
    sample = {"args_0": np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)}
    seen = {}
    for kernels in KERNELS:
        session = find_engine("litert").open(net, {"kernels": kernels}, None, Job(sample))
        watch = {s.tensor for s in session.sites}
        trace = session.trace(sample, watch, TraceBuilder())
        assert set(trace) >= watch
        seen[kernels] = {name: np.array(trace[name]) for name in watch}
        session.close()
    for name, want in seen["reference"].items():
        for kernels in ("xnnpack", "builtin"):
            assert np.abs(seen[kernels][name] - want).max() <= 1e-5 * max(np.abs(want).max(), 1), name


# -- what goes wrong -----------------------------------------------------------------------------------------------


def test_a_delegate_that_cannot_be_loaded_is_an_error(file: Path, tmp_path: Path) -> None:
    library = tmp_path / "delegate.so"
    library.write_bytes(b"not a library")
    for path in (library, tmp_path / "none.so"):
        found = _check(str(file), None, f"litert?delegate={path}")
        assert found.verdict == "ERROR"
        assert "delegate" in str(found)


def test_an_abort_is_an_error(tmp_path: Path) -> None:
    """A file whose structure is sound and whose numbers are not: whatever LiteRT does, this process lives."""
    data = bytearray(need_data("uvq", "aggregation_net.tflite").read_bytes())
    rng, states = np.random.default_rng(3), set()
    for _ in range(6):
        damaged = bytearray(data)
        for _ in range(4):
            damaged[len(data) - 1 - int(rng.integers(6000))] ^= 1 << int(rng.integers(8))
        path = tmp_path / "damaged.tflite"
        path.write_bytes(bytes(damaged))
        try:
            states.add(_check(str(path), None, "litert").verdict)
        except twinnet.UsageError:
            states.add("refused")
        except EngineError:
            states.add("ERROR")
    assert states <= {"refused", "ERROR", "PASS", "FAIL"}


@pytest.mark.parametrize(
    ("operator", "kernels", "hint"),
    [
        ("Convolution2DTransposeBias", "xnnpack", "XNNPACK has this operator: kernels=xnnpack"),
        ("Landmarks2TransformMatrix", "builtin", "what it records can be a twin"),
    ],
)
def test_operators_that_litert_itself_has_not(operator: str, kernels: str, hint: str) -> None:
    """MediaPipe's own: a network runs on XNNPACK if that has them all, and the message says who has the others."""
    edit = TfliteEdit(small_tflite().data)
    op = edit.operators("SOFTMAX")[0]
    edit.become(op, "CUSTOM")
    edit.model.operatorCodes[op.opcodeIndex].customCode = operator.encode()
    net = TfliteNetwork(edit.data(), name="custom")
    assert reference_spec(net).options == {"kernels": kernels}
    with pytest.raises(EngineError, match="unresolved custom op") as raised:
        find_engine("litert").open(
            net, {"kernels": "builtin"}, None, Job({net.signature.inputs[0].name: small()[1][0].numpy()})
        )
    assert hint in str(raised.value)


class _Scaled(nn.Module):
    """A constant between two layers with weights, which converters make part of them."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.a, self.b = how, nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 4, 1)
        self.gamma = nn.Parameter(torch.linspace(0.2, 2, 8).reshape(8, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        made = {"neg": -y, "gamma": y * self.gamma, "shift": y - self.gamma, "both": y * self.gamma + 1}
        return self.b(made[self.how])


@pytest.mark.parametrize("how", ["neg", "gamma", "shift", "both"])
def test_a_constant_that_the_converter_folds_into_weights_is_no_fault(how: str) -> None:
    torch.manual_seed(1)
    found = _check(_Scaled(how).eval(), torch.randn(1, 4, 6, 6), "litert")
    assert found.verdict == "PASS" and len(found.pairs) == 2, found


def test_signatures_that_are_not_checked_are_named() -> None:
    edit = TfliteEdit(small_tflite().data)
    signature = edit.schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = b"decode", 1
    signature.inputs, signature.outputs = [], []
    edit.model.signatureDefs = [*(edit.model.signatureDefs or ()), signature]
    edit.model.subgraphs.append(edit.graph)
    net = TfliteNetwork(edit.data(), name="two")
    job = Job({net.signature.inputs[0].name: small()[1][0].numpy()})
    session = find_engine("litert").open(net, {}, None, job)
    try:
        assert session.notes == ("two has more signatures, which are not checked: decode",)
    finally:
        session.close()


@pytest.mark.parametrize("how", ["static", "dynamic"])
def test_a_constant_that_is_folded_before_quantising_is_no_fault(how: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    net, inputs = _Scaled("both").eval(), torch.randn(1, 4, 6, 6)
    found = _check(net, inputs, f"litert?quantize={how}")
    assert found.verdict == "PASS" and len(found.pairs) == 2, found
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.gamma[3] *= 1.5
    way = Quantise(how)
    job = Job({"x": inputs.numpy()})
    file = converted(load_network((other, (inputs,))), job)
    path = tmp_path / "other.tflite"
    (name,) = (label for label, _ in file.model.inputs)
    path.write_bytes(quantised(file, way, [{name: inputs.numpy()}], job).data)
    assert _check(net, inputs, str(path)).verdict == "FAIL"


class _Shifted(nn.Module):
    """A constant between two linear layers, which the converter makes part of the bias behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 12), nn.Linear(12, 4)
        self.shift = nn.Parameter(torch.linspace(0.2, 2, 12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x) + self.shift)


@pytest.mark.parametrize("spec", ["litert", "litert?quantize=static", "litert?quantize=dynamic"])
def test_a_constant_that_moves_into_the_weights_behind_is_no_fault(spec: str) -> None:
    torch.manual_seed(1)
    found = _check(_Shifted().eval(), torch.randn(3, 8), spec)
    assert found.verdict == "PASS" and len(found.pairs) == 1, found
    assert any(g.fact.code == "pairing.moved" for g in found.guards)


@pytest.mark.parametrize(("off", "how"), [(0.5, ""), (1e-4, ""), (0.5, "static"), (0.5, "dynamic")])
def test_a_wrong_constant_that_moved_is_a_fault(off: float, how: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    net, inputs = _Shifted().eval(), torch.randn(3, 8)
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.shift[3] += off
    path = tmp_path / "other.tflite"
    network = load_network((other, (inputs,)))
    job = Job({"x": inputs.numpy()})
    file = converted(network, job)
    if how:
        (name,) = (label for label, _ in file.model.inputs)
        file = quantised(file, Quantise(how), [{name: inputs.numpy()}], job)
    path.write_bytes(file.data)
    assert _check(net, inputs, str(path)).verdict == "FAIL"


@pytest.mark.parametrize("how", ["1 - y", "2 / y"])
def test_litert_torch_swaps_the_operands_behind_a_convolution(how: str) -> None:
    """A fault of the converter: `1 - conv(x)` becomes `conv(x) - 1`."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.a(x)
            return self.b(1 - y if how == "1 - y" else 2 / y)

    torch.manual_seed(1)
    found = _check(Net().eval(), torch.randn(1, 4, 6, 6), "litert")
    assert found.verdict == "FAIL"
    if how == "1 - y":
        cause = found.findings[0].cause
        assert cause is not None and "b - a where the network has a - b" in str(cause.fact)


def test_a_file_that_the_quantiser_writes_wrongly_is_an_error() -> None:
    """A bias with two axes gets one scale for each element, on the axis that has one."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 12), nn.Linear(12, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x) * torch.linspace(0.2, 2, 12))

    found = _check(Net().eval(), torch.randn(3, 8), "litert?quantize=static")
    assert found.verdict == "ERROR" and "ai-edge-quantizer wrote" in str(found.error)
