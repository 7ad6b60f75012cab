"""IREE: agreement, planted faults, what it refuses, its types, its IR and its times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import twinnet
from tests.engines.planted import FAULTS, Fault, network
from tests.models import MODELS, model_path
from tests.needs import need_engine
from tests.onnx_edit import make_model, node_of, save
from twinnet.engines import find_engine, reference_spec
from twinnet.engines._iree_tools import tool
from twinnet.engines.base import Session
from twinnet.errors import EngineError, UsageError
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.result import Result, ResultSet
from twinnet.trace import TraceBuilder


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("iree")


def _check(net: object, inputs: object, twin: str = "iree", **options: object) -> Result:
    found = twinnet.check(net, inputs, twin, **options)
    assert isinstance(found, Result)
    return found


def _open(path: Path, inputs: dict[str, np.ndarray], job: Job | None = None, **options: str) -> Session:
    return find_engine("iree").open(load_network(str(path)), options, None, job or Job(inputs))


X = {"x": np.random.default_rng(1).standard_normal((1, 3, 10, 8)).astype(np.float32)}


def _small(size: tuple[int | str, ...] = (1, 3, 10, 8), opset: int = 18) -> onnx.ModelProto:
    weight = (np.random.default_rng(0).standard_normal((4, 3, 3, 3)) / 5).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["c"], ["s"], name="gate"),
        helper.make_node("Mul", ["c", "s"], ["m"], name="swish"),
        helper.make_node("GlobalAveragePool", ["m"], ["y"], name="mean"),
    ]
    return make_model(nodes, {"x": size}, ["y"], {"w": weight}, opset=opset)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(_small(), tmp_path_factory.mktemp("iree") / "small.onnx")


def _values(path: Path, **options: str) -> dict[str, np.ndarray]:
    session = _open(path, X, **options)
    return dict(session.trace(X, {s.tensor for s in session.sites}, TraceBuilder()))


# -- agreement -----------------------------------------------------------------------------------------------------


def test_a_small_network_passes_with_every_tensor_seen(small: Path) -> None:
    found = _check(str(small), X)
    assert found.verdict == "PASS" and found.evidence == "strong", found
    assert [p.site.tensor for p in found.pairs] == ["c", "s", "m", "y"]
    assert max(p.ratio or 0.0 for p in found.pairs) < 1.5
    assert found.twin.engine == "iree" and found.twin.precision == "float32"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mbconv", "transformer", "unet", "functional"])
def test_networks_pass_within_the_noise_floor(name: str) -> None:
    module, args = network(name)
    found = _check(module, args)
    assert found.verdict == "PASS" and found.evidence == "strong", found
    assert max(p.ratio or 0.0 for p in found.pairs) < 2.5


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_every_planted_fault_is_named_at_its_layer(fault: Fault, tmp_path: Path) -> None:
    module, args = network(fault.net)
    found = _check(module, args, f"iree:{fault.file(tmp_path)}")
    assert found.verdict == "FAIL" and len(found.findings) == 1, found
    finding = found.findings[0]
    assert len(finding.segment) <= 3 and any(label.startswith(fault.module) for label in finding.segment)
    # One channel of a weight that is larger by a factor is a matter of weights, and of scale.
    kinds = (fault.kind, "scale") if fault.name == "one-channel" else (fault.kind,)
    assert finding.cause is not None and finding.cause.kind in kinds


def test_a_fault_in_the_file_is_named_at_its_node(small: Path, tmp_path: Path) -> None:
    model = onnx.load(str(small))
    node_of(model, "Sigmoid").op_type = "HardSigmoid"
    found = _check(str(small), X, f"iree:{save(model, tmp_path / 'faulty.onnx')}", keep="none")
    assert found.verdict == "FAIL" and [f.site.tensor for f in found.findings] == ["s"], found
    cause = found.findings[0].cause
    assert cause is not None and cause.kind == "activation"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["magika", "orientation", "ppocr-cls"])
def test_real_networks_agree(name: str) -> None:
    found = _check(str(model_path(name)), MODELS[name].inputs())
    assert found.verdict == "PASS" and found.coverage.judged > 80, found


def test_the_network_is_never_read_by_the_importer_of_its_twin(small: Path) -> None:
    module, _ = network("mbconv")
    for loaded in (load_network(str(small)), load_network(module)):
        assert reference_spec(loaded).engine in ("torch", "onnxruntime")
    # And nothing of IREE is loaded into this process: its programs are.
    code = (
        "import sys, numpy, twinnet;"
        f"twinnet.check({str(small)!r}, {{'x': numpy.ones((1, 3, 10, 8), 'f')}}, 'iree');"
        "print([m for m in sys.modules if m.startswith('iree.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "[]", done.stderr


def test_one_engine_that_errs_does_not_stop_the_others(tmp_path: Path) -> None:
    found = twinnet.check(str(_refused(tmp_path)), _REFUSED, "iree,onnxruntime")
    assert isinstance(found, ResultSet)
    assert [r.verdict for r in found] == ["ERROR", "PASS"]


# -- what it refuses -----------------------------------------------------------------------------------------------

_REFUSED = {"x": np.random.default_rng(0).standard_normal((3, 2, 4)).astype(np.float32)}


def _refused(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((2, 6, 4)), "r": rng.standard_normal((2, 6, 2))}
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node(
            "GRU", ["a", "w", "r"], ["g", "h"], "both ways", hidden_size=2, direction="bidirectional"
        ),
        helper.make_node("Tanh", ["h"], ["y"]),
    ]
    small = {n: a.astype(np.float32) for n, a in weights.items()}
    return save(make_model(nodes, {"x": (3, 2, 4)}, ["y"], small), folder / "gru.onnx")


def test_an_operator_it_does_not_have_is_an_error_with_its_words_and_a_small_network(tmp_path: Path) -> None:
    found = _check(str(_refused(tmp_path)), _REFUSED, out=tmp_path / "run")
    assert found.verdict == "ERROR" and found.stage == "compile the network"
    assert "node both ways (GRU): failed to legalize operation" in found.error
    assert "onnx.GRU" in found.log and "bidirectional" in found.log
    made = twinnet.repro(tmp_path / "run", tmp_path / "repro")
    assert made.kind == "error" and made.confirmed and made.nodes == 1, made
    small = onnx.load(str(tmp_path / "repro" / "network.onnx"))
    features = small.graph.input[0].type.tensor_type.shape.dim[2].dim_value
    assert features == 4  # no smaller than the weights allow: such a network nobody could run
    text = (tmp_path / "repro" / "repro.py").read_text()
    assert "import_onnx" in text and "import twinnet" not in text and "from twinnet" not in text


def test_a_compiler_that_crashes_is_an_error(tmp_path: Path) -> None:
    nodes = [helper.make_node("Unique", ["x"], ["y"], axis=2)]
    path = save(make_model(nodes, {"x": (3, 2, 4)}, ["y"]), tmp_path / "unique.onnx")
    found = _check(str(path), _REFUSED)
    assert (
        found.verdict == "ERROR"
        and "iree-compile could not compile the network: it died of SIG" in found.error
    )
    assert "iree" in found.log


def test_a_time_limit_holds_for_the_compiler(tmp_path: Path) -> None:
    path = save(_small((1, 3, 9, 7)), tmp_path / "net.onnx")
    x = {"x": np.ones((1, 3, 9, 7), np.float32)}
    with pytest.raises(EngineError, match="the time limit"):
        _open(path, x, Job(x, time_limit=0.05))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"opt": "O9"}, "O0|O1|O2|O3"),
        ({"shapes": "some"}, "static|dynamic"),
        ({"speed": "high"}, "no option"),
    ],
)
def test_wrong_options_are_named(small: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        _open(small, X, **options)
    assert said in str(caught.value)


# -- real disagreements ----------------------------------------------------------------------------------------------


def test_average_pooling_that_ends_beyond_the_padding(tmp_path: Path) -> None:
    """IREE divides the last window by its whole size, ONNX by the part inside the padded input."""
    pool = helper.make_node(
        "AveragePool",
        ["x"],
        ["y"],
        kernel_shape=[3],
        strides=[2],
        pads=[1, 1],
        ceil_mode=1,
        count_include_pad=1,
    )
    path = save(make_model([pool], {"x": (1, 1, 6)}, ["y"]), tmp_path / "pool.onnx")
    x = {"x": np.float32([[[1, 2, 3, 4, 5, 6]]])}
    found = _check(str(path), x, keep="none")
    assert found.verdict == "FAIL" and found.findings[0].site.op == "AveragePool"
    session = _open(path, x)
    np.testing.assert_allclose(session.run(x)["y"][0, 0, -1], 6 / 3)  # of three places, one is past the end
    other = find_engine("onnxruntime").open(load_network(str(path)), {}, None, Job(x))
    np.testing.assert_allclose(other.run(x)["y"][0, 0, -1], 6 / 2)


def _one_node(folder: Path, op: str, shape: tuple[int, ...], **attributes: object) -> tuple[Path, Result]:
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    path = save(make_model([node], {"x": shape}, ["y"], opset=20), folder / f"{op}.onnx")
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    return path, _check(str(path), {"x": x}, keep="none")


def test_pixel_shuffle_is_imported_wrongly(tmp_path: Path) -> None:
    """DepthToSpace in CRD mode mixes channels up, unless there are as many of them left as the block is wide."""
    path, found = _one_node(tmp_path, "DepthToSpace", (1, 12, 3, 5), blocksize=2, mode="CRD")
    assert found.verdict == "FAIL" and found.findings[0].site.tensor == "y"
    x = {"x": np.arange(180, dtype=np.float32).reshape(1, 12, 3, 5)}
    right = x["x"].reshape(1, 3, 2, 2, 3, 5).transpose(0, 1, 4, 2, 5, 3).reshape(1, 3, 6, 10)
    assert not np.array_equal(_open(path, x).run(x)["y"], right)
    other = find_engine("onnxruntime").open(load_network(str(path)), {}, None, Job(x))
    assert np.array_equal(other.run(x)["y"], right)
    assert _one_node(tmp_path, "DepthToSpace", (1, 8, 3, 5), blocksize=2, mode="CRD")[1].verdict == "PASS"


@pytest.mark.parametrize("corners", [pytest.param(True, marks=pytest.mark.slow), False])
def test_places_far_outside_the_picture_are_read_from_memory(corners: bool) -> None:
    """The fault is IREE's: PyTorch, ONNX Runtime and float64 agree, and the IR lacks the other half of the check."""

    class Sampled(torch.nn.Module):
        def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.grid_sample(x, grid, align_corners=corners)

    made = torch.Generator().manual_seed(4)
    x, near = torch.randn(4, 3, 6, 7, generator=made), torch.rand(4, 5, 4, 2, generator=made) * 2 - 1
    # Only pictures with another one on both sides: what lies beside the tensor itself may be anything, also NaN.
    far = near * torch.tensor([1.0, 2.0, 2.0, 1.0]).reshape(4, 1, 1, 1)
    net = Sampled().eval()
    assert twinnet.check(net, (x, near), "iree").verdict == "PASS"
    right, wrong = (twinnet.check(net, (x, far), twin) for twin in ("onnxruntime", "iree"))
    assert right.verdict == "PASS"
    assert isinstance(wrong, twinnet.Result)
    cause = wrong.findings[0].cause
    assert cause is not None and cause.fact.code == "resize.unchecked", repr(wrong)
    assert "more than a pixel outside the picture" in repr(wrong).replace("\n         ", " ")


