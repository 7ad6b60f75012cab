"""Complex numbers: evaluated in double precision, within their rounding in single, never by their real part alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.layers.programs import exported, run_nodes
from twinnet.layers import Graph, Layer, evaluate, evaluate_with_error
from twinnet.layers.read_fx import read_fx

UNIT = 2.0**-24

CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "spectrum": lambda x: torch.fft.irfft(torch.fft.rfft(x) * (torch.arange(17) + 0.5), n=32),
    "parts": lambda x: torch.fft.fft(x).real - 2 * torch.fft.fft(x).imag,
    "moved": lambda x: torch.view_as_real(torch.fft.rfft(x)[:, 1:].reshape(4, 2, 8).transpose(1, 2).flip(0)),
    "sums": lambda x: (torch.fft.rfft(x) + (1 - 2j) - 0.5 * torch.fft.rfft(x.flip(-1))).abs(),
    "conjugate": lambda x: torch.view_as_real(torch.fft.fft(x) * torch.fft.fft(x).conj()),
    "built": lambda x: (
        torch.view_as_complex(x.reshape(4, 16, 2)) * torch.complex(x[:, :16], x[:, 16:])
    ).abs(),
    "other": lambda x: (torch.fft.rfft(x) / (torch.fft.rfft(x) + 40)).abs(),
    "product": lambda x: torch.view_as_real(torch.fft.rfft(x) @ torch.fft.rfft(x).T),
    "windows": lambda x: torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True).abs(),
}


class Call(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@pytest.mark.parametrize("name", CASES)
def test_complex_numbers_keep_both_parts(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 32)
    program = exported(Call(CASES[name]), (x,))
    graph = read_fx(program)
    values = run_nodes(program, (x,), {})
    (start,) = graph.inputs
    made = [n for layer in graph for n in layer.outputs if n in values and values[n].dtype != torch.int64]
    found = evaluate_with_error(graph, {start: x}, {}, unit=UNIT, keep=made)
    assert any(values[n].is_complex() for n in made)
    for n in made:
        value, bound = found[n]
        assert value.dtype == (torch.complex128 if values[n].is_complex() else torch.float64), n
        off = (values[n].to(value.dtype) - value).abs()
        allowed = 4 * ((0 if bound is None else bound) + UNIT * value.abs())
        assert bool((off <= allowed).all()), (n, float((off / allowed).max()))
        # A bound that allows everything would be none.
        assert float(off.max()) == 0 or float((allowed / value.abs().amax()).max()) < 1e-3, n


def test_a_modulus_bounds_both_parts() -> None:
    x = torch.tensor([3 + 4j, -1j], dtype=torch.complex128)
    bound = torch.tensor([0.5, 0.25])
    parts = Graph((Layer("view_as_real", ("x",), ("y",)),), ("x",), ("y",))
    assert evaluate_with_error(parts, {"x": x}, {"x": bound}, unit=UNIT)["y"][1].tolist() == [
        [0.5] * 2,
        [0.25] * 2,
    ]
    whole = Graph((Layer("view_as_complex", ("x",), ("y",)),), ("x",), ("y",))
    given = torch.view_as_real(x)
    back, error = evaluate_with_error(
        whole, {"x": given}, {"x": torch.tensor([[3.0, 4.0], [0, 1]])}, unit=UNIT
    )["y"]
    assert torch.equal(back, x) and error is not None and error.tolist() == [5.0, 1.0]
    size = Graph((Layer("modulus", ("x",), ("y",)),), ("x",), ("y",))
    value, error = evaluate_with_error(size, {"x": x}, {"x": bound}, unit=UNIT)["y"]
    assert value.tolist() == [5.0, 1.0] and error is not None
    assert error.tolist() == pytest.approx([0.5 + 10 * UNIT, 0.25 + 2 * UNIT])


def test_complex_arithmetic_is_bounded_by_the_modulus() -> None:
    torch.manual_seed(1)
    a, b = (torch.randn(200_000, dtype=torch.complex64) for _ in range(2))
    for kind in ("add", "sub", "mul"):
        graph = Graph((Layer(kind, ("a", "b"), ("y",)),), ("a", "b"), ("y",))
        value, bound = evaluate_with_error(graph, {"a": a, "b": b}, {}, unit=UNIT)["y"]
        exact = {"add": a.to(value.dtype) + b, "sub": a.to(value.dtype) - b, "mul": a.to(value.dtype) * b}[
            kind
        ]
        assert torch.equal(value, exact) and bound is not None
        narrow = {"add": a + b, "sub": a - b, "mul": a * b}[kind]
        ratio = ((narrow.to(value.dtype) - value).abs() / bound).max()
        assert 0.1 < float(ratio) < 4, kind


def test_values_that_are_given_are_widened() -> None:
    graph = Graph((Layer("identity", ("x",), ("y",)),), ("x",), ("y",))
    x = torch.tensor([1 + 2j], dtype=torch.complex64)
    assert evaluate(graph, {"x": x})["y"].dtype == torch.complex128
    assert evaluate(graph, {"x": x}, widen=False)["y"].dtype == torch.complex64
