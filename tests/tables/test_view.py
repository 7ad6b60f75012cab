"""Twins that run a table network elsewhere: functions and ONNX models, judged in whole numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.check import check
from twinnet.lut.file import LutFile, write
from twinnet.lut.plan import Plan, sites
from twinnet.lut.reference import run_reference
from twinnet.result import Result

IMAGE = np.random.default_rng(5).integers(0, 256, (1, 2, 12, 11)).astype(np.float32) / 255


@pytest.fixture(scope="module")
def plan() -> Plan:
    return lut.lower(random_net("mulut-sdy"))


@pytest.fixture(scope="module")
def file(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write(LutFile(plan), tmp_path_factory.mktemp("tables") / "net.lut.safetensors"))


def run(file: str, twin: object) -> Result:
    result = check(file, {"image": IMAGE}, twin)
    assert isinstance(result, Result)
    return result


@pytest.mark.parametrize("options", ["", "?opt=off"])
@pytest.mark.parametrize("record", [False, True])
def test_an_onnx_model_of_the_tables(
    plan: Plan, file: str, tmp_path: Path, options: str, record: bool
) -> None:
    lut.to_onnx(plan, tmp_path / "net.onnx", record=record)
    result = run(file, f"onnxruntime{options}:{tmp_path / 'net.onnx'}")
    assert result.verdict == "PASS", repr(result)
    assert result.coverage.judged == len(result.pairs) > 20
    assert all(p.difference.differing == 0 for p in result.pairs)


def recorded(plan: Plan, image: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    seen: dict[str, list[np.ndarray]] = {}
    planes = np.rint(image.reshape(-1, *image.shape[2:]) * 255).astype(np.uint8)
    out = [run_reference(plan, p, lambda n, a: seen.setdefault(n, []).append(np.array(a))) for p in planes]
    return np.stack(out), {n: np.stack(a) for n, a in seen.items()}


def test_a_function_shows_numerators_or_pixels(plan: Plan, file: str) -> None:
    units = {s.name: s.denominator for s in sites(plan)}

    def whole(image: np.ndarray) -> dict[str, np.ndarray]:
        out, seen = recorded(plan, image)
        return {"output": out, **{n: a.astype(np.int64) for n, a in seen.items() if n != "stage2"}}

    def floats(image: np.ndarray) -> dict[str, np.ndarray]:
        out, seen = recorded(plan, image)
        return {"output": out / 255.0, **{n: a / units[n] for n, a in seen.items() if n != "stage2"}}

    for twin in (whole, floats):
        result = run(file, twin)
        assert result.verdict == "PASS", repr(result)
        assert result.coverage.share == 1.0


def test_what_is_not_shown_is_recomputed_from_what_is(plan: Plan, file: str) -> None:
    stale = np.clip(plan.tables["stage2.in_c0.b1"].values.astype(int) + 30, -127, 127).astype(np.int8)
    from dataclasses import replace

    tables = {**plan.tables, "stage2.in_c0.b1": replace(plan.tables["stage2.in_c0.b1"], values=stale)}
    faulty = Plan.build(plan.stages, tables)

    def good(image: np.ndarray) -> np.ndarray:
        return recorded(plan, image)[0]

    def bad(image: np.ndarray) -> dict[str, np.ndarray]:
        out, seen = recorded(faulty, image)
        return {"output": out, "stage1": seen["stage1"]}

    assert run(file, good).verdict == "PASS"
    found = run(file, bad).findings
    assert [f.site.tensor for f in found] == ["stage2"]


def test_another_shape_is_said(file: str) -> None:
    result = run(file, lambda image: np.zeros((1, 2, 5, 5), np.uint8))
    assert result.verdict == "FAIL"
    assert "shape" in str(result.findings[0].reason)
