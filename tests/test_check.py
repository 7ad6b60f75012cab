"""The whole check: no false alarm on clean twins, planted faults at their module and only there, ERROR apart."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import twinnet
from tests import nets
from tests.onnx_edit import change, node_of, save, scale_channel, set_attribute
from twinnet.errors import UsageError
from twinnet.inputs import load_inputs, python_sample
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.onnx.export import onnx_artefact
from twinnet.result import Result, ResultSet


def _check(*args: Any, **options: Any) -> Result:
    found = twinnet.check(*args, **options)
    assert isinstance(found, Result)
    return found


@pytest.mark.parametrize("name", sorted(nets.NETS))
@pytest.mark.parametrize("level", ["all", pytest.param("off", marks=pytest.mark.slow)])
def test_no_false_alarm(name: str, level: str) -> None:
    module, args, kwargs = nets.NETS[name]()
    found = _check((module, (args, kwargs) if kwargs else args), None, f"onnxruntime?opt={level}", samples=2)
    assert found.verdict == "PASS", repr(found)
    assert found.findings == () and not [p for p in found.pairs if p.status == "fail"]
    assert found.inputs.samples >= 2 and found.inputs.synthetic
    assert found.coverage.paired > 0 and found.coverage.judged > 0


@pytest.mark.parametrize("name", ["mbconv", "dict_io", "unet"])
def test_the_given_example_is_used(name: str) -> None:
    module, args, kwargs = nets.NETS[name]()
    found = _check((module, (args, kwargs) if kwargs else args), None, "torch?dtype=float64")
    assert found.verdict == "PASS", repr(found)


# -- planted faults ----------------------------------------------------------------------------------


class Planted(nn.Module):
    """One of each: convolutions, batch norm, activation, layer norm, transposition, pooling."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.ReLU())
        self.mix = nn.Conv2d(8, 12, 1)
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.stem(x))
        y = self.mix(self.block(y) + y)
        y = self.norm(y.flatten(2).transpose(1, 2))
        return F.gelu(self.head(y)).mean(1)


@pytest.fixture(scope="module")
def planted() -> tuple[nn.Module, dict[str, np.ndarray], onnx.ModelProto]:
    module = nets._trained_look(Planted())
    x = {"x": np.random.default_rng(0).uniform(0, 1, (2, 3, 12, 12)).astype(np.float32)}
    network = load_network(module).with_example(python_sample(x))
    feed = load_inputs(network.signature, x)
    return module, x, onnx_artefact(network, None, Job(feed.samples[0])).model


def _relu(model: onnx.ModelProto) -> None:
    node_of(model, "Relu", 1).op_type = "Identity"


def _pads(model: onnx.ModelProto) -> None:
    set_attribute(node_of(model, "Conv", 1), "pads", [0, 0, 2, 2])


def _epsilon(model: onnx.ModelProto) -> None:
    set_attribute(node_of(model, "LayerNormalization"), "epsilon", 1e-2)


def _channel(model: onnx.ModelProto) -> None:
    scale_channel(model, node_of(model, "Conv", 2), 3, 1.01)


def _transposed(model: onnx.ModelProto) -> None:
    # A square weight read the wrong way round: every shape still fits.
    nodes = [n for n in model.graph.node if n.op_type in ("Gemm", "MatMul")]
    change(model, nodes[-1].input[1], np.transpose)


def _stale(model: onnx.ModelProto) -> None:
    change(model, node_of(model, "Conv", 0).input[2], lambda bias: bias + np.float32(1e-3))


FAULTS: dict[str, tuple[Callable[[onnx.ModelProto], None], str]] = {
    "one channel of a weight": (_channel, "mix"),
    "padding moved": (_pads, "block.0"),
    "activation dropped": (_relu, "block.2"),
    "another epsilon": (_epsilon, "norm"),
    "transposed weight": (_transposed, "head"),
    "stale bias": (_stale, "stem"),
}


