"""PyTorch as network and as twin: precisions, compiled, eager where export fails, every tensor a copy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import twinnet
from tests import nets
from twinnet.engines import find_engine
from twinnet.engines.base import Session
from twinnet.errors import EngineError, UsageError
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.result import Result
from twinnet.trace import TraceBuilder


class Inplace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(6, 6)
        self.shared = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        view = y[:, :3]
        F.relu(y, inplace=True)
        y.mul_(2)
        return self.shared(self.shared(y)) + view.sum()


X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


def _open(module: nn.Module, options: dict[str, str] | None = None, x: np.ndarray = X) -> Session:
    network = load_network(module.eval()).with_example((torch.from_numpy(x),))
    return find_engine("torch").open(network, options or {}, None, Job({"x": x}))


def _trace(session: Session, x: np.ndarray = X) -> dict[str, np.ndarray]:
    return dict(session.trace({"x": x}, {s.tensor for s in session.sites}, TraceBuilder()))


def test_every_operator_is_a_site_with_its_module_and_line() -> None:
    session = _open(Inplace())
    sites = {s.tensor: s for s in session.sites}
    linears = [s for s in session.sites if s.op == "linear"]
    assert [(s.module, s.call) for s in linears] == [("first", 0), ("shared", 0), ("shared", 1)]
    assert all("test_torch.py" in s.source for s in linears)
    assert [s.tensor for s in sites.values() if s.role == "output"] == list(session.output_tensors)


def test_in_place_operators_do_not_change_what_was_seen() -> None:
    session = _open(Inplace())
    seen = _trace(session)
    first = next(s.tensor for s in session.sites if s.module == "first")
    with torch.no_grad():
        want = Inplace().first(torch.from_numpy(X)).numpy()
    assert np.array_equal(seen[first], want) and (seen[first] < 0).any()


def test_the_walk_ends_where_the_plain_run_ends() -> None:
    session = _open(Inplace())
    (output,) = session.run({"x": X}).values()
    assert np.array_equal(_trace(session)[session.output_tensors[0]], output)


@pytest.mark.parametrize(
    ("dtype", "kind"), [("float64", np.float64), ("bfloat16", ml_dtypes.bfloat16), ("float16", np.float16)]
)
def test_other_precisions(dtype: str, kind: Any) -> None:
    session = _open(Inplace(), {"dtype": dtype})
    seen = _trace(session)
    assert session.precision == dtype
    assert {seen[s.tensor].dtype for s in session.sites} == {np.dtype(kind)}
    (output,) = session.run({"x": X}).values()
    assert output.dtype == np.dtype(kind)


def _check(module: nn.Module, twin: str, x: Any = X, **options: Any) -> Result:
    found = twinnet.check(module, {"x": x}, twin, **options)
    assert isinstance(found, Result)
    return found


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_a_twin_of_other_precision_passes_at_its_own_unit(dtype: str) -> None:
    found = _check(Inplace().eval(), f"torch?dtype={dtype}")
    assert found.verdict == "PASS" and found.twin.precision == dtype and not found.findings


def test_bfloat16_of_a_whole_network() -> None:
    module, args, _ = nets.mbconv()
    found = twinnet.check(module, {"image": args[0].numpy()}, "torch?dtype=bfloat16")
    assert isinstance(found, Result) and found.verdict == "PASS", found


class Spectrum(nn.Module):
    """A filter with complex weights."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(4, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.irfft(torch.fft.rfft(x) * self.weight)


def test_complex_weights_keep_both_parts_in_another_precision() -> None:
    session, sample = _open(Spectrum(), {"dtype": "float64"}), {"x": X}
    weight = Spectrum().weight.detach().numpy().astype(np.complex128)
    wanted = np.fft.irfft(np.fft.rfft(X.astype(np.float64)) * weight)
    (output,) = session.output_tensors
    for got in (*session.run(sample).values(), session.trace(sample, (), TraceBuilder())[output]):
        assert got.dtype == np.float64 and np.allclose(got, wanted, rtol=1e-12, atol=1e-14)
    found = _check(Spectrum().eval(), "torch?dtype=float64")
    assert found.verdict == "PASS" and not found.guards, found


@pytest.mark.slow
def test_compiled_shows_outputs_only() -> None:
    found = _check(Inplace().eval(), "torch?compile=1")
    assert found.verdict == "PASS" and [p.site.role for p in found.pairs] == ["output"]


class Refused(nn.Module):
    """Data-dependent Python: torch.export refuses it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            if float(x.sum()) > 1e9:
                x = x * 0
            x = F.relu(x, inplace=True)
        return x


def test_what_cannot_be_exported_is_observed_in_eager_mode() -> None:
    session = _open(Refused())
    assert session.graph() is None and "torch.export failed" in session.notes[0]
    modules = [(s.module, s.op) for s in session.sites if s.module]
    assert ("layers.0", "addmm") in modules and ("layers.1", "addmm") in modules
    seen = _trace(session)
    first = next(s.tensor for s in session.sites if s.op == "addmm")
    assert (seen[first] < 0).any()  # before the activation that works in place
    assert np.array_equal(seen["output"], next(iter(session.run({"x": X}).values())))


def test_an_eager_network_is_compared_and_the_coverage_says_how() -> None:
    found = _check(Refused().eval(), "torch?dtype=float64")
    assert found.verdict == "PASS"
    assert "only outputs are judged" in str(found.coverage.note)


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no such kernel")


def test_a_network_that_raises_is_an_error_not_a_crash() -> None:
    found = _check(Raises(), "torch?dtype=float64")
    assert found.verdict == "ERROR" and "no such kernel" in found.error


def test_threads_are_set_for_the_run_only() -> None:
    before = torch.get_num_threads()
    seen = []

    class Count(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.compiler.is_compiling():
                seen.append(torch.get_num_threads())
            return x * 2

    _open(Count(), {"threads": "2"}).run({"x": X})
    assert seen[-1] == 2 and torch.get_num_threads() == before


def test_onnx_files_are_sent_to_another_engine(tmp_path: Any) -> None:
    from onnx import helper

    from tests.onnx_edit import make_model, save

    file = save(make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2,)}, ["y"]), tmp_path / "a.onnx")
    with pytest.raises(UsageError, match="not ONNX files"):
        find_engine("torch").open(load_network(str(file)), {}, None, Job({"x": X}))


def test_a_bad_input_is_an_engine_error() -> None:
    session = _open(Inplace())
    with pytest.raises(EngineError, match="torch could not run the network"):
        session.run({"x": np.zeros((4, 5), np.float32)})


class _Casts(nn.Module):
    """Table in float32, and back to whatever the data are in: export notes the dtype it saw at each cast."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[-1], dtype=torch.float32).to(x.dtype)
        return (x.float() * 2).to(x.dtype) + places


def test_casts_in_the_code_run_in_another_dtype() -> None:
    module = nn.Sequential(nn.Linear(8, 8), _Casts()).eval()
    found = twinnet.check(module, torch.linspace(-1, 1, 16).reshape(2, 8), "torch?dtype=bfloat16")
    assert found.verdict == "PASS", found
