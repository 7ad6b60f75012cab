"""Impact: what one segment's error alone does to the output."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from twinnet.blame.impact import impact_of
from twinnet.layers.graph import Graph, Layer

W = torch.tensor([[2.0, 0.0], [0.0, -3.0]])
GRAPH = Graph(
    (
        Layer("relu", ("x",), ("a",)),
        Layer("neg", ("x",), ("b",)),
        Layer("matmul", ("a", "w"), ("c",)),
        Layer("add", ("c", "b"), ("y",)),
    ),
    ("x",),
    ("y",),
    {"w": W},
)
X = torch.tensor([[1.0, 2.0]])


def _trace() -> dict[str, np.ndarray]:
    a, b = torch.relu(X), -X
    c = a @ W
    return {n: v.numpy() for n, v in {"a": a, "b": b, "c": c, "y": c + b}.items()}


@pytest.mark.parametrize(
    ("tensor", "born", "impact"),
    [("a", [0.5, 0.0], 1.0), ("a", [0.0, 0.5], 1.5), ("b", [0.25, 0.0], 0.25), ("y", [0.125, 0.0], 0.125)],
)
def test_the_error_goes_through_what_follows_and_nothing_else(
    tensor: str, born: list[float], impact: float
) -> None:
    found = impact_of(GRAPH, tensor, torch.tensor([born], dtype=torch.float64), _trace(), {"x": X}, ("y",))
    assert found == pytest.approx(impact)


def test_a_tiny_error_is_not_lost_in_the_rounding_of_the_network() -> None:
    born = torch.tensor([[1e-9, 0.0]], dtype=torch.float64)
    assert impact_of(GRAPH, "a", born, _trace(), {"x": X}, ("y",)) == pytest.approx(2e-9, rel=1e-6)


def test_tensors_beside_the_path_are_computed_where_they_were_not_recorded() -> None:
    trace = {n: v for n, v in _trace().items() if n not in ("b", "c")}
    born = torch.tensor([[0.5, 0.0]], dtype=torch.float64)
    assert impact_of(GRAPH, "a", born, trace, {"x": X}, ("y",)) == pytest.approx(1.0)


def test_what_cannot_be_put_in_has_no_impact() -> None:
    assert impact_of(GRAPH, "a", torch.zeros(3, 3, dtype=torch.float64), _trace(), {"x": X}, ("y",)) is None
    assert impact_of(GRAPH, "missing", torch.zeros(1, 2), _trace(), {"x": X}, ("y",)) is None