@pytest.mark.parametrize("level", ["off", "all"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_at_its_module_and_only_there(
    planted: tuple[nn.Module, dict[str, np.ndarray], onnx.ModelProto], fault: str, level: str, tmp_path: Path
) -> None:
    module, x, clean = planted
    model = onnx.ModelProto()
    model.CopyFrom(clean)
    plant, place = FAULTS[fault]
    plant(model)
    found = _check(module, x, f"onnxruntime?opt={level}:{save(model, tmp_path / 'bad.onnx')}")
    assert found.verdict == "FAIL", repr(found)
    (finding,) = found.findings
    # Where the optimiser joined several layers, the segment that holds the fault is named.
    assert any(label.split()[0] == place for label in finding.segment), (finding.site, finding.segment)
    if level == "off":
        assert len(finding.segment) <= 3
    assert finding.ratio > finding.floor and "test_check.py" in finding.site.source
    assert found.first_failing is not None and found.failing >= 1


def test_the_clean_file_passes(
    planted: tuple[nn.Module, dict[str, np.ndarray], onnx.ModelProto], tmp_path: Path
) -> None:
    module, x, clean = planted
    found = _check(module, x, f"onnxruntime:{save(clean, tmp_path / 'good.onnx')}")
    assert found.verdict == "PASS" and not found.findings, repr(found)
    assert found.coverage.share > 0.6


def test_a_fault_that_one_of_several_samples_shows(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).eval()
    w = [(m.weight.detach().numpy(), m.bias.detach().numpy()) for m in (net[0], net[2])]

    def twin(x: np.ndarray) -> np.ndarray:
        hidden = np.maximum(x @ w[0][0].T + w[0][1], 0)
        return np.minimum(hidden, 6) @ w[1][0].T + w[1][1]  # a clamp that small inputs never meet

    rng = np.random.default_rng(0)
    samples = [rng.standard_normal((4, 8)).astype(np.float32) * s for s in (0.5, 0.5, 30.0, 0.5)]
    small = _check(net, samples[:2], twin)
    assert small.verdict == "PASS" and small.inputs.samples == 2
    found = _check(net, samples, twin)
    assert found.verdict == "FAIL" and {p.sample for p in found.pairs if p.status == "fail"} == {2}


# -- several twins, errors, guards -------------------------------------------------------------------


def test_complex_numbers_are_pairs_of_real_ones_in_onnx(tmp_path: Path) -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.fft(x).real + 1

    found = twinnet.check(Net(), torch.linspace(-1, 1, 16).reshape(2, 8), "onnxruntime", out=tmp_path)
    assert isinstance(found, Result) and found.verdict == "PASS", found


def test_a_twin_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_text("no model")
    net, sample = torch.nn.Linear(4, 4), torch.linspace(-1, 1, 8).reshape(2, 4)
    found = twinnet.check(net, sample, f"torch?dtype=float64,onnxruntime:{bad}", out=tmp_path / "run")
    assert isinstance(found, ResultSet) and found.verdict == "ERROR"
    assert [r.verdict for r in found] == ["PASS", "ERROR"]
    assert "is not an ONNX model" in " ".join(repr(found).split())
    with pytest.raises(UsageError, match="is not an ONNX model"):
        twinnet.check(net, sample, f"onnxruntime:{bad},onnxruntime:{bad}")


NET = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4)).eval()
X = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)


def test_an_error_does_not_stop_the_other_twins(tmp_path: Path) -> None:
    def broken(x: np.ndarray) -> np.ndarray:
        raise RuntimeError("out of memory on the board")

    found = twinnet.check(
        NET, X, [broken, "torch?dtype=float64", lambda x: np.zeros((3, 4), "f")], out=tmp_path
    )
    assert isinstance(found, ResultSet)
    assert [r.verdict for r in found] == ["ERROR", "PASS", "FAIL"]
    assert found.verdict == "FAIL" and found.exit_code == 1
    assert "out of memory on the board" in found.results[0].error and "ERROR" in repr(found)
    again = Result.load(tmp_path)
    assert isinstance(again, ResultSet) and [r.verdict for r in again] == ["ERROR", "PASS", "FAIL"]
    assert len([p for p in tmp_path.iterdir() if p.is_dir()]) == 3
    only = twinnet.check(NET, X, [broken, "torch?dtype=float64"])
    assert only.verdict == "ERROR" and only.exit_code == 3


def test_twins_of_one_name_keep_their_own_folders(tmp_path: Path) -> None:
    twinnet.check(NET, X, "torch?dtype=float64,torch?dtype=float64", out=tmp_path)
    folders = sorted(p.name for p in tmp_path.iterdir() if p.is_dir())
    assert folders == ["torch-dtype-float64", "torch-dtype-float64-2"]


