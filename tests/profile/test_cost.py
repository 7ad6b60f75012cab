"""Operations and bytes by shapes, against what PyTorch counts and what can be counted by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from twinnet.layers.graph import Graph, Layer
from twinnet.profile.building import estimates, reported
from twinnet.profile.cost import flops, moved_bytes
from twinnet.profile.memory import least_memory
from twinnet.profile.target import Target

HEADS = torch.rand(2, 4, 10, 16), torch.rand(2, 4, 12, 16), torch.rand(2, 4, 12, 8)


def counted(run: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize(
    ("kind", "module", "shape"),
    [
        ("conv", nn.Conv2d(6, 12, (3, 5), padding=1, bias=False), (2, 6, 9, 11)),
        ("conv", nn.Conv2d(6, 12, 3, groups=3, stride=2, bias=False), (2, 6, 9, 11)),
        ("conv", nn.Conv2d(6, 6, 3, groups=6, dilation=2, bias=False), (1, 6, 9, 11)),
        ("conv", nn.Conv1d(6, 4, 5, bias=False), (3, 6, 20)),
        ("conv_transpose", nn.ConvTranspose2d(6, 4, 4, stride=2, padding=1, bias=False), (2, 6, 5, 7)),
        ("linear", nn.Linear(16, 24, bias=False), (2, 3, 16)),
    ],
)
def test_products_are_counted_as_pytorch_counts_them(
    kind: str, module: nn.Module, shape: tuple[int, ...]
) -> None:
    x, weight = torch.rand(shape), next(module.parameters())
    made = tuple(module(x).shape)
    shapes = {"x": shape, "w": tuple(weight.shape), "b": made[1:2], "y": made}
    count = flops(Layer(kind, ("x", "w"), ("y",)), shapes)
    assert count is not None and count == counted(lambda: module(x))
    assert flops(Layer(kind, ("x", "w", "b"), ("y",)), shapes) == count + torch.Size(made).numel()


def test_a_transposed_convolution_in_groups() -> None:
    """By hand, as PyTorch counts groups of transposed ones differently from release to release."""
    shapes = {"x": (2, 6, 5, 7), "w": (6, 2, 4, 4), "y": (2, 4, 10, 14)}
    layer = Layer("conv_transpose", ("x", "w"), ("y",), {"group": 2})
    assert flops(layer, shapes) == 2 * (2 * 6 * 5 * 7) * (2 * 4 * 4)


def test_products_of_matrices_with_batches_and_attention() -> None:
    a, b = torch.rand(5, 3, 7), torch.rand(5, 7, 2)
    shapes = {"a": a.shape, "at": (5, 7, 3), "b": b.shape, "y": (5, 3, 2)}
    assert flops(Layer("matmul", ("a", "b"), ("y",)), shapes) == counted(lambda: a @ b) == 2 * 5 * 3 * 7 * 2
    assert flops(Layer("matmul", ("at", "b"), ("y",), {"trans_a": True}), shapes) == 2 * 5 * 3 * 7 * 2
    query, key, value = HEADS
    made = functional.scaled_dot_product_attention(query, key, value)
    sizes = {"q": query.shape, "k": key.shape, "v": value.shape, "y": made.shape}
    softmax = 6 * 2 * 4 * 10 * 12
    by_torch = counted(lambda: (query @ key.transpose(-1, -2)) @ value)
    assert flops(Layer("attention", ("q", "k", "v"), ("y",)), sizes) == by_torch + softmax


@pytest.mark.parametrize(
    ("layer", "given", "expected"),
    [
        (Layer("div", ("one", "x"), ("y",)), {"one": (), "x": (4, 8), "y": (4, 8)}, 32),
        (Layer("max", ("one", "x"), ("y",)), {"one": (1,), "x": (4, 8), "y": (4, 8)}, 32),
        (Layer("glu", ("x",), ("y",)), {"x": (4, 8), "y": (4, 4)}, 5 * 32),
        (Layer("grid_sample", ("x", "g"), ("y",)), {"x": (1, 1, 99, 99), "y": (1, 1, 2, 2)}, 48),
        (Layer("resize", ("x",), ("y",), {"mode": "linear"}), {"x": (1, 2, 4), "y": (1, 2, 8)}, 16 * 4),
        (
            Layer("resize", ("x",), ("y",), {"mode": "linear"}),
            {"x": (1, 2, 4, 4), "y": (1, 2, 8, 8)},
            128 * 8,
        ),
        (
            Layer("conv_integer", ("x", "w", "zero"), ("y",)),
            {"x": (1, 1, 4, 4), "w": (1, 1, 1, 1), "zero": (), "y": (1, 1, 4, 4)},
            32,
        ),
    ],
)
def test_the_rest_by_hand(layer: Layer, given: dict[str, tuple[int, ...]], expected: int) -> None:
    assert flops(layer, given) == expected


def test_a_lookup_reads_the_rows_it_takes() -> None:
    table = torch.zeros(30_000, 768)
    graph = Graph((Layer("gather", ("w", "ids"), ("y",)),), ("ids",), ("y",), {"w": table})
    shapes = {"w": (30_000, 768), "ids": (1, 8), "y": (1, 8, 768)}
    assert moved_bytes(graph, graph.layers, shapes, 4) == 2 * 8 * 768 * 4 + 8 * 4


def test_a_slice_of_a_large_value_is_not_all_of_it_but_a_reader_beside_it_is() -> None:
    part, all_ = Layer("slice", ("x",), ("y",)), Layer("relu", ("x",), ("z",))
    graph, shapes = Graph((part, all_), ("x",), ("y", "z")), {"x": (100,), "y": (10,), "z": (100,)}
    assert moved_bytes(graph, (part,), shapes, 4) == 80
    assert moved_bytes(graph, (part, all_), shapes, 4) == 840


def test_fused_layers_move_only_what_comes_and_goes() -> None:
    layers = (
        Layer("conv", ("x", "w"), ("c",)),
        Layer("add", ("c", "skip"), ("s",)),
        Layer("relu", ("s",), ("y",)),
    )
    graph = Graph(layers, ("x", "skip"), ("y",), {"w": torch.zeros(4, 4, 1, 1)})
    shapes = {**dict.fromkeys(("x", "c", "skip", "s", "y"), (1, 4, 8, 8)), "w": (4, 4, 1, 1)}
    assert moved_bytes(graph, layers, shapes, 4) == 4 * (3 * 256 + 16)
    assert moved_bytes(graph, layers[:1], shapes, 2) == 2 * (2 * 256 + 16)


def test_an_activation_needs_no_second_place() -> None:
    """What only changes the values of one that is not needed any more may write over it: engines do."""
    layers = (
        Layer("conv", ("x", "w"), ("c",)),
        Layer("relu", ("c",), ("r",)),
        Layer("reshape", ("r",), ("y",)),
    )
    graph = Graph(layers, ("x",), ("y",), {"w": torch.zeros(4, 1, 1, 1)})
    shapes = {"x": (1, 1, 8, 8), "c": (1, 4, 8, 8), "r": (1, 4, 8, 8), "y": (1, 256), "w": (4, 1, 1, 1)}
    assert least_memory(graph, shapes, 4) == 4 * (4 + 64 + 256)


def test_a_change_of_shape_moves_nothing_unless_something_copies_with_it() -> None:
    layers = (Layer("reshape", ("x",), ("r",)), Layer("transpose", ("r",), ("y",)))
    graph = Graph(layers, ("x",), ("y",))
    shapes = {"x": (4, 8), "r": (8, 4), "y": (4, 8)}
    assert moved_bytes(graph, layers[:1], shapes, 4) == 0
    assert moved_bytes(graph, layers, shapes, 4) == 2 * 32 * 4


def test_what_depends_on_no_input_needs_no_memory_of_its_own() -> None:
    """Weights in eight bits, which the file turns into floats: engines do that once, or not at all."""
    layers = (Layer("dequantize_linear", ("w", "s"), ("v",)), Layer("linear", ("x", "v"), ("y",)))
    held = {"w": torch.zeros(4, 100, dtype=torch.int8), "s": torch.ones(())}
    graph = Graph(layers, ("x",), ("y",), held, dtypes={"y": torch.float32})
    shapes = {"w": (4, 100), "s": (), "v": (4, 100), "x": (1, 100), "y": (1, 4)}
    assert least_memory(graph, shapes, 4) == 400 + 4 + 4 * (100 + 4)


def test_whole_numbers_keep_their_size_in_every_precision() -> None:
    graph = Graph((Layer("argmax", ("x",), ("y",)),), ("x",), ("y",), dtypes={"y": torch.int64})
    assert least_memory(graph, {"x": (2, 5), "y": (5,)}, 2) == 2 * 10 + 8 * 5


def test_a_reported_time_is_that_of_all_that_is_fused() -> None:
    """The export makes a normalisation part of the convolution before it, whose node then makes its value."""
    layers = (
        Layer("conv", ("x", "w"), ("c",), node="c"),
        Layer("batch_norm", ("c", "m", "v"), ("n",), node="n"),
        Layer("relu", ("n",), ("r",), node="r"),
        Layer("conv", ("r", "w"), ("d",), node="d"),
    )
    held = {"w": torch.zeros(4, 4, 1, 1), "m": torch.zeros(4), "v": torch.ones(4)}
    graph = Graph(layers, ("x",), ("d",), held)
    shapes = dict.fromkeys(("x", "c", "n", "r", "d"), (1, 4, 8, 8)) | {
        "w": (4, 4, 1, 1),
        "m": (4,),
        "v": (4,),
    }
    # The twin, in names of its own: the node of a convolution, the value that a node makes, and one the network lacks.
    fused = (
        Layer("conv", ("x", "w"), ("n",), node="first"),
        Layer("relu", ("n",), ("val_3",), node="second"),
        Layer("conv", ("val_3", "w"), ("inner",), node="third"),
        Layer("identity", ("inner",), ("d",), node="fourth"),
    )
    twin = Graph(fused, ("x",), ("d",), held)
    told = reported(graph, shapes, {"first": 3.0, "inner": 2.0, "fourth": 0.5}, twin, {"val_3": "r"})
    board = Target("board", 1e9, 1e9)
    found = estimates(graph, shapes, board, told=told)
    assert [one.by for one in found] == ["compiler", "compiler", "shapes", "compiler"]
    assert [one.seconds for one in found] == [3.0, 0.0, found[2].seconds, 2.5] and found[2].seconds < 1e-5
    halves = estimates(graph, shapes, board, 2)
    assert [one.bytes for one in halves] == [(one.bytes or 0) // 2 for one in estimates(graph, shapes, board)]
