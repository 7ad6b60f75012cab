"""A twin that does not repeat itself is told from one that is wrong every time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from benchmarks.faults.tables.interpreter import Interpreter

from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.check import check
from twinnet.lut.file import LutFile, write
from twinnet.lut.plan import Plan
from twinnet.result import Result

IMAGE = np.random.default_rng(5).integers(0, 256, (1, 1, 12, 11)).astype(np.float32) / 255


@pytest.fixture(scope="module")
def plan() -> Plan:
    return lut.lower(random_net("srlut-S"))


def runtime(plan: Plan, spoil: Callable[[np.ndarray], None]) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """A runtime in which `spoil` is let loose on one lookup."""

    class Racing(Interpreter):
        def lookup(self, stage, term, r, known):
            raw = super().lookup(stage, term, r, known)
            if r == 2:
                spoil(raw)
            return raw

    def run(image: np.ndarray) -> dict[str, np.ndarray]:
        seen: dict[str, np.ndarray] = {}
        out = Racing(plan).run(
            np.rint(image[0, 0] * 255).astype(np.uint8), lambda n, a: seen.update({n: a[None]})
        )
        return {"output": out[None], **{n: a for n, a in seen.items() if n != "stage1"}}

    return run


def cause_of(plan: Plan, spoil: Callable[[np.ndarray], None], folder: Path) -> tuple[str, str]:
    file = write(LutFile(plan), folder / "net.lut.safetensors")
    result = check(str(file), {"image": IMAGE}, runtime(plan, spoil), keep="none")
    assert isinstance(result, Result) and result.verdict == "FAIL"
    first = result.findings[0]
    assert first.site.tensor == "stage1.in_c0.b0.rot2.sr"
    return (first.cause.kind, first.cause.sentence) if first.cause else ("", str(first.reason))


def test_a_race_is_named(plan: Plan, tmp_path: Path) -> None:
    runs = iter(range(100))

    def race(raw: np.ndarray) -> None:
        raw[0, 3, :5] += 400 * (1 + next(runs))

    kind, sentence = cause_of(plan, race, tmp_path)
    assert kind == "nondeterminism"
    assert (
        sentence.startswith("two equal runs of the twin differ here by")
        and "in 5 of 528 elements" in sentence
    )


def test_a_steady_fault_beside_it_is_not(plan: Plan, tmp_path: Path) -> None:
    """Nearly all of the error is there in every run: that a little of it varies is not why."""
    runs = iter(range(100))

    def both(raw: np.ndarray) -> None:
        raw[:] += 900
        raw[0, 3, 0] += 40 * (1 + next(runs))

    kind, _ = cause_of(plan, both, tmp_path)
    assert kind != "nondeterminism"