@pytest.mark.parametrize("reach", [0.2, pytest.param(1.0, marks=pytest.mark.slow)])
def test_a_tensor_that_is_wrong_only_where_it_is_watched_is_not_accused(reach: float) -> None:
    """The grid has its first channel alone as an output; GridSample reads all of it. Its own fault is still found."""

    class Flow(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flow = torch.nn.Conv2d(3, 2, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            grid = self.flow(x).permute(0, 2, 3, 1) * reach
            return torch.nn.functional.grid_sample(x, grid, align_corners=True)

    torch.manual_seed(0)
    x, net = torch.randn(2, 3, 8, 8), Flow().eval()
    found = twinnet.check(net, x, "iree", keep="none")
    assert isinstance(found, twinnet.Result)
    assert "watching.shown" in {guard.fact.code for guard in found.guards}
    assert found.verdict == ("PASS" if reach < 1 else "FAIL"), repr(found)
    causes = [f.cause.fact.code for f in found.findings if f.cause is not None]
    assert causes == ([] if reach < 1 else ["resize.unchecked"])


@pytest.mark.parametrize(("op", "attributes"), [("Gelu", {"approximate": "tanh"}), ("Selu", {})])
def test_constants_with_too_few_digits(op: str, attributes: dict[str, object], tmp_path: Path) -> None:
    _, found = _one_node(tmp_path, op, (64,), **attributes)
    assert found.verdict == "FAIL" and 4 < (found.findings[0].ratio or 0) < 1000, found


@pytest.mark.slow
def test_a_network_with_two_of_these_has_two_findings() -> None:
    module, args = network("norms")
    found = _check(module, args)
    assert [f.site.op for f in found.findings] == ["gelu", "pixel_shuffle"], found


def test_double_precision_is_kept_unless_it_is_given_away(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE),
        helper.make_node("Add", ["d", "million"], ["a"]),
        helper.make_node("Sub", ["a", "million"], ["b"]),
        helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT),
    ]
    path = save(make_model(nodes, {"x": (4,)}, ["y"], {"million": np.float64(1e6)}), tmp_path / "double.onnx")
    x = {"x": np.float32([0.1, 0.2, 0.3, 0.4])}
    np.testing.assert_allclose(_open(path, x).run(x)["y"], x["x"], rtol=1e-6)
    assert np.abs(_open(path, x, f64="demote").run(x)["y"] - x["x"]).max() > 0.01