class Random(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.noise = nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn_like(x)


def test_a_random_network_is_an_error_that_names_the_operator() -> None:
    found = _check(Random().eval(), X, "torch?dtype=float64")
    assert found.verdict == "ERROR" and "randn_like" in found.error and "test_check.py" in found.error


def test_a_random_file_is_an_error_too(tmp_path: Path) -> None:
    from onnx import helper

    from tests.onnx_edit import make_model

    quiet = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (3, 8)}, ["y"])
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["n"], scale=1e-3),
        helper.make_node("Add", ["x", "n"], ["s"]),
        helper.make_node("Neg", ["s"], ["y"]),
    ]
    noisy = save(make_model(nodes, {"x": (3, 8)}, ["y"]), tmp_path / "noisy.onnx")
    assert "RandomNormalLike" in _check(str(noisy), {"x": X}, "onnxruntime").error
    file = save(quiet, tmp_path / "quiet.onnx")
    twin = _check(str(file), {"x": X}, f"onnxruntime:{noisy}")
    assert twin.verdict == "ERROR" and "RandomNormalLike" in twin.error


def test_a_module_in_training_mode_is_said() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).train()
    found = _check(net, X, "torch?dtype=float64")
    assert found.verdict == "PASS" and any(g.name == "training mode" for g in found.guards)
    assert "training mode" in repr(found)
    assert not any(g.name == "training mode" for g in _check(NET, X, "torch?dtype=float64").guards)


def test_agreement_on_dead_data_is_weak() -> None:
    dead = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    with torch.no_grad():
        dead[0].bias.fill_(-100)
    found = _check(dead, X, "onnxruntime")
    assert found.verdict == "PASS" and found.evidence == "weak" and found.exit_code == 0
    assert any(g.weakens for g in found.guards) and "0 everywhere" in repr(found)
    assert _check(NET, X, "torch?dtype=float64").evidence == "strong"


def test_a_nondeterministic_twin_is_said_and_allowed_for() -> None:
    rng = np.random.default_rng(0)
    w = [(m.weight.detach().numpy(), m.bias.detach().numpy()) for m in (NET[0], NET[2])]

    def twin(x: np.ndarray) -> np.ndarray:
        y = np.tanh(x @ w[0][0].T + w[0][1]) @ w[1][0].T + w[1][1]
        return y + rng.uniform(-1e-5, 1e-5, y.shape).astype(np.float32)

    found = _check(NET, X, twin)
    (guard,) = [g for g in found.guards if g.name == "determinism"]
    assert "two equal runs of the twin differ by" in guard.message
    assert found.verdict == "PASS"
    wrong = _check(NET, X, lambda x: twin(x) + np.float32(0.01))
    assert wrong.verdict == "FAIL"


def test_metrics_of_the_users_own(tmp_path: Path) -> None:
    samples = [X, X[::-1].copy() * 2]

    def size(outputs: dict[str, np.ndarray], inputs: dict[str, np.ndarray]) -> float:
        assert set(inputs) == {"input"}
        return float(np.abs(outputs["output"]).sum())

    found = _check(NET, samples, "torch?dtype=float64", metric=size)
    (metric,) = found.metrics
    with torch.no_grad():
        want = np.mean([float(NET(torch.from_numpy(s)).abs().sum()) for s in samples])
    assert metric.name == "size" and metric.network == pytest.approx(want, rel=1e-6)
    assert (
        metric.twin == pytest.approx(want, rel=1e-6) and metric.between is not None and metric.between < 1e-5
    )
    (tmp_path / "m.py").write_text(
        "def gap(outputs, twin_outputs, inputs):\n    return abs(outputs['output'] - twin_outputs['output']).max()\n"
    )
    (gap,) = _check(NET, X, "torch?dtype=float64", metric=f"{tmp_path / 'm.py'}:gap").metrics
    assert gap.network is None and gap.between is not None and 0 < gap.between < 1e-6
    with pytest.raises(UsageError, match="none"):
        _check(NET, X, "torch?dtype=float64", metric=f"{tmp_path / 'm.py'}:none")
    with pytest.raises(UsageError, match="returned str, not a number"):
        _check(NET, X, "torch?dtype=float64", metric=lambda outputs: "good")


def test_watch_skip_and_level() -> None:
    every = _check(NET, X, "torch?dtype=float64")
    assert len(every.pairs) == 3
    tanh = _check(NET, X, "torch?dtype=float64", watch=("tanh",))
    assert [p.site.op for p in tanh.pairs] == ["tanh", "linear"]  # outputs are always compared
    assert [p.site.op for p in _check(NET, X, "torch?dtype=float64", skip=("0",)).pairs] == ["tanh", "linear"]
    outputs = _check(NET, X, "torch?dtype=float64", level="outputs")
    assert [p.site.role for p in outputs.pairs] == ["output"] and outputs.verdict == "PASS"
    assert len(outputs.pairs[0].segment) == 3


