"""Networks with complex tensors beside ONNX, which has none: pairs of real numbers, paired, judged and blamed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch import nn

import twinnet
from tests.needs import need_engine
from tests.onnx_edit import change, node_of, save
from twinnet.engines import find_engine
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.result import Result

SAMPLE = torch.randn(2, 64, generator=torch.Generator().manual_seed(3))


class Spectrum(nn.Module):
    """A filter by frequency between two layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 8)
        self.gain = nn.Parameter(torch.rand(33) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        filtered = torch.fft.rfft(torch.tanh(self.first(x))) * self.gain
        return self.last(torch.fft.irfft(filtered, n=64))


class Sound(nn.Module):
    """Magnitudes of short windows, as in front of a speech network."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("window", torch.hann_window(16))
        self.conv = nn.Conv1d(9, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        window = self.get_buffer("window")
        return self.conv(torch.stft(x, 16, 4, window=window, return_complex=True).abs())


class Weights(nn.Module):
    """Complex weights and views of complex tensors."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(33, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        f = (torch.fft.fft(x)[..., :33] * self.weight).reshape(2, 3, 11).transpose(1, 2) + 1
        return torch.view_as_real(f).sum(-1) + f.real + f.imag.abs() + f.abs()


def _check(net: nn.Module, twin: str, **options: object) -> Result:
    need_engine("onnxruntime")
    found = twinnet.check(net.eval(), SAMPLE, twin, **options)
    assert isinstance(found, Result)
    return found


def _complex(found: Result) -> list[str]:
    return [p.site.tensor for p in found.pairs if p.transform == "complex from pairs"]


@pytest.mark.parametrize("twin", ["onnxruntime?opt=off", "onnxruntime", "onnx-reference"])
@pytest.mark.parametrize(
    ("net", "pairs"),
    [(Spectrum, ["fft_rfft", "mul"]), (Sound, ["stft"]), (Weights, ["fft_fft", "slice_1", "mul"])],
)
def test_complex_tensors_are_paired_and_agree(
    net: Callable[[], nn.Module], pairs: list[str], twin: str
) -> None:
    found = _check(net(), twin)
    assert found.verdict == "PASS" and found.evidence == "strong", found
    if (
        twin != "onnxruntime" or net is not Sound
    ):  # optimised, its windows are not transposed back before their size
        assert _complex(found)[: len(pairs)] == pairs
    inner = {p.site.tensor: p for p in found.pairs}
    assert all(inner[n].status == "pass" and inner[n].site.dtype == "complex64" for n in _complex(found))


@pytest.mark.parametrize("net", [Spectrum, Sound, Weights])
def test_in_another_precision(net: Callable[[], nn.Module]) -> None:
    found = _check(net(), "torch?dtype=float64")
    assert found.verdict == "PASS" and any(p.site.dtype == "complex64" for p in found.pairs), found


# -- a planted fault -------------------------------------------------------------------------------------------------


def _exported(net: nn.Module) -> onnx.ModelProto:
    sample = {"x": SAMPLE.numpy()}
    network = load_network(net.eval()).with_example((SAMPLE,))
    session = find_engine("onnxruntime").open(network, {}, None, Job(sample))
    assert session.artefact is not None
    return session.artefact.network.complete()


def _one_gain(model: onnx.ModelProto) -> None:
    """One of the gains is 1 % too large: the product right behind the transform."""
    product = next(n for n in model.graph.node if n.op_type == "Mul")
    at = np.arange(33).reshape(33, 1) == 7
    change(model, product.input[1], lambda a: np.where(at, a * np.float32(1.01), a))


def _other_direction(model: onnx.ModelProto) -> None:
    """The imaginary part has the wrong sign behind the product: its Concat reads what is turned round."""
    joined = node_of(model, "Concat")
    model.graph.node.insert(
        list(model.graph.node).index(joined), helper.make_node("Neg", [joined.input[1]], ["turned"])
    )
    joined.input[1] = "turned"


def _scaled_back(model: onnx.ModelProto) -> None:
    """What comes back from frequencies is scaled."""
    last = node_of(model, "Squeeze")
    at = list(model.graph.node).index(last)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([1.01]), "factor"))
    model.graph.node.insert(at, helper.make_node("Mul", [last.input[0], "factor"], ["scaled"]))
    last.input[0] = "scaled"


@pytest.mark.parametrize("level", ["off", "all"])
@pytest.mark.parametrize(
    ("fault", "place"), [(_one_gain, "mul"), (_other_direction, "mul"), (_scaled_back, "fft_irfft")]
)
def test_a_fault_is_placed_at_its_layer(
    fault: Callable[[onnx.ModelProto], None], place: str, level: str, tmp_path: Path
) -> None:
    net = Spectrum()
    model = _exported(net)
    assert _check(net, f"onnxruntime?opt={level}:{save(model, tmp_path / 'right.onnx')}").verdict == "PASS"
    fault(model)
    faulty = save(model, tmp_path / "faulty.onnx")
    found = _check(net, f"onnxruntime?opt={level}:{faulty}", out=tmp_path / "run")
    assert found.verdict == "FAIL"
    (finding,) = found.findings
    assert finding.site.tensor == place and len(finding.segment) == 1, found
    assert finding.born_share is not None and finding.born_share > 0.9 and finding.confirmed is True, finding
    passing = {p.site.tensor for p in found.pairs if p.status == "pass"}
    assert {"tanh", "fft_rfft", "mul", "fft_irfft", "linear_1"} - passing == {place}
    made = twinnet.repro(tmp_path / "run", tmp_path / "repro")
    assert made.confirmed, made


def test_where_in_a_complex_tensor_is_said(tmp_path: Path) -> None:
    net = Spectrum()
    model = _exported(net)
    _one_gain(model)
    found = _check(net, f"onnxruntime?opt=off:{save(model, tmp_path / 'faulty.onnx')}")
    assert "only in channel 7 of 33" in str(found.findings[0].reason)


def test_a_complex_output_is_another_structure() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft(x)

    found = _check(Net(), "onnxruntime")
    assert found.verdict == "FAIL" and "complex64" in str(found.outputs[0].reason)
