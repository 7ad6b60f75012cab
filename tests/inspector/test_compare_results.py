"""Two sets of tensors: every figure, and nothing hidden."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from twinnet import compare_results
from twinnet.errors import UsageError


def test_figures_are_not_rounded() -> None:
    a = np.linspace(1, 2, 100, dtype=np.float32)
    found = compare_results({"x": a}, {"x": a + np.float32(1e-2)})["x"]
    assert found["mse"] == pytest.approx(1e-4, rel=1e-3) and found["max_abs"] == pytest.approx(1e-2, rel=1e-3)
    assert 0.9999 < found["cosine"] < 1 and 40 < found["snr"] < 46 and found["ulp"] > 1000
    assert found["nan_twin"] == 0 and "problem" not in found


def test_nan_is_never_hidden() -> None:
    found = compare_results([np.zeros(3, np.float32)], [np.full(3, np.nan, np.float32)])["0"]
    assert found["nan_twin"] == 3 and found["nan_reference"] == 0 and "one side only" in found["problem"]
    assert all(math.isnan(found[name]) for name in ("mse", "snr", "psnr", "cosine", "max_abs"))
    same = compare_results([np.float32([1, np.nan])], [np.float32([1, np.nan])])["0"]
    assert "problem" not in same and same["nan_reference"] == same["nan_twin"] == 1 and same["mse"] == 0


def test_nothing_is_broadcast_or_left_out() -> None:
    found = compare_results({"x": np.ones((2, 3)), "y": np.ones(1)}, {"x": np.ones(3), "z": np.ones(1)})
    assert "shape" in found["x"]["problem"] and "mse" not in found["x"]
    assert (found["y"]["problem"], found["z"]["problem"]) == ("only in the first", "only in the second")
    with pytest.raises(UsageError, match="not a tensor"):
        compare_results([None], [np.ones(1)])
    with pytest.raises(UsageError, match="holds no tensors"):
        compare_results(3, 4)


def test_plots_are_files(tmp_path: Path) -> None:
    a = [torch.ones(3), torch.zeros(2), torch.ones(2)]
    found = compare_results(a, [torch.ones(3) * 1.5, torch.zeros(2), torch.ones(3)], plot=True, out=tmp_path)
    assert list(found) == ["0", "1", "2"]
    files = {path.stem: path.read_text() for path in tmp_path.glob("*.svg")}
    assert set(files) == {"snr", "mse", "psnr", "cosine", "max_abs", "ulp"}
    assert files["mse"].count("<circle") == 2 and files["mse"].count("<title>2: no figure") == 1
