"""Every figure of a difference, against a plain float64 computation; tolerances against their definition."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from twinnet.judge.metrics import bit_equal, compare, same_bits, ulp_distance
from twinnet.judge.tolerance import Tolerance
from twinnet.precision import dtype_class

FLOATS: list[Any] = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=5)


_NAMED = [0.0, -0.0, 1.0, -1.0, 1e-40, 5e-324, 6e-8]


@st.composite
def pairs(draw: st.DrawFn, *, special: bool = True, dtypes: Any = FLOATS) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of one shape and dtype, equal in places: chosen numbers, and any pattern of bits."""
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    shape = draw(SHAPES)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    named = np.array([*_NAMED, math.nan, math.inf, -math.inf] if special else _NAMED)

    def array() -> np.ndarray:
        bits = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]
        near = rng.standard_normal(shape)
        with np.errstate(all="ignore"):
            choices = [bits, near.astype(dtype), rng.choice(named, shape).astype(dtype)]
            picked = np.choose(rng.integers(0, 3, shape), [c.astype(np.float64) for c in choices])
            small = np.abs(picked) < (3e38 if dtype.itemsize == 8 else np.inf)
            return (picked if special else np.where(small, picked, 1.0)).astype(dtype)

    one, other = array(), array()
    return one, np.where(rng.random(shape) < draw(st.sampled_from([0.0, 0.5, 1.0])), one, other)


def _close(got: float, want: float, rel: float = 1e-5) -> bool:
    if math.isnan(want) or math.isinf(want) or want == 0:
        return got == want or (math.isnan(want) and math.isnan(got))
    return math.isclose(got, want, rel_tol=rel)