def test_the_answer_shows_itself(tmp_path: Path) -> None:
    found = _check(NET, X, "torch?dtype=float64", out=tmp_path / "run")
    text = repr(found)
    assert "PASS" in text and "network" in text and "\x1b" not in text
    assert "PASS" in found._repr_html_() and json.loads(found.to_json())["verdict"] == "PASS"
    names = {p.name for p in (tmp_path / "run").iterdir()}
    assert {"result.json", "report.html", "pairs.csv", "junit.xml", "summary.md", "environment.json"} <= names
    loaded = Result.load(tmp_path / "run")
    assert isinstance(loaded, Result) and loaded.pairs == found.pairs and loaded.verdict == "PASS"


def test_nothing_is_written_without_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _check(NET, X, "torch?dtype=float64")
    assert list(tmp_path.iterdir()) == []


def _with_a_changed_bias() -> nn.Sequential:
    changed = copy.deepcopy(NET)
    with torch.no_grad():
        changed[0].bias[2] += 0.5
    return changed


@pytest.mark.parametrize(
    "form",
    [
        lambda net: net,
        lambda net: torch.export.export(net.eval(), (torch.from_numpy(X),)),
        lambda net: (
            torch.onnx.export(net.eval(), (torch.from_numpy(X),), dynamo=True, verbose=False).model_proto
        ),
    ],
    ids=["module", "program", "model"],
)
def test_another_network_is_a_twin_whose_sites_are_seen(form: Any) -> None:
    changed = _with_a_changed_bias()
    found = _check(NET, X, form(changed))
    assert found.verdict == "FAIL" and len(found.findings) == 1
    # An engine that fuses the layer with its activation shows the two as one.
    assert found.findings[0].site.module in ("0", "1")
    assert found.findings[0].cause is not None and "bias of channel 2" in found.findings[0].cause.sentence
    assert _check(NET, X, form(copy.deepcopy(NET))).verdict == "PASS"


class _Renamed(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        return self.net(picture)


class _Unexportable(_Renamed):
    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        return self.net(picture) if float(picture.detach().sum()) < 1e9 else picture


@pytest.mark.parametrize("kind", [_Renamed, _Unexportable])
@pytest.mark.parametrize("by_name", [False, True])
def test_a_twin_may_call_its_inputs_otherwise(kind: Any, by_name: bool) -> None:
    given = {"input": X} if by_name else X
    assert _check(NET, given, kind(copy.deepcopy(NET))).verdict == "PASS"
    found = _check(NET, given, kind(_with_a_changed_bias()))
    assert found.verdict == "FAIL" and found.findings


def test_several_networks_and_engines_are_twins_side_by_side(tmp_path: Path) -> None:
    found = twinnet.check(NET, X, [_with_a_changed_bias().train(), NET, "torch?dtype=float64"], out=tmp_path)
    assert [r.verdict for r in found] == ["FAIL", "PASS", "PASS"]
    assert len({r.folder for r in found}) == 3


def test_the_twins_module_is_left_as_it_was() -> None:
    twin = copy.deepcopy(NET).train()
    _check(NET, X, twin)
    assert twin.training


def test_the_twin_may_be_a_path(tmp_path: Path) -> None:
    net, x = nn.Linear(4, 2).eval(), torch.rand(1, 4)
    torch.onnx.export(net, (x,), tmp_path / "net.onnx", verbose=False)
    assert _check(net, x, tmp_path / "net.onnx").verdict == "PASS"


def test_wrong_arguments_are_said() -> None:
    with pytest.raises(UsageError, match="an int is not a twin"):
        twinnet.check(NET, X, 5)
    with pytest.raises(UsageError, match="no twin given"):
        twinnet.check(NET, X, [])
    with pytest.raises(UsageError, match="names neither an engine"):
        twinnet.check(NET, X, "tensorrtt")
    with pytest.raises(TypeError, match="toleranse"):
        twinnet.check(NET, X, "torch", toleranse=1)  # type: ignore[call-arg]


def test_the_users_module_is_left_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).train()
    before = {n: p.clone() for n, p in net.state_dict().items()}
    _check(net, X, "torch?dtype=bfloat16")
    assert net.training and all(torch.equal(before[n], p) for n, p in net.state_dict().items())
