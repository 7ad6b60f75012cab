"""Findings confirmed by running the twin's segment alone, on every engine that can; and what is said where none can."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from benchmarks.faults.tables.kinds import PLAN_FAULTS
from onnx import helper, numpy_helper

import twinnet
from tests.engines.test_command import X, describe
from tests.lut.zoo import random_net
from tests.narrow import Files, weight_of
from tests.needs import need_engine
from tests.onnx_edit import make_model, node_of, save, scale_channel
from tests.tables.test_causes import IMAGE, place
from twinnet import lut
from twinnet.blame.confirm import ALONE, CONTEXT, Confirmer
from twinnet.checking.record import record
from twinnet.engines import BUILT_IN, find_engine
from twinnet.errors import EngineError
from twinnet.job import Job
from twinnet.judge.verdicts import Born
from twinnet.lut.file import LutFile, write
from twinnet.network import load_network
from twinnet.pairing import Pair
from twinnet.result import Fact, Result, fact, said
from twinnet.trace import TraceBuilder


def _check(network: Any, inputs: Any, twin: Any, **options: Any) -> Result:
    result = twinnet.check(network, inputs, twin, keep="none", **options)
    assert isinstance(result, Result) and result.verdict == "FAIL", result
    return result


def _model() -> onnx.ModelProto:
    """A convolution with its activation between other layers: a fault there is at neither end of the network."""
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node("Conv", ["s", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["y"]),
    ]
    weight = (np.random.default_rng(0).standard_normal((4, 3, 3, 3)) / 5).astype(np.float32)
    return make_model(nodes, {"x": (1, 3, 6, 6)}, ["y"], {"w": weight})


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(_model(), tmp_path_factory.mktemp("good") / "good.onnx")


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = _model()
    scale_channel(model, node_of(model, "Conv"), 2, 1.5)
    return save(model, tmp_path_factory.mktemp("bad") / "bad.onnx")


# -- the fault is the segment's own --------------------------------------------------------------------------------

_ONNX = {
    "onnxruntime": ("onnxruntime?opt=off", "onnxruntime?opt=all"),
    "onnx-reference": ("onnx-reference",),
    "openvino": ("openvino", "openvino?shapes=static&threads=1"),
    "iree": ("iree",),
}


@pytest.mark.parametrize("twin", [spec for specs in _ONNX.values() for spec in specs])
def test_a_fault_in_an_onnx_twin(twin: str, good: Path, bad: Path) -> None:
    need_engine(twin.partition("?")[0])
    result = _check(str(good), X, f"{twin}:{bad}")
    (finding,) = result.findings
    assert finding.site.tensor in ("c", "r")
    assert (finding.confirmed, finding.confirmation) == (True, ALONE)
    # What confirming takes is told apart from what the check itself does.
    assert result.timings["confirm"] > 0


def test_a_fault_in_another_interpreter(good: Path, bad: Path) -> None:
    need_engine("onnxruntime")
    (finding,) = _check(str(good), X, f"onnxruntime?python={sys.prefix}:{bad}").findings
    assert (finding.confirmed, finding.confirmation) == (True, ALONE)


def test_a_fault_of_a_toolchain(good: Path, tmp_path: Path) -> None:
    """The part takes other inputs than the network, and the toolchain is told of these."""
    need_engine("onnxruntime")
    file = describe(tmp_path, "raw", ('["a1", "b2"]', '["a1", "d4"]'))
    (finding,) = _check(str(good), X, f"command?chip=d4:{file}").findings
    assert finding.site.tensor == "r" and (finding.confirmed, finding.confirmation) == (True, ALONE)


def test_what_is_compiled_of_a_part_is_told_its_own_inputs(good: Path, tmp_path: Path) -> None:
    """This compiler refuses a network whose inputs are not those it was told of."""
    need_engine("onnxruntime")
    step = '"{artefact}", "--chip"'
    told = (
        '"{artefact}", { each = "inputs", text = "{name}:{shape}", join = ",", before = "--told=" }, "--chip"'
    )
    file = describe(tmp_path, "raw", (step, told))
    session = find_engine("command").open(load_network(str(good)), {}, str(file), Job(X))
    seen = session.trace(X, {"s", "c"}, TraceBuilder())
    assert np.array_equal(session.part("c", {"s", "x"}, seen), seen["c"])


class Twin(torch.nn.Module):
    def __init__(self, fault: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last = torch.nn.Linear(12, 12), torch.nn.Linear(12, 12)
        self.scale = 1.5 if fault else 1.0

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.first(image))
        return self.last(torch.tanh(x * self.scale))


class Unexportable(Twin):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image if float(image.sum().item()) > 1e9 else super().forward(image)


IMAGE_12 = torch.randn(8, 12, generator=torch.Generator().manual_seed(0))
_FILE = """
from tests.blame.test_confirm import Twin, Unexportable
def exported(): return Twin(True).eval()
def eager(): return Unexportable(True).eval()
"""


@pytest.mark.parametrize("options", ["", "?dtype=float64", "?threads=1"])
def test_a_fault_in_a_torch_twin(options: str, tmp_path: Path) -> None:
    (tmp_path / "twin.py").write_text(_FILE)
    network = Twin(False).eval()
    (finding,) = _check(network, IMAGE_12, f"torch{options}:{tmp_path / 'twin.py'}:exported").findings
    assert finding.site.op.startswith(("mul", "tanh")), finding
    assert (finding.confirmed, finding.confirmation) == (True, ALONE)


def test_a_module_as_a_twin_is_one_of_torch() -> None:
    twin = Twin(True).train()
    result = _check(Twin(False).eval(), IMAGE_12, twin)
    assert result.twin.engine == "torch" and result.coverage.share == 1
    assert twin.training  # as its owner left it
    (finding,) = result.findings
    assert (finding.confirmed, finding.confirmation) == (True, ALONE)


def test_a_part_of_a_torch_twin_runs_only_its_own_operators() -> None:
    network = load_network(Twin(False).eval()).with_example((IMAGE_12,))
    inputs = {"image": IMAGE_12.numpy()}
    session = find_engine("torch").open(network, {}, None, Job(inputs))
    seen = session.trace(inputs, {s.tensor for s in session.sites}, TraceBuilder())
    target = session.output_tensors[0]
    before = next(s.tensor for s in reversed(session.sites) if s.tensor != target)
    given = np.ones_like(seen[before])
    alone = session.part(target, {before}, {before: given})
    with torch.no_grad():
        assert np.array_equal(alone, Twin(False).last(torch.from_numpy(given)).numpy())


def _scaled(model: onnx.ModelProto) -> None:
    tensor = weight_of(model, "left.weight_scale")
    scale = numpy_helper.to_array(tensor) * np.where(np.arange(16) == 3, 1.5, 1).astype(np.float32)
    tensor.CopyFrom(numpy_helper.from_array(scale.astype(np.float32), tensor.name))


def test_a_fault_in_a_quantised_twin(narrow: Files, tmp_path: Path) -> None:
    """Cut where the tensors are whole numbers, so that the part runs in the kernels of the whole."""
    need_engine("onnxruntime")
    model = onnx.load(narrow.int8)
    _scaled(model)
    onnx.save(model, tmp_path / "bad.onnx")
    (finding,) = _check(narrow.module, narrow.image, f"onnxruntime:{tmp_path / 'bad.onnx'}").findings
    assert finding.twin_site is not None and "QuantizeLinear" in finding.twin_site.tensor
    assert (finding.confirmed, finding.confirmation) == (True, ALONE)


def test_a_part_runs_under_the_options_of_its_twin(tmp_path: Path) -> None:
    """With weights alone in 8 bits, the data of a product is not rounded in its part either."""
    need_engine("onnxruntime")
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((64, 64)).astype(np.float32)
    path = save(
        make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (4, 64)}, ["y"], {"w": weight}),
        tmp_path / "product.onnx",
    )
    x = {"x": rng.standard_normal((4, 64)).astype(np.float32)}
    engine = find_engine("onnxruntime")
    session = engine.open(load_network(str(path)), {"quantize": "weights"}, None, Job(x))
    assert np.array_equal(session.part("y", {"x"}, x), session.run(x)["y"])
    key = "config.session.qdq_matmulnbits_accuracy_level"
    assert engine.standalone_options({"quantize": "weights"}, None, Job(x))[key] == "1"
    assert engine.standalone_options({"quantize": "weights", key: "4"}, None, Job(x))[key] == "4"


_TABLES = ("lut", "lut?executor=numpy", "lut?executor=reference", "lut-native")


@pytest.mark.parametrize("twin", _TABLES)
@pytest.mark.parametrize(("net", "fault"), [("mulut-sdy", "one entry"), ("auto-mulut", "wrong divisor")])
def test_a_fault_in_tables(net: str, fault: str, twin: str, tmp_path: Path) -> None:
    """The second stage alone; with a residual it reads two registers."""
    plan = lut.lower(random_net(net))
    planted = PLAN_FAULTS[fault](place(plan))
    assert planted is not None
    good = write(LutFile(plan), tmp_path / "good.lut.safetensors")
    bad = write(LutFile(planted.plan), tmp_path / "bad.lut.safetensors")
    (finding, *_) = _check(str(good), {"image": IMAGE}, f"{twin}:{bad}").findings
    assert finding.site.tensor.startswith("stage2")
    assert (finding.confirmed, finding.confirmation) == (True, ALONE)


def test_a_fault_in_tables_as_onnx(tmp_path: Path) -> None:
    need_engine("onnxruntime")
    plan = lut.lower(random_net("mulut-sdy"))
    planted = PLAN_FAULTS["wrong divisor"](place(plan))
    assert planted is not None
    good = write(LutFile(plan), tmp_path / "good.lut.safetensors")
    lut.to_onnx(planted.plan, tmp_path / "bad.onnx")
    (finding, *_) = _check(str(good), {"image": IMAGE}, f"onnxruntime:{tmp_path / 'bad.onnx'}").findings
    assert (finding.confirmed, finding.confirmation) == (True, ALONE)


def test_every_engine_says_whether_it_can_cut() -> None:
    """And the tests above and below hold each to it."""
    able = {name for name in BUILT_IN if find_engine(name).abilities.segment != "no"}
    # Parts of TFLite files and of ExecuTorch programs: tests/engines/test_litert_faults.py, test_executorch.py.
    others = {"command", "torch", "litert", "executorch"}
    assert able == {*_ONNX, *others, *(t.partition("?")[0] for t in _TABLES)}
    assert set(BUILT_IN) - able == {"callable", "recording"}


# -- the fault is not the segment's own ----------------------------------------------------------------------------


def test_what_a_toolchain_does_only_when_it_fuses(good: Path, tmp_path: Path) -> None:
    need_engine("onnxruntime")
    file = describe(tmp_path, "raw", ('["a1", "b2"]', '["a1", "c3"]'))
    result = _check(str(good), X, f"command?chip=c3:{file}", out=tmp_path / "run")
    (finding,) = result.findings
    assert finding.site.tensor == "r" and (finding.confirmed, finding.confirmation) == (False, CONTEXT)
    assert "alone    only in context" in repr(result)
    for name in ("report.html", "summary.md"):
        assert "only in context" in (tmp_path / "run" / name).read_text(), name


# -- nobody can tell -----------------------------------------------------------------------------------------------


def _said(result: Result) -> str:
    (finding,) = result.findings
    assert finding.confirmed is None
    return str(finding.confirmation)


def test_a_function_cannot_be_cut() -> None:
    def twin(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return Twin(True)(torch.from_numpy(x)).numpy()

    assert _said(_check(Twin(False).eval(), IMAGE_12, twin)) == "callable cannot run a part of the twin alone"


def test_a_recording_cannot_be_cut(good: Path, bad: Path, tmp_path: Path) -> None:
    need_engine("onnxruntime")
    record(str(bad), X, out=tmp_path / "recorded")
    result = _check(str(good), X, f"recording:{tmp_path / 'recorded'}")
    assert _said(result) == "a recording cannot be run, whole or in part"


def test_a_module_that_cannot_be_exported_cannot_be_cut(tmp_path: Path) -> None:
    (tmp_path / "twin.py").write_text(_FILE)
    result = _check(Twin(False).eval(), IMAGE_12, f"torch:{tmp_path / 'twin.py'}:eager")
    assert _said(result) == "torch.export failed: there is no graph that a part could be cut from"


def test_a_compiled_module_is_one_segment() -> None:
    network = load_network(Twin(False).eval()).with_example((IMAGE_12,))
    session = find_engine("torch").open(network, {"compile": "1"}, None, Job({"image": IMAGE_12.numpy()}))
    with pytest.raises(EngineError, match="the segment is the whole twin") as caught:
        session.part("linear_1", {"image"}, {})
    assert caught.value.stage == "cut"


def test_a_toolchain_that_names_the_inputs_of_the_network_cannot_run_a_part(
    good: Path, tmp_path: Path
) -> None:
    need_engine("onnxruntime")
    file = describe(tmp_path, "npy", ('["a1", "b2"]', '["a1", "d4"]'))
    said = _said(_check(str(good), X, f"command?chip=d4:{file}"))
    assert said.startswith("its segment could not be run alone: ") and "inputs[x]" in said


def test_a_part_that_kills_its_interpreter_leaves_the_check_alone(
    good: Path, bad: Path, tmp_path: Path
) -> None:
    """The second child dies: the first, with the twin in it, goes on with the next sample."""
    need_engine("onnxruntime")
    marker, script = tmp_path / "started", tmp_path / "python"
    script.write_text(
        f'#!/bin/sh\nif [ -e "{marker}" ]; then kill -SEGV $$; fi\n'
        f'touch "{marker}"\nexec "{sys.executable}" "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    samples = [X, {"x": X["x"] * 2}]
    result = _check(str(good), samples, f"onnxruntime?opt=off&python={script}:{bad}")
    assert result.inputs.samples == 2
    said = _said(result)
    assert said.startswith("its segment could not be run alone: ") and "SIGSEGV" in said


def _confirming(
    good: Path, twin: str, seconds: float
) -> tuple[Callable[[Callable[..., Born]], tuple[bool | None, Fact]], Job]:
    """A call that confirms one pair with a judge, as often as it likes; and its job."""
    from twinnet.blame.context import Context
    from twinnet.layers.graph import Graph

    job = Job(X)
    session = find_engine(twin).open(load_network(str(good)), {}, None, job)
    seen = session.trace(X, {s.tensor for s in session.sites}, TraceBuilder())
    pairs = [Pair(s, s, "names") for s in session.sites]
    context = Context(Graph((), (), (), {}), pairs, lambda pair: None, seen, seen, {})
    last = next(p for p in pairs if p.site.tensor == "r")
    confirmer = Confirmer(session, job, seconds)
    return lambda judge: confirmer.confirm(last, context, judge), job


def test_a_compiler_is_given_no_more_time_than_there_is(good: Path) -> None:
    need_engine("iree")
    confirm, job = _confirming(good, "iree", seconds=1e-4)
    before = dict(job.timings)
    yes, why = confirm(lambda pair, trace: Born("fail"))
    assert yes is None and "the time limit" in str(why), why
    assert confirm(lambda pair, trace: Born("fail")) == (
        None,
        fact("alone.no_time", seconds=1e-4),
    )
    assert job.time_limit is None and job.timings == before


def test_what_cannot_be_judged_is_not_confirmed(good: Path) -> None:
    need_engine("onnxruntime")
    confirm, _ = _confirming(good, "onnx-reference", seconds=60)
    yes, why = confirm(lambda pair, trace: Born("not judged", reason=said("no such layer")))
    assert yes is None and str(why).endswith("could not be judged: no such layer")

    def raising(error: Exception) -> Any:
        def judge(pair: Pair, trace: Any) -> Born:
            raise error

        return judge

    refused = EngineError("no kernel for r")
    assert confirm(raising(refused)) == (None, fact("alone.failed", error="no kernel for r"))
    with pytest.raises(ZeroDivisionError):  # a bug of ours is not the engine's
        confirm(raising(ZeroDivisionError()))
    assert confirm(lambda pair, trace: Born("untested")) == (False, CONTEXT)