@settings(max_examples=120, deadline=None)
@given(pairs())
def test_figures_equal_a_plain_computation(both: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = both
    found = compare(a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    good = np.isfinite(x) & np.isfinite(y)
    same = (np.isnan(x) & np.isnan(y)) | (x == y)
    assert found.elements == x.size
    assert found.nan_reference == np.isnan(x).sum()
    assert found.nan_twin == np.isnan(y).sum()
    assert found.inf_reference == np.isinf(x).sum()
    assert found.inf_twin == np.isinf(y).sum()
    assert found.nonfinite_mismatch == (~good & ~same).sum()
    assert found.differing == (~same).sum()
    with np.errstate(all="ignore"):
        d = np.abs(x - y)[good]
        r, t = x[good], y[good]
        if not r.size:
            assert found.max_abs == 0
            return
        assert _close(found.max_abs, d.max())
        assert _close(found.mean_abs, d.mean())
        assert found.range_reference == (r.min(), r.max())
        span = r.max() - r.min() or abs(r.max())
        if d.max() == 0:
            assert found.relative == 0 and found.index == () and found.value_reference is None
        else:
            assert _close(found.relative, d.max() / span if span else math.inf)
            assert _close(abs(float(a[found.index]) - float(b[found.index])), d.max())
            assert found.value_reference == float(a[found.index])
            assert found.value_twin == float(b[found.index])
        # Squares leave the range of float64 only for numbers that no network holds.
        if 0 < d.max() < 1e150 and np.abs(x[good]).max() < 1e150 and d.max() > 1e-150:
            mse = (d * d).mean()
            assert _close(found.mse, mse, 1e-4)
            power = (r * r).mean()
            if power > 1e-290:
                assert abs(found.snr - 10 * (math.log10(power) - math.log10(mse))) < 1e-3
            if r.max() > r.min() and span > 1e-150:
                assert abs(found.psnr - 10 * (math.log10(span * span) - math.log10(mse))) < 1e-3
        if d.max() == 0:
            assert found.snr == found.psnr == math.inf and found.cosine == 1.0
        norms = np.linalg.norm(r), np.linalg.norm(t)
        if min(norms) > 1e-140 and max(norms) < 1e150:
            assert abs(found.cosine - np.dot(r / norms[0], t / norms[1])) < 1e-4


@settings(max_examples=50, deadline=None)
@given(pairs())
def test_ulp_is_the_largest_distance_where_both_are_finite(both: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = both
    good = np.isfinite(a.astype(np.float64)) & np.isfinite(b.astype(np.float64))
    want = max((_steps(x, y) for x, y in zip(a[good].ravel(), b[good].ravel(), strict=True)), default=0)
    assert compare(a, b).ulp == min(want, 2**62)


def _steps(x: Any, y: Any) -> int:
    """Distance on the line of all representable numbers, counted from zero on both sides."""

    def place(v: Any) -> int:
        kind = {2: np.uint16, 4: np.uint32, 8: np.uint64}[v.dtype.itemsize]
        size = int(np.abs(v).view(kind))
        return -size if v < 0 else size

    return abs(place(x) - place(y))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("start", [1.0, 0.0, -0.0, 2.0, -3.5, 6e-8])
def test_ulp_counts_nextafter_steps(dtype: Any, start: float) -> None:
    first = np.array([start], dtype)
    up = down = first
    for count in range(1, 6):
        up = np.nextafter(up, np.array([np.inf], dtype))
        down = np.nextafter(down, np.array([-np.inf], dtype))
        assert ulp_distance(first, up)[0] == count
        assert ulp_distance(down, first)[0] == count
        assert compare(down, up).ulp == 2 * count  # across zero for a start at zero


def test_zero_and_negative_zero_are_one_number() -> None:
    found = compare(np.float32([0.0, -0.0]), np.float32([-0.0, 0.0]))
    assert (found.max_abs, found.ulp, found.differing) == (0.0, 0, 0)


def _decides(a: np.ndarray, b: np.ndarray, atol: float, rtol: float) -> None:
    complaint = Tolerance(atol=atol, rtol=rtol).complaint(compare(a, b))
    x, y = a.astype(np.float64), b.astype(np.float64)
    size, allowed = np.abs(x - y), atol + rtol * np.abs(x)
    good = np.isfinite(x) & np.isfinite(y)
    want = bool((size <= allowed)[good].all())
    if good.any() and np.isclose(size[good], allowed[good], rtol=1e-6, atol=0).any():
        return  # on the line itself the last rounding decides
    assert (complaint is None) is want, complaint


@settings(max_examples=120, deadline=None)
@given(
    pairs(special=False, dtypes=[np.float32, np.float64]),
    st.floats(0, 1e3) | st.sampled_from([0.0, 1e-8, 1e-30]),
    st.floats(0, 2) | st.sampled_from([0.0, 1e-5]),
)
def test_hull_decides_as_the_definition_does(
    both: tuple[np.ndarray, np.ndarray], atol: float, rtol: float
) -> None:
    _decides(*both, atol, rtol)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([np.float16, np.float32, np.float64]))
def test_hull_decides_on_large_tensors(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    a = (rng.standard_normal(150_000) * np.exp(rng.normal(0, 3, 150_000))).astype(dtype)
    with np.errstate(over="ignore"):
        b = (a * (1 + rng.standard_normal(a.size) * 1e-3) + rng.standard_normal(a.size) * 1e-4).astype(dtype)
    for atol, rtol in zip(10 ** rng.uniform(-6, 1, 6), 10 ** rng.uniform(-6, 0, 6), strict=True):
        _decides(a, b, float(atol), float(rtol))
    _decides(a, b, 0.0, 1e-2)
    _decides(a, b, 1e-2, 0.0)


def test_hull_of_numbers_beyond_float32() -> None:
    a = np.array([1e39, 1e300])
    b = np.array([1e39 + 9e38, 1e300 + 1e39 * 1e246])
    _decides(a, b, 0.0, 0.5)
    _decides(a, b, 1e38, 0.5)


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) + 1, 3 * (1 << 16) + 7])
def test_nothing_is_lost_between_blocks(size: int) -> None:
    rng = np.random.default_rng(size)
    a = rng.standard_normal(size).astype(np.float32)
    b = a.copy()
    b[-1] += 0.5
    b[size // 2] = np.nan
    found = compare(a, b)
    assert found.index == (size - 1,) and found.differing == 2 and found.nonfinite_mismatch == 1
    assert math.isclose(found.mse, 0.25 / (size - 1), rel_tol=1e-5)


@settings(max_examples=50, deadline=None)
@given(hnp.array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=20), st.integers(0, 1 << 30))
def test_worst_channel(shape: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, *shape)).astype(np.float32)
    axis = 1 if len(shape) >= 3 else len(shape) - 1
    most = np.abs(a - b).max(axis=tuple(i for i in range(len(shape)) if i != axis))
    found = compare(a, b)
    assert found.channel == most.argmax()
    assert found.channel_max_abs == pytest.approx(most.max())


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64", "uint64"])
def test_integers_and_flags(dtype: str) -> None:
    a = np.array([[0, 1, 1], [0, 0, 1]]).astype(dtype)
    b = a.copy()
    assert compare(a, b).differing == 0
    b[1, 2] = 0
    found = compare(a, b)
    assert (found.differing, found.max_abs, found.ulp, found.index) == (1, 1.0, None, (1, 2))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_large_integers_differ_exactly(values: list[tuple[int, int]]) -> None:
    a, b = np.array([v for v, _ in values]), np.array([v for _, v in values])
    found = compare(a, b)
    assert found.differing == sum(x != y for x, y in values)
    assert math.isclose(found.max_abs, float(max(abs(x - y) for x, y in values)))


