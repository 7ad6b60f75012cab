"""Tensors that a compiler gives wrong as outputs, though it computes with the right ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.judge.graphs import UNIT, Bench, chain
from twinnet.judge.verdicts import Born
from twinnet.layers.graph import Layer
from twinnet.result import coded

X = np.random.default_rng(0).normal(size=(2, 6, 8)).astype(np.float32)


def _bench() -> Bench:
    graph = chain(
        Layer("mul", ("x", "c"), ("h",)),
        Layer("transpose", ("h",), ("t",), {"perm": (0, 2, 1)}),
        Layer("tanh", ("t",), ("y",)),
        Layer("mul", ("y", "c"), ("z",)),
        constants={"c": torch.tensor([1.5])},
    )
    return Bench(graph, {"x": X})


def _shown_wrong(bench: Bench) -> None:
    bench.twin["h"] = bench.twin["h"].copy()
    bench.twin["h"][:, 1] = 0
    bench.twin["t"] = bench.twin["h"].transpose(0, 2, 1).copy()


def _judge(bench: Bench, *, apart: bool = True) -> dict[str, Born]:
    return bench.judge(unit=UNIT, apart=apart)


def test_what_nobody_read_is_no_fault() -> None:
    bench = _bench()
    _shown_wrong(bench)
    found = _judge(bench)
    assert [found[n].status for n in ("h", "t", "y", "z")] == ["untested", "untested", "pass", "pass"]
    assert coded(found["h"].reason, "watching.apart") and len(found["y"].segment) == 3


def test_only_where_another_program_ships() -> None:
    bench = _bench()
    _shown_wrong(bench)
    found = _judge(bench, apart=False)
    assert found["h"].status == found["y"].status == "fail"


def test_a_fault_that_goes_on_stays_one() -> None:
    """The readers compute with what was shown."""
    bench = _bench()
    _shown_wrong(bench)
    bench.twin["y"] = np.tanh(bench.twin["t"])
    bench.twin["z"] = bench.twin["y"] * np.float32(1.5)
    found = _judge(bench)
    assert [found[n].status for n in ("h", "t", "y", "z")] == ["fail", "pass", "pass", "pass"]


@pytest.mark.parametrize("places", [1, 3])
def test_a_fault_of_the_reader_is_found_beside_it(places: int) -> None:
    bench = _bench()
    _shown_wrong(bench)
    bench.twin["y"] = bench.twin["y"].copy()
    bench.twin["y"][0, 2, :places] += 0.25
    bench.twin["z"] = bench.twin["y"] * np.float32(1.5)
    found = _judge(bench)
    assert [found[n].status for n in ("h", "t", "y", "z")] == ["untested", "untested", "fail", "pass"]
    assert found["y"].born == pytest.approx(0.25, rel=0.01)