# -- how it is given a network ---------------------------------------------------------------------------------------


def test_an_old_opset_is_converted_and_the_notes_say_so(tmp_path: Path, small: Path) -> None:
    old = save(_small(opset=11), tmp_path / "old.onnx")
    found = _check(str(old), X)
    assert found.verdict == "PASS"
    said = [g.message for g in found.guards if "opset 11 to 17" in g.message]
    assert said == ["iree: the ONNX model was converted from opset 11 to 17 first"]
    assert [p.site.tensor for p in found.pairs] == ["c", "s", "m", "y"]


@pytest.mark.slow
def test_open_sizes_are_compiled_for_each_sample_or_left_open(tmp_path: Path) -> None:
    path = save(_small((1, 3, "h", "w")), tmp_path / "open.onnx")
    samples = [np.random.default_rng(i).standard_normal((1, 3, 6 + i, 8)).astype(np.float32) for i in (0, 2)]
    for shapes in ("static", "dynamic"):
        session = _open(path, {"x": samples[0]}, shapes=shapes)
        other = find_engine("onnxruntime").open(load_network(str(path)), {}, None, Job({"x": samples[0]}))
        for sample in samples:
            ours, theirs = session.run({"x": sample})["y"], other.run({"x": sample})["y"]
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        assert len(session._modules) == (2 if shapes == "static" else 1)  # type: ignore[attr-defined]


