"""Small tensors are evaluated in one thread, large ones in as many as torch has; afterwards all is as before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from twinnet.layers import Graph, Layer, evaluate, evaluate_with_error
from twinnet.layers.threads import LONG, few_threads


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("elements", "threads"), [(LONG - 1, 1), (LONG, 2)])
def test_only_large_tensors_are_shared_out(elements: int, threads: int) -> None:
    with few_threads({"x": torch.zeros(elements), "n": torch.tensor(3)}):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2


def test_a_failing_layer_leaves_the_threads_as_they_were() -> None:
    graph = Graph((Layer("matmul", ("x", "x"), ("y",)),), ("x",), ("y",))
    values = {"x": torch.zeros(2, 3)}
    for work in (lambda: evaluate(graph, values), lambda: evaluate_with_error(graph, values, {}, unit=0.0)):
        with pytest.raises(Exception, match="could not be evaluated"):
            work()
        assert torch.get_num_threads() == 2
