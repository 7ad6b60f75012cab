"""Traces: in memory as long as they fit, on disk beyond, gone when closed."""

from __future__ import annotations

import gc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from twinnet.trace import Trace, TraceBuilder


def _fill(builder: TraceBuilder, count: int = 20) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    tensors = {f"t{i}": rng.standard_normal((16, 16)).astype(np.float32) for i in range(count)}
    for name, array in tensors.items():
        builder.add(name, array)
    return tensors


@pytest.mark.parametrize("memory", [1 << 30, 4096, 1])
def test_spilled_or_not_it_is_the_same(memory: int) -> None:
    builder = TraceBuilder(memory)
    tensors = _fill(builder)
    assert builder.names == tuple(tensors)
    trace = builder.done()
    assert list(trace) == list(tensors) and len(trace) == 20
    assert all(np.array_equal(trace[n], tensors[n]) for n in tensors)
    assert "t3" in trace and "none" not in trace
    with pytest.raises(KeyError):
        trace["none"]
    trace.close()


def test_what_is_spilled_goes_with_the_trace() -> None:
    builder = TraceBuilder(4096)
    _fill(builder)
    trace = builder.done()
    folder = trace._temporary
    assert folder is not None and any(folder.iterdir())
    trace.close()
    assert not folder.exists()
    builder = TraceBuilder(4096)
    _fill(builder)
    trace = builder.done()
    folder = trace._temporary
    del trace
    gc.collect()
    assert folder is not None and not folder.exists()


def test_an_abandoned_builder_leaves_nothing() -> None:
    builder = TraceBuilder(4096)
    _fill(builder)
    folder = builder._made
    assert folder is not None and folder.exists()
    del builder
    gc.collect()
    assert not folder.exists()


def test_a_recording_stays(tmp_path: Path) -> None:
    builder = TraceBuilder(4096, tmp_path)
    tensors = _fill(builder)
    builder.done().close()
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    again = TraceBuilder(1 << 30, tmp_path / "one")
    _fill(again)
    trace = again.done()
    assert [p.name for p in (tmp_path / "one").iterdir()] == ["00000.safetensors"]
    assert all(np.array_equal(trace[n], tensors[n]) for n in tensors)


def test_the_first_tensor_of_a_name_stays() -> None:
    builder = TraceBuilder()
    builder.add("x", np.zeros(2))
    builder.add("x", np.ones(2))
    assert builder.done()["x"].tolist() == [0, 0]


def test_odd_tensors_survive_the_disk() -> None:
    builder = TraceBuilder(1)
    odd = {
        "scalar": np.array(3, np.int64),
        "empty": np.zeros((0, 4), np.float32),
        "half": np.array([1, 2], ml_dtypes.bfloat16),
        "flag": np.array([True, False]),
        "view": np.arange(12, dtype=np.float32).reshape(3, 4).T[::-1],
    }
    for name, array in odd.items():
        builder.add(name, array)
    trace = builder.done()
    for name, array in odd.items():
        assert trace[name].shape == array.shape and trace[name].dtype == array.dtype
        assert np.array_equal(trace[name], array)


def test_a_mapping_like_any_other() -> None:
    trace = Trace({"a": np.zeros(1), "b": np.ones(1)})
    assert dict(trace).keys() == {"a", "b"} and trace.get("c") is None