def test_what_was_compiled_is_not_compiled_again(small: Path) -> None:
    _values(small)
    job = Job(X)
    session = _open(small, X, job)
    session.trace(X, {s.tensor for s in session.sites}, TraceBuilder())
    assert "compile" not in job.timings and job.timings["run"] > 0
    again = Job(X)
    _open(small, X, again, cpu="generic")
    assert again.timings["compile"] > 0


def test_numbers_of_every_kind_come_back(tmp_path: Path) -> None:
    kinds = {
        "f16": "FLOAT16",
        "bf16": "BFLOAT16",
        "f64": "DOUBLE",
        "i64": "INT64",
        "i8": "INT8",
        "u8": "UINT8",
    }
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Greater", ["x", "zero"], ["b"])]
    nodes += [helper.make_node("Cast", ["a"], [n], to=getattr(TensorProto, k)) for n, k in kinds.items()]
    nodes.append(helper.make_node("ReduceMax", ["a"], ["scalar"], keepdims=0))
    outputs = ["b", *kinds, "scalar"]
    model = make_model(nodes, {"x": (2, 3)}, outputs, {"zero": np.float32(0)})
    path = save(model, tmp_path / "kinds.onnx")
    x = {"x": np.float32([[1.5, -200, 3], [0, -5, 7.25]])}
    x8 = {"x": np.float32([[1.5, -100, 3], [0, -5, 7.25]])}
    got = _open(path, x8).run(x8)
    want = np.abs(x8["x"])
    assert {n: a.dtype.name for n, a in got.items()} == {
        "b": "bool",
        "f16": "float16",
        "bf16": "bfloat16",
        "f64": "float64",
        "i64": "int64",
        "i8": "int8",
        "u8": "uint8",
        "scalar": "float32",
    }
    assert got["b"].tolist() == (x8["x"] > 0).tolist() and got["scalar"].shape == ()
    for name in ("f16", "bf16", "f64"):
        assert np.array_equal(got[name].astype(np.float32), want), name
    for name in ("i64", "i8", "u8"):
        assert np.array_equal(got[name], np.trunc(want)), name
    # What becomes of a float above 127 is up to the processor: IREE 3.13 saturates it as a signed byte without AVX-512.
    assert _open(path, x8).run(x)["u8"][0, 1] in (200, 127)


