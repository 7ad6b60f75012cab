"""Causes and impact in a whole check: torch networks against twins that do something else."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import twinnet
from twinnet.result import Finding

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.act = nn.GELU()
        self.second = nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.second(self.act(self.first(image)))


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(1)
    return Net().eval()


@pytest.fixture(scope="module")
def image() -> torch.Tensor:
    return torch.rand(1, 3, 16, 20, generator=torch.Generator().manual_seed(2))


def _twin(net: Net, *, approximate: str = "none", shift: float = 0.0):
    def run(x: np.ndarray) -> dict[str, np.ndarray]:
        with torch.no_grad():
            first = net.first(torch.from_numpy(x))
            act = nn.functional.gelu(first, approximate=approximate)
            bias = net.second.bias.clone()
            bias[2] += shift
            last = nn.functional.conv2d(act, net.second.weight, bias, padding=1)
        return {"output": last.numpy(), "first": first.numpy(), "act": act.numpy()}

    return run


def _findings(net: Net, image: torch.Tensor, twin) -> tuple[Finding, ...]:
    result = twinnet.check(net, image, twin)
    assert isinstance(result, twinnet.Result)
    return result.findings


def test_cause_and_share_of_one_fault(net: Net, image: torch.Tensor) -> None:
    (finding,) = _findings(net, image, _twin(net, approximate="tanh"))
    assert finding.cause is not None
    assert (finding.cause.kind, finding.cause.sentence) == (
        "activation",
        "GELU tanh approximation instead of erf",
    )
    assert finding.impact is not None and finding.impact > 0
    assert finding.born_share == pytest.approx(1.0, abs=0.02)


def test_two_faults_have_a_cause_and_a_share_each(net: Net, image: torch.Tensor) -> None:
    found = _findings(net, image, _twin(net, approximate="tanh", shift=0.5))
    assert [f.cause and f.cause.kind for f in found] == ["activation", "bias"]
    assert "channel 2" in (found[1].cause.sentence if found[1].cause else "")
    shares = [f.born_share or 0.0 for f in found]
    assert shares[1] == pytest.approx(1.0, abs=0.05)
    assert 0 < shares[0] < 0.1


def test_a_clean_twin_has_nothing_to_explain(net: Net, image: torch.Tensor) -> None:
    assert _findings(net, image, _twin(net)) == ()


def test_the_screen_says_it(net: Net, image: torch.Tensor) -> None:
    screen = repr(twinnet.check(net, image, _twin(net, approximate="tanh")))
    assert "GELU tanh approximation instead of erf" in " ".join(screen.split())


class Spoken(nn.Module):
    """Its recurrent layer reads time first in ONNX, and its linear layer is two operators there."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = nn.GRU(6, 5, batch_first=True, bidirectional=True)
        self.said = nn.Linear(10, 10)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        return self.said(self.heard(sound)[0])


def _one_bias(net: Spoken) -> None:
    net.heard.bias_ih_l0[3] += 0.2


def _two_rows(net: Spoken) -> None:
    net.said.weight[[2, 7]] = net.said.weight[[7, 2]].clone()


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [(_one_bias, "bias", "bias of channel"), (_two_rows, "channel order", "channels 2 and 7 are exchanged")],
)
def test_a_layer_that_the_file_spells_otherwise_is_compared_all_the_same(
    change, kind: str, said: str, tmp_path: Path
) -> None:
    torch.manual_seed(3)
    net, sound = Spoken().eval(), torch.randn(1, 9, 6)
    changed = copy.deepcopy(net)
    with torch.no_grad():
        change(changed)
    torch.onnx.export(changed, (sound,), str(tmp_path / "net.onnx"), dynamo=True, verbose=False)
    result = twinnet.check(net, sound, f"onnxruntime:{tmp_path / 'net.onnx'}")
    assert isinstance(result, twinnet.Result)
    (finding,) = result.findings
    assert finding.cause is not None, finding.reason
    assert finding.cause.kind == kind and said in finding.cause.sentence


@pytest.mark.parametrize("turned", [False, True])
def test_a_cause_that_another_sample_refutes_is_not_named(net: Net, turned: bool) -> None:
    """Bias and factor off at once: where the picture is dark only the bias shows."""
    bright = torch.rand(1, 3, 16, 20, generator=torch.Generator().manual_seed(2))
    samples = [torch.zeros_like(bright), bright]

    def twin(x: np.ndarray) -> dict[str, np.ndarray]:
        with torch.no_grad():
            first = net.first(torch.from_numpy(x))
            if x.any():
                first = first.relu() * 1.37
            else:
                first = first.clone()
                first[:, 2] += 50.0
            act = nn.functional.gelu(first)
            return {"output": net.second(act).numpy(), "first": first.numpy(), "act": act.numpy()}

    (one,) = _findings(net, samples[0], twin)
    assert one.cause is not None and one.cause.kind == "bias"
    found = twinnet.check(net, samples[::-1] if turned else samples, twin)
    assert isinstance(found, twinnet.Result)
    (finding,) = found.findings
    assert finding.cause is None, finding.cause
    assert finding.reason is not None and finding.reason.code == "cause.samples"
    assert "but sample" in str(finding.reason)


class _Tanhs(nn.Module):
    """As many places for a fault as there are layers."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.layers, self.factor = nn.ModuleList(nn.Linear(8, 8) for _ in range(12)), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x) * self.factor)
        return x


@pytest.mark.parametrize(("seconds", "named"), [(600.0, 12), (0.0, 8)])
def test_causes_are_looked_for_while_there_is_time_and_the_rest_is_said(
    seconds: float, named: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twinnet.blame.collect._LOOKING", seconds)
    net, twin = _Tanhs(1.0).eval(), _Tanhs(1.01).eval()
    twin.load_state_dict(net.state_dict())
    found = twinnet.check(net, torch.randn(2, 8), twin)
    assert [f.cause is not None for f in found.findings] == [True] * named + [False] * (12 - named)
    notes = [g.message for g in found.guards if g.fact.code == "note.unsought"]
    assert notes == ([] if named == 12 else ["causes were looked for in 8 findings, but not in 4 more"])
    assert [f.reason.code for f in found.findings if f.cause is None] == ["cause.unsought"] * (12 - named)


@pytest.mark.parametrize("norm", [False, True])
def test_another_checkpoint_is_named_with_its_biases(norm: bool, tmp_path: Path) -> None:
    """Weights and biases differ at once, and a batch norm is folded into them: no constant explains it alone."""

    def made(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        between = nn.BatchNorm2d(8) if norm else nn.Identity()
        net = nn.Sequential(nn.Conv2d(3, 8, 3), between, nn.ReLU(), nn.Conv2d(8, 4, 1)).eval()
        for name, tensor in between.state_dict().items():
            if tensor.is_floating_point():
                nn.init.uniform_(tensor, *((-0.5, 0.5) if name == "running_mean" else (0.5, 2.0)))
        return net

    x = torch.randn(1, 3, 10, 10, generator=torch.Generator().manual_seed(0))
    torch.onnx.export(made(1), (x,), str(tmp_path / "old.onnx"), dynamo=True, verbose=False)
    result = twinnet.check(made(0), x, tmp_path / "old.onnx", keep="none")
    assert isinstance(result, twinnet.Result) and len(result.findings) == 2
    for finding in result.findings:
        assert finding.cause is not None and finding.cause.kind == "weights"
        assert "other weights and bias, as from another checkpoint" in finding.cause.sentence
