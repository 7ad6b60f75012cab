"""Tensors that watching changed: what reads them is judged across them, and an infinity that is used stays one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

import twinnet
from tests.judge.graphs import Bench, chain
from tests.models import MODELS, model_path
from tests.needs import need_engine
from tests.onnx_edit import change, make_model, save
from twinnet.judge.verdicts import Born
from twinnet.layers.graph import Layer
from twinnet.result import Result, coded, fact

HALF = 2.0**-11
SUM = 512 * 16.0**2
"""Beyond 65504, where float16 ends."""


def _bench(*tail: Layer, made: Layer | None = None, **constants: float) -> Bench:
    """A sum of squares, read by `tail`; the twin shows what a float16 twin shows: all of it cast, the sum infinite."""
    made = made or Layer("reduce_sum", ("squares",), ("sum",), {"axes": (1,)})
    held = {n: torch.tensor([v]) for n, v in constants.items()}
    graph = chain(Layer("mul", ("x", "x"), ("squares",)), made, *tail, constants=held)
    bench = Bench(graph, {"x": np.full((2, 512), 16, np.float32)})
    with np.errstate(over="ignore"):
        bench.twin = {n: a.astype(np.float16) if a.dtype == np.float32 else a for n, a in bench.twin.items()}
    assert np.isinf(bench.twin["sum"]).all() and np.isfinite(bench.network["sum"]).all()
    return bench


def _judge(bench: Bench) -> dict[str, Born]:
    return bench.judge(unit=HALF, half=True)


SCALED = Layer("mul", ("sum", "c"), ("y",), module="scale")


def test_what_reads_it_is_judged_in_one_with_what_makes_it() -> None:
    found = _judge(_bench(SCALED, c=1 / 512))
    assert found["squares"].status == "pass"
    assert found["y"].status == "pass" and found["y"].segment == ("scale mul", "sum reduce_sum")
    assert found["sum"].status == "untested" and coded(found["sum"].reason, "watching.changed")
    assert f"the network has {SUM:.3g}" in str(found["sum"].reason)


@pytest.mark.parametrize("factor", [1.1, 65504 / SUM, -1.0, 0.0])
def test_a_wrong_number_is_no_less_wrong_for_it(factor: float) -> None:
    """Among them a twin that overflows in truth and goes on with the largest number it has."""
    bench = _bench(SCALED, c=1 / 512)
    bench.twin["y"] = (bench.twin["y"] * factor).astype(np.float16)
    found = _judge(bench)
    assert found["y"].status == "fail" and found["y"].segment == ("scale mul", "sum reduce_sum")
    assert found["y"].born == pytest.approx(256 * abs(1 - factor), rel=0.01)


def test_one_wrong_element_among_right_ones_is_found() -> None:
    bench = _bench(SCALED, c=1 / 512)
    bench.twin["y"][1] *= np.float16(1.15)
    assert _judge(bench)["y"].status == "fail"


def test_an_infinity_that_is_used_is_an_overflow() -> None:
    bench = _bench(SCALED, c=1 / 512)
    bench.twin["y"][:] = np.inf
    found = _judge(bench)
    assert found["sum"].status == "fail" and coded(found["sum"].reason, "born.overflow")
    assert f"the network has {SUM:.3g}, and its format ends at 65504" in str(found["sum"].reason)
    assert found["y"].status == "untested" and found["y"].segment == ("scale mul",)
    assert found["y"].reason == fact("born.nothing_finite")
    # Where watching changes what comes out, nobody can tell whether it is used unwatched.
    unsure = bench.judge(unit=HALF, half=True, as_deployed=False)
    assert unsure["sum"].status == unsure["y"].status == "untested"
    bench.twin["y"][0] = 256  # used in one place, not in the other: one of them is wrong
    assert _judge(bench)["y"].status == "fail"


def test_numbers_that_follow_from_an_infinity_are_the_fault_of_what_made_it() -> None:
    root = Layer("div", ("x", "root"), ("y",), module="norm")
    tail = (Layer("sqrt", ("sum",), ("root",)), root)
    used = _bench(*tail)
    used.twin["root"][:] = np.inf
    used.twin["y"][:] = 0
    assert {b.segment for n, b in _judge(used).items() if n == "y"} == {("norm div",)}
    assert [n for n, b in _judge(used).items() if b.status == "fail"] == ["sum"]
    assert coded(_judge(used)["sum"].reason, "born.overflow")
    used.twin["y"][:] = 0.01  # neither what an infinite root gives, nor what the network has
    assert _judge(used)["y"].status == "fail"


def test_a_small_number_where_an_infinity_would_give_none() -> None:
    """Nothing is infinite in the result, and yet it was not read."""
    bench = _bench(Layer("div", ("big", "sum"), ("y",)), big=SUM / 3)
    found = _judge(bench)
    assert found["y"].status == "pass" and coded(found["sum"].reason, "watching.changed")
    bench.twin["y"][:] *= np.float16(1.1)
    assert _judge(bench)["y"].status == "fail"
    bench.twin["y"][:] = 0  # as an infinite sum gives
    found = _judge(bench)
    assert found["y"].status == "untested" and coded(found["sum"].reason, "born.overflow")


def test_a_mask_that_becomes_infinite_does_no_harm() -> None:
    graph = chain(
        Layer("add", ("x", "mask"), ("masked",)),
        Layer("softmax", ("masked",), ("y",), {"axis": -1}),
        constants={"mask": torch.tensor([0.0, 0.0, 0.0, -1e9])},
    )
    bench = Bench(graph, {"x": np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)})
    with np.errstate(over="ignore"):
        bench.twin = {n: a.astype(np.float16) for n, a in bench.twin.items()}
    assert np.isinf(bench.twin["masked"]).any()
    assert {b.status for b in _judge(bench).values()} == {"pass"}


def test_an_overflow_that_is_handed_on_is_one_fault() -> None:
    tail = (
        Layer("reshape", ("sum",), ("flat",), {"shape": (2,)}),
        Layer("mul", ("flat", "two"), ("twice",)),
        Layer("mul", ("twice", "c"), ("y",)),
    )
    bench = _bench(*tail, two=2.0, c=1 / 1024)
    bench.twin["y"][:] = np.inf
    found = _judge(bench)
    assert [n for n, b in found.items() if b.status == "fail"] == ["sum"]
    bench.twin["y"] = bench.network["y"].astype(np.float16)
    assert not [n for n, b in _judge(bench).items() if b.status == "fail"]


def test_several_in_a_row() -> None:
    tail = (
        Layer("reshape", ("sum",), ("flat",), {"shape": (2,)}),
        Layer("mul", ("flat", "two"), ("twice",)),
        Layer("mul", ("twice", "c"), ("y",)),
    )
    bench = _bench(*tail, two=2.0, c=1 / 1024)
    found = _judge(bench)
    assert found["y"].status == "pass" and len(found["y"].segment) == 4
    for name in ("sum", "flat", "twice"):
        assert found[name].status == "untested" and coded(found[name].reason, "watching.changed"), name
    bench.twin["y"][0] *= np.float16(1.15)
    assert _judge(bench)["y"].status == "fail"


def test_a_flag_is_compared_across_it() -> None:
    bench = _bench(Layer("greater", ("sum", "edge"), ("y",)), edge=2 * SUM)
    assert _judge(bench)["y"].status == "pass"
    assert coded(_judge(bench)["sum"].reason, "watching.changed")
    bench.twin["y"][:] = True  # an infinite sum is greater, the network's is not
    assert _judge(bench)["y"].status == "pass" and coded(_judge(bench)["sum"].reason, "born.overflow")


def test_an_infinity_from_nowhere_is_the_fault_of_what_makes_it() -> None:
    bench = _bench(SCALED, c=1 / 512)
    bench.sample["x"][:] = 1
    bench = Bench(bench.graph, bench.sample)
    bench.twin["sum"][:] = np.inf
    found = bench.judge()
    assert found["sum"].status == "fail"
    assert found["y"].status == "untested" and found["y"].segment == ("scale mul",)


def test_the_layers_behind_are_held_to_a_floor_of_their_own() -> None:
    """What an infinite input allows is nothing that later layers may be off by."""
    tail = (SCALED, Layer("mul", ("y", "k"), ("z",), module="last"))
    bench = _bench(*tail, c=1 / 512, k=1.7)
    assert _judge(bench)["z"].status == "pass"
    bench.twin["z"][:] *= np.float16(1.15)
    found = _judge(bench)
    assert found["z"].status == "fail" and found["z"].segment == ("last mul",)


def test_what_cannot_be_evaluated_cannot_be_crossed() -> None:
    layer = Layer("opaque", ("squares",), ("sum",), {"run": lambda x: (x.sum(1, keepdim=True),)})
    bench = _bench(SCALED, made=layer, c=1 / 512)
    assert _judge(bench)["y"].status == "pass"
    strange = Layer("opaque", ("squares",), ("sum",), {"unknown": "strange"})
    graph = chain(bench.graph.layers[0], strange, SCALED, constants=bench.graph.constants)
    bench.graph = graph
    found = _judge(bench)
    assert found["sum"].status == "not judged"
    assert found["y"].status == "not judged" and str(found["y"].reason).startswith(
        "watching changed what it reads (sum), and "
    )


# -- engines ---------------------------------------------------------------------------------------------------------


def _check(network: str, inputs: dict[str, np.ndarray], twin: str) -> Result:
    need_engine("onnxruntime")
    found = twinnet.check(network, inputs, twin)
    assert isinstance(found, Result)
    return found


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["squares"]),
        helper.make_node("ReduceSum", ["squares", "axes"], ["sum"], keepdims=1),
        helper.make_node("Mul", ["sum", "c"], ["y"]),
    ]
    held = {"axes": np.array([1]), "c": np.array([1 / 512], np.float32)}
    return save(
        make_model(nodes, {"x": (2, 512)}, ["y"], held), tmp_path_factory.mktemp("net") / "squares.onnx"
    )


X = {"x": np.random.default_rng(0).uniform(12, 20, (2, 512)).astype(np.float32)}


@pytest.mark.parametrize("level", ["off", "basic", "extended", "all"])
def test_onnxruntime_in_float16(squares: Path, level: str) -> None:
    found = _check(str(squares), X, f"onnxruntime?quantize=float16&opt={level}")
    assert found.verdict == "PASS" and found.evidence == "strong" and found.failing == 0, found
    told = [g for g in found.guards if g.name == "observer effect"]
    assert len(told) == 1 and "makes sum infinite" in told[0].message and not told[0].weakens


@pytest.mark.parametrize("level", ["off", "all"])
def test_a_fault_behind_it_is_placed_and_confirmed(squares: Path, level: str, tmp_path: Path) -> None:
    model = onnx.load(str(squares))
    change(model, "c", lambda c: c * np.float32(1.25))
    faulty = save(model, tmp_path / "faulty.onnx")
    half = tmp_path / "half.onnx"
    from twinnet.engines import find_engine
    from twinnet.job import Job
    from twinnet.network import load_network

    session = find_engine("onnxruntime").open(
        load_network(str(faulty)), {"quantize": "float16"}, None, Job(X)
    )
    assert session.artefact is not None
    onnx.save(session.artefact.model, str(half))
    found = _check(str(squares), X, f"onnxruntime?opt={level}:{half}")
    assert found.verdict == "FAIL"
    last = found.findings[-1]
    assert last.site.tensor == "y" and last.segment == ("y Mul", "sum ReduceSum"), found
    assert last.confirmed is True and last.born == pytest.approx(0.25 * 270, rel=0.05), last


class Mean(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * x).sum(1, keepdim=True) / 512 + x


class Norm(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / torch.sqrt((x * x).sum(1, keepdim=True))


@pytest.mark.parametrize("net", [Mean, Norm])
def test_an_overflow_that_is_used_fails_where_it_is(net: type[torch.nn.Module]) -> None:
    """Also where it leaves no infinity behind: a norm divides by it, and all is 0."""
    found = twinnet.check(net().eval(), torch.from_numpy(X["x"]), "torch?dtype=float16")
    assert isinstance(found, Result) and found.verdict == "FAIL", found
    (finding,) = found.findings
    assert finding.site.op == "sum" and coded(finding.reason, "born.overflow"), found
    assert finding.cause is not None and finding.cause.kind == "precision", finding
    assert finding.cause.sentence.startswith(
        "the twin overflows float16, which ends at 65504: the network has 1."
    )
    if net is Norm:
        assert finding.born_share == pytest.approx(1.0, abs=0.05)
    assert not any(g.name == "observer effect" for g in found.guards)


@pytest.mark.parametrize("level", ["off", "all"])
def test_a_real_classifier_in_float16(level: str) -> None:
    """Its layer norm sums 512 squares to 129 260."""
    inputs = MODELS["magika"].inputs()
    found = _check(str(model_path("magika")), inputs, f"onnxruntime?quantize=float16&opt={level}")
    assert found.verdict == "PASS" and not found.findings, found
    (changed,) = [p for p in found.pairs if coded(p.reason, "watching.changed")]
    assert changed.site.op == "ReduceSum" and changed.site.tensor.endswith("LayerNorm_1/Sum_1:0")
    (behind,) = [p for p in found.pairs if p.site.tensor.endswith("LayerNorm_1/truediv_1:0")]
    assert behind.status == "pass" and len(behind.segment) == 2