def test_threads_and_flags_reach_the_programs(small: Path) -> None:
    session = _open(small, X, threads="2", opt="O3", **{"flag.iree-opt-data-tiling": "false"})
    assert session._device[0] == "--device=local-task"  # type: ignore[attr-defined]
    flags = session._compiler.flags  # type: ignore[attr-defined]
    assert "--iree-opt-level=O3" in flags and "--iree-opt-data-tiling=false" in flags
    np.testing.assert_allclose(session.run(X)["y"], _values(small)["y"], rtol=1e-5, atol=1e-6)
    with pytest.raises(EngineError, match="iree-compile could not compile the network"):
        _open(small, X, **{"flag.no-such-flag": "1"})


# -- looking inside --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ir_goes_to_a_folder_of_the_case(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = _check(str(small), X, "iree?opt=O0", debug_ir="ir")
    assert found.verdict == "PASS"
    (case,) = (tmp_path / "ir").iterdir()
    assert case.name == "small-iree-opt-O0"
    phases = sorted(p.name.split(".")[-2] for p in (case / "phases").glob("*.mlir"))
    assert {"input", "flow", "stream", "vm"} <= set(phases) and len(phases) >= 10
    # The second time everything is in the cache; the IR is still written, and only over what was written before.
    _check(str(small), X, "iree?opt=O0", debug_ir=tmp_path / "ir")
    assert (case / "phases" / "network.1.input.mlir").exists()
    own = tmp_path / "own" / "small-iree-opt-O0" / "phases"
    own.mkdir(parents=True)
    (own / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        _check(str(small), X, "iree?opt=O0", debug_ir=tmp_path / "own")
    assert (own / "notes.txt").read_text() == "mine"


def test_ir_of_what_does_not_compile_is_kept_too(tmp_path: Path) -> None:
    found = _check(str(_refused(tmp_path)), _REFUSED, "iree?ir=passes", debug_ir=tmp_path / "ir")
    assert found.verdict == "ERROR"
    assert list((tmp_path / "ir" / "gru-iree-ir-passes" / "passes").rglob("*.mlir"))


def test_an_engine_without_ir_says_so(small: Path, tmp_path: Path) -> None:
    found = _check(str(small), X, "onnxruntime", debug_ir=tmp_path / "ir")
    assert "onnxruntime has no intermediate representation to write" in [g.message for g in found.guards]


def test_times_per_dispatch_name_their_nodes(small: Path) -> None:
    steps = _open(small, X).profile(X, 5).steps
    assert all(0 < s.seconds < 60 for s in steps)
    assert [t for s in steps for t in s.tensors if t in ("c", "s", "m", "y")]
    conv = next(s for s in steps if "conv" in s.name)
    assert conv.op.startswith("Conv") and conv.tensors[0] == "c"
    assert "Sigmoid" in "+".join(s.op for s in steps)
    assert conv.kernel.startswith("network$async_dispatch_")


def test_the_programs_are_those_of_the_package() -> None:
    done = subprocess.run([tool("iree-compile"), "--version"], capture_output=True, text=True, timeout=60)
    assert need_engine("iree").split()[0] in done.stdout


@pytest.mark.slow
def test_a_finding_is_made_small(tmp_path: Path) -> None:
    module, args = network("unet")
    found = _check(module, args, f"iree:{FAULTS[3].file(tmp_path)}", out=tmp_path / "run")
    assert found.verdict == "FAIL"
    made = twinnet.repro(tmp_path / "run", tmp_path / "repro")
    assert made.confirmed and made.nodes <= 2, made
    assert json.loads(made.to_json())["confirmed"]