def test_integers_beyond_float64_are_not_equal() -> None:
    assert compare(np.array([2**60]), np.array([2**60 + 1])).differing == 1
    assert compare(np.array([2**60]), np.array([2**60 + 1])).max_abs == 1.0


def test_uint8_does_not_wrap() -> None:
    assert compare(np.uint8([0]), np.uint8([255])).max_abs == 255.0


def test_complex_numbers_are_compared_by_their_parts() -> None:
    a = np.array([1 + 2j, 3 - 1j], np.complex64)
    b = a + np.array([0, 0.5j], np.complex64)
    found = compare(a, b)
    assert found.max_abs == 0.5 and found.differing == 1
    assert compare(a, a).differing == 0
    assert compare(np.complex64(1 + 1j), np.complex64(1 + 2j)).max_abs == 1.0


def test_empty_and_scalar() -> None:
    assert compare(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).elements == 0
    found = compare(np.float32(1.0), np.float32(1.5))
    assert (found.elements, found.max_abs, found.value_reference, found.value_twin) == (1, 0.5, 1.0, 1.5)


def test_numbers_of_other_precision_have_no_ulp_distance() -> None:
    found = compare(np.float32([1.0, 2.0]), np.float64([1.0, 2.5]))
    assert found.ulp is None and found.max_abs == 0.5


def test_tiny_and_huge_numbers_keep_their_figures() -> None:
    a = np.full(10, 1e-30, np.float32)
    found = compare(a, a * 2)
    assert math.isclose(found.mse, 1e-60, rel_tol=1e-4) and math.isclose(found.snr, 0, abs_tol=1e-4)
    huge = compare(np.float32([3e38, 1]), np.float32([-3e38, 1]))
    assert math.isclose(huge.max_abs, 6e38, rel_tol=1e-6) and math.isfinite(huge.mse)


@pytest.mark.parametrize("shapes", [((3,), (1,)), ((3,), (3, 1)), ((2, 3), (3,)), ((), (1,)), ((0,), (1,))])
def test_shapes_are_never_broadcast(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="differ"):
        compare(np.zeros(shapes[0], np.float32), np.zeros(shapes[1], np.float32))


def test_arguments_are_left_alone() -> None:
    a, b = np.float32([1, np.nan, 3])[::-1], np.float32([1, 2, 3])[::-1]
    before = a.copy(), b.copy()
    compare(a, b)
    assert np.array_equal(a, before[0], equal_nan=True) and np.array_equal(b, before[1])


@pytest.mark.parametrize(
    ("dtype", "word"),
    [
        ("float16", "float"),
        (ml_dtypes.bfloat16, "float"),
        ("uint64", "integer"),
        ("bool", "bool"),
        ("c8", "complex"),
    ],
)
def test_dtype_classes(dtype: Any, word: str) -> None:
    assert dtype_class(np.dtype(dtype)) == word


def test_equality_by_bits_and_by_value() -> None:
    a = np.float32([0.0, np.nan])
    assert bit_equal(a, np.float32([-0.0, np.nan])) and not same_bits(a, np.float32([-0.0, np.nan]))
    assert not bit_equal(a, np.float32([[0.0, np.nan]]))
    half = np.array([1, np.nan], ml_dtypes.bfloat16)
    assert bit_equal(half, half.copy()) and not bit_equal(half, np.array([1, 2], ml_dtypes.bfloat16))
