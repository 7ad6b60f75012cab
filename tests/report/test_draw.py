"""The terminal drawing: the planted fault is where it was planted, and no tensor is too odd to draw."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from syrupy.assertion import SnapshotAssertion

from tests.report import examples
from twinnet.report.draw import draw_difference
from twinnet.report.slices import Compared, reduce_mean, reduce_peak


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("width", [40, 80])
def test_the_drawing_reads_as_agreed(width: int, ascii: bool, snapshot: SnapshotAssertion) -> None:
    reference, twin = examples.tensors()["silu_170"]
    assert draw_difference(reference, twin, width, ascii=ascii, name="features.4 SiLU") == snapshot


def test_the_fault_is_drawn_where_it_is() -> None:
    reference = np.zeros((1, 4, 10, 12), np.float32)
    twin = reference.copy()
    twin[0, 2, 9, 0] = 1.0
    lines = draw_difference(reference, twin, 80).splitlines()
    assert "largest  1.0 at [0, 2, 9, 0]: network 0, twin 1" in lines
    frame = [line for line in lines if line.startswith("\u2502")]
    assert len(frame) == 5
    assert frame[-1] == "\u2502\u2588" + " " * 11 + "\u2502"
    assert all(set(line[1:-1]) == {" "} for line in frame[:-1])
    assert any(line.split() == ["2", "\u2588" * 40, "1.0"] for line in lines)


DTYPES = st.sampled_from(
    [
        np.dtype(t)
        for t in ("float16", "float32", "float64", "int8", "uint8", "int64", "uint64", "bool", "complex64")
    ]
)


@st.composite
def tensor_pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    dtype = draw(DTYPES)
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4))
    return draw(hnp.arrays(dtype, shape)), draw(hnp.arrays(dtype, shape))


@given(pair=tensor_pairs(), width=st.integers(1, 120), ascii=st.booleans())
def test_any_tensor_can_be_drawn(pair: tuple[np.ndarray, np.ndarray], width: int, ascii: bool) -> None:
    text = draw_difference(*pair, width, ascii=ascii)
    assert all(len(line) <= max(24, width) for line in text.splitlines())
    assert not ascii or text.isascii()
    a, b = (np.stack([x.real, x.imag]) if x.dtype.kind == "c" else x for x in pair)
    same = bool(((a == b) | ((a != a) & (b != b))).all())
    flat = " ".join(text.split())
    assert ("no element differs" in flat or "the tensor is empty" in flat) == same


@given(pair=tensor_pairs())
def test_the_difference_counts_what_numpy_counts(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    if a.dtype.kind == "c":
        a, b = (np.stack([x.real, x.imag], axis=-1) for x in pair)
    compared = Compared.of(a, b)
    both_nan = (a != a) & (b != b)
    assert compared.differing == int(((a != b) & ~both_nan).sum())
    finite = np.isfinite(a) & np.isfinite(b)
    assert compared.odd == int(((a != b) & ~both_nan & ~finite).sum())
    histogram = compared.histogram()
    assert sum(histogram.counts) + histogram.equal + histogram.odd == a.size


def test_nan_and_inf_are_marked_and_counted() -> None:
    reference = np.array([np.nan, np.inf, -np.inf, 1.0, 2.0])
    twin = np.array([np.nan, -np.inf, -np.inf, np.nan, 2.5])
    text = draw_difference(reference, twin, 80, ascii=True)
    assert "NaN/Inf  2 elements on one side only, marked !" in text
    assert "same     2 elements NaN or Inf on both sides alike" in text
    assert "| ! !#|" in text
    assert "else 0.50" in text


def test_bfloat16_is_drawn_with_its_name() -> None:
    reference = np.array([1.0, 2.0], dtype=ml_dtypes.bfloat16)
    text = draw_difference(reference, reference + ml_dtypes.bfloat16(0.5), 80)
    assert text.startswith("tensor   bfloat16 2, 2 elements")
    assert "largest  0.50" in text


def test_different_shapes_are_said() -> None:
    text = draw_difference(np.zeros((1, 2)), np.zeros((2, 1)), 80)
    assert text == "tensor   the shapes differ: network 1x2, twin 2x1"


def test_large_integers_keep_their_last_digit() -> None:
    text = draw_difference(np.array([2**63 - 1]), np.array([2**63 - 2]), 80)
    assert "largest  1.0 at [0]" in text


def test_names_cannot_move_the_cursor() -> None:
    assert "\x1b" not in draw_difference(np.zeros(1), np.zeros(1), 80, name=examples.HOSTILE)


@given(
    plane=hnp.arrays(
        np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=30), elements=st.floats(-9, 9)
    ),
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
)
def test_reductions_keep_the_peak_and_the_mean(plane: np.ndarray, rows: int, columns: int) -> None:
    peak = reduce_peak(plane, rows, columns)
    assert peak.shape == (min(rows, plane.shape[0]), min(columns, plane.shape[1]))
    assert np.abs(peak).max() == np.abs(plane).max()
    mean = reduce_mean(plane, 1, 1)
    assert math.isclose(float(mean[0, 0]), float(plane.mean()), abs_tol=1e-9)


def test_reductions_keep_nan() -> None:
    plane = np.zeros((50, 50))
    plane[17, 3] = np.nan
    assert np.isnan(reduce_peak(plane, 5, 5)).sum() == 1
    assert np.isnan(reduce_mean(plane, 5, 5)).sum() == 1
