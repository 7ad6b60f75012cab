"""Structural kinds against numpy, and their errors against their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from twinnet.layers import kinds


def run(kind: str, attrs: dict[str, Any], *inputs: Any) -> torch.Tensor:
    return kinds.get(kind).evaluate(attrs, *inputs)[0]


X = torch.arange(2 * 3 * 4 * 5, dtype=torch.float64).reshape(2, 3, 4, 5)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(-7, 7),
    st.integers(-7, 9),
    st.sampled_from([-3, -2, -1, 1, 2, 3]),
    st.integers(0, 3),
)
def test_slice(start: int, stop: int, step: int, axis: int) -> None:
    where = [slice(None)] * 4
    where[axis] = slice(start, stop, step)
    size = X.shape[axis]
    first = max(start, -size) if step > 0 else start  # ONNX clamps, as numpy does
    wanted = X.numpy()[tuple(where)]
    got = run("slice", {"starts": (first,), "ends": (stop,), "axes": (axis,), "steps": (step,)}, X)
    assert np.array_equal(got.numpy(), wanted)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["constant", "reflect", "edge", "wrap"]),
    st.lists(st.integers(0, 2), min_size=8, max_size=8),
)
def test_pad(mode: str, pads: list[int]) -> None:
    pads[0] = pads[4] = min(pads[0], 1)
    width = list(zip(pads[:4], pads[4:]))
    wanted = np.pad(X.numpy(), width, mode=mode)
    assert np.array_equal(run("pad", {"pads": tuple(pads), "mode": mode}, X).numpy(), wanted)


@given(st.permutations(range(4)))
def test_transpose(perm: list[int]) -> None:
    assert np.array_equal(run("transpose", {"perm": tuple(perm)}, X).numpy(), X.numpy().transpose(perm))


@given(st.integers(-4, 3), st.lists(st.integers(-2, 1), min_size=1, max_size=6))
def test_gather(axis: int, index: list[int]) -> None:
    wanted = np.take(X.numpy(), index, axis=axis)
    assert np.array_equal(run("gather", {"axis": axis}, X, torch.tensor(index)).numpy(), wanted)


def test_pixel_shuffles() -> None:
    x = torch.randn(1, 8, 3, 4, dtype=torch.float64)
    assert torch.equal(run("depth_to_space", {"block": 2}, x), torch.pixel_shuffle(x, 2))
    y = torch.randn(1, 2, 6, 4, dtype=torch.float64)
    assert torch.equal(run("space_to_depth", {"block": 2, "mode": "CRD"}, y), torch.pixel_unshuffle(y, 2))


MOVES: list[tuple[str, dict[str, Any], list[Any]]] = [
    ("reshape", {"shape": (6, -1)}, []),
    ("transpose", {"perm": (3, 1, 0, 2)}, []),
    ("slice", {"starts": (1,), "ends": (3,), "axes": (2,)}, []),
    ("pad", {"pads": (0, 0, 1, 1, 0, 0, 1, 2), "value": 7.0}, []),
    ("gather", {"axis": 1}, [torch.tensor([2, 0])]),
    ("expand", {"shape": (2, 2, 3, 4, 5)}, []),
    ("tile", {"repeats": (1, 2, 1, 1)}, []),
    ("flip", {"axes": (1,)}, []),
    ("roll", {"shifts": (2,), "axes": (3,)}, []),
    ("select", {"axis": 1, "index": 2}, []),
    ("trilu", {"upper": False}, []),
    ("max_pool", {"kernel": (2, 2)}, []),
    ("reduce_max", {"axes": (1,)}, []),
]


def test_errors_move_with_their_values() -> None:
    for name, attrs, rest in MOVES:
        kind = kinds.get(name)
        outputs = kind.evaluate(attrs, X, *rest)[:1]
        none = [None] * len(rest)
        assert kind.exact
        assert kind.error(attrs, [X, *rest], [None, *none], outputs, 2.0**-24) == (None,), name
        marked = torch.zeros(X.shape)
        marked[1, 2, 3, 4] = 1.0  # the largest value, so it survives every selection that can reach it
        (error,) = kind.error(attrs, [X, *rest], [marked, *none], outputs, 2.0**-24)
        assert error is not None
        assert error.shape == outputs[0].shape
        hit = outputs[0] == X[1, 2, 3, 4]
        assert torch.equal(error > 0, hit), name
