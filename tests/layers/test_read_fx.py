"""Exported programs as canonical graphs: the same numbers, bounded rounding, known places."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from tests import nets
from tests.layers.programs import (
    assert_equal_in_double,
    assert_rounding_is_bounded,
    doubled,
    exported,
    run_nodes,
)
from twinnet.errors import UsageError
from twinnet.layers import Graph, evaluate, evaluate_with_error
from twinnet.layers.read_fx import read_fx

NAMES = list(nets.NETS)


@pytest.fixture(scope="module")
def programs() -> dict[str, torch.export.ExportedProgram]:
    return {name: exported(*factory()) for name, factory in nets.NETS.items()}


@pytest.mark.parametrize("name", NAMES)
def test_graph_computes_what_the_module_computes_in_float64(name: str) -> None:
    module, args, kwargs = nets.NETS[name]()
    module, args, kwargs = module.double(), doubled(args), doubled(kwargs)
    program = exported(module, args, kwargs)
    graph = read_fx(program)
    values = run_nodes(program, args, kwargs)
    # Coordinates of a resize are float32 in every engine, and so in the canonical layer.
    assert_equal_in_double(graph, values, rtol=1e-5 if name == "unet" else 1e-10)
    expected = pytree.tree_leaves(module(*args, **kwargs))
    for output, tensor in zip(graph.outputs, expected, strict=True):
        torch.testing.assert_close(values[output], tensor, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_float32_run_stays_within_the_rounding_of_each_layer(name, programs) -> None:
    _, args, kwargs = nets.NETS[name]()
    graph = read_fx(programs[name])
    ratios = assert_rounding_is_bounded(graph, run_nodes(programs[name], args, kwargs))
    assert set(graph.outputs) <= set(ratios)
    assert max(ratios.values()) > 0, "a float32 run that never rounds shows nothing"


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_of_the_networks_has_a_canonical_form(name, programs) -> None:
    assert [layer.op for layer in read_fx(programs[name]) if layer.kind == "opaque"] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_value_has_one_producer_and_is_declared(name, programs) -> None:
    graph = read_fx(programs[name])
    nodes = {node.name: node for node in programs[name].graph.nodes}
    known = {*graph.inputs, *graph.constants}
    for layer in graph:
        assert {n for n in layer.inputs if n is not None} <= known, (
            f"{layer.node} reads what is not there yet"
        )
        assert known.isdisjoint(o for o in layer.outputs if o)
        known.update(o for o in layer.outputs if o)
    assert set(graph.outputs) <= known
    for value in known & set(nodes):
        meta = nodes[value].meta["val"]
        if isinstance(meta, torch.Tensor):
            assert graph.dtypes[value] == meta.dtype and graph.shapes[value] == tuple(meta.shape)


def _line(function, text: str) -> str:
    """file:LINE of the only line of a function that contains `text`."""
    lines, start = inspect.getsourcelines(function)
    (found,) = [start + i for i, line in enumerate(lines) if text in line]
    file = Path(inspect.getsourcefile(function) or "")
    here = Path.cwd()
    return f"{file.relative_to(here) if file.is_relative_to(here) else '/'.join(file.parts[-2:])}:{found}"


def test_places_in_a_network_with_a_shared_module(programs) -> None:
    at = {layer.outputs[0]: layer for layer in read_fx(programs["functional"])}
    assert [(at[n].module, at[n].call) for n in ("linear", "linear_1")] == [("shared", 0), ("shared", 1)]
    forward = nets.Functional.forward
    assert at["linear"].source == _line(forward, "y = self.shared(x)")
    assert at["linear_1"].source == _line(forward, "z = self.shared(")
    assert (at["relu"].module, at["relu"].source) == ("", _line(forward, "F.relu("))
    assert (at["einsum"].op, at["einsum"].source) == ("einsum", _line(forward, "torch.einsum("))


def test_places_in_nested_modules(programs) -> None:
    layers = read_fx(programs["mbconv"]).layers
    depthwise = next(layer for layer in layers if layer.attrs.get("group") == 64)
    assert (depthwise.module, depthwise.call, depthwise.op) == ("blocks.2.depthwise.0", 0, "conv2d")
    assert depthwise.source == _line(nets.MBConv.forward, "self.depthwise(")
    norm = next(layer for layer in layers if layer.kind == "batch_norm")
    assert (norm.node, norm.outputs) == ("_native_batch_norm_legit_no_training", ("getitem",))
    assert (norm.module, norm.source) == ("stem.1", _line(nets.MBNet.forward, "self.stem("))
    gate = next(layer for layer in layers if layer.kind == "sigmoid")
    assert (gate.module, gate.source) == (
        "blocks.0.attend",
        _line(nets.SqueezeExcite.forward, "torch.sigmoid"),
    )


def test_source_outside_the_working_directory_keeps_two_parts(programs, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    layer = next(layer for layer in read_fx(programs["functional"]) if layer.op == "einsum")
    assert layer.source.startswith("tests/nets.py:")


def test_constants_are_the_programs_own_tensors(programs) -> None:
    program = programs["functional"]
    graph = read_fx(program)
    assert graph.constants["p_shared_weight"].data_ptr() == program.state_dict["shared.weight"].data_ptr()
    assert graph.constants["b_grid"].data_ptr() == program.state_dict["grid"].data_ptr()
    assert graph.constants["sub.other"].item() == 0.25


def test_inputs_and_outputs_follow_the_signature(programs) -> None:
    graph = read_fx(programs["dict_io"])
    assert graph.inputs == ("batch_image", "batch_text", "temperature", "bias")
    assert graph.outputs == ("div", "div_1", "div_2")
    assert read_fx(programs["many_inputs"]).inputs == ("tokens", "mask", "dense", "pair_0", "pair_1")


class Dynamic(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n, c = x.shape
        y = x.reshape(n * c, 1)[: n + 1].expand(-1, c)
        return torch.arange(n), y * n, torch.sigmoid(x), y.new_full((n,), 0.5), x.nonzero()


def test_sizes_known_only_at_run_time() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    example = torch.tensor([[1.0, 0.0, 2.0, -1.0]] * 3, dtype=torch.float64)
    program = torch.export.export(Dynamic(), (example,), dynamic_shapes=({0: batch},)).run_decompositions({})
    graph = read_fx(program)
    assert isinstance(graph.shapes["x"][0], str) and graph.shapes["x"][1] == 4
    x = torch.randn(5, 4, dtype=torch.float64)
    got = evaluate(graph, {"x": x})
    for name, expected in zip(graph.outputs, Dynamic()(x), strict=True):
        torch.testing.assert_close(got[name].to(expected.dtype), expected)


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = torch.cond(x.sum() > 0, lambda x: x.sin() * 1.1 + torch.ones(4), lambda x: x.cos(), (x,))
        _, x = torch.while_loop(
            lambda i, x: i < 3, lambda i, x: (i + 1, x @ torch.eye(4) * 0.9), (torch.tensor(0), x)
        )
        total, parts = torch._higher_order_ops.scan(lambda c, x: (c + x, c * x), torch.zeros(4), x)
        return x, total, parts, torch._higher_order_ops.map(lambda a, b: a * b, x, total)


@pytest.mark.parametrize("sign", [1, -1])
def test_control_flow_is_one_opaque_layer_each(sign: int) -> None:
    torch.manual_seed(0)
    x = sign * torch.rand(2, 4)
    program = exported(Branches(), (x,))
    graph = read_fx(program)
    assert [layer.op for layer in graph if layer.kind == "opaque"] == [
        "cond",
        "while_loop",
        "scan",
        "map_impl",
    ]
    values = run_nodes(program, (x,), {})
    for name, expected in zip(graph.outputs, Branches()(x), strict=True):
        torch.testing.assert_close(evaluate(graph, {"x": x})[name].float(), expected)
    ratios = assert_rounding_is_bounded(graph, values)
    assert ratios["getitem"] > 0, "cond computes in float64 here, so float32 must differ"


class Dice(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        noise = torch.rand(4) + torch.randn_like(x)
        dropped = torch.nn.functional.dropout(x, 0.5, training=True)
        kept = torch.nn.functional.dropout(x, 0.0, training=True)
        mapped = torch._higher_order_ops.map(lambda a: a + torch.rand(4), x)
        return (
            noise,
            dropped,
            kept,
            mapped,
            torch.bernoulli(x),
            torch.nn.functional.dropout(x, 0.5, training=False),
        )


def test_random_operators_are_marked() -> None:
    graph = read_fx(exported(Dice(), (torch.rand(2, 4),)))
    marked = {layer.op for layer in graph if layer.attrs.get("random")}
    assert marked == {"rand", "randn_like", "native_dropout", "map_impl", "bernoulli"}
    quiet = [layer for layer in graph if layer.op.endswith("dropout") and not layer.attrs.get("random")]
    assert all(layer.kind == "identity" for layer in quiet)


def test_an_operator_without_canonical_form_runs_in_float64_with_a_bound() -> None:
    class Rare(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.i0e(x) + torch.linalg.inv(x @ x.T + torch.eye(6)).sum()

    torch.manual_seed(0)
    x = torch.randn(6, 6)
    program = exported(Rare(), (x,))
    graph = read_fx(program)
    rare = [i for i, layer in enumerate(graph) if layer.kind == "opaque"]
    assert {graph.layers[i].op for i in rare} >= {"special_i0e"}
    (index,) = [i for i in rare if graph.layers[i].op == "special_i0e"]
    name = graph.layers[index].outputs[0]
    value, error = evaluate_with_error(graph, {"x": x}, {}, unit=2.0**-24, layers=[index], keep=[name])[name]
    torch.testing.assert_close(value, torch.special.i0e(x.double()))
    assert error is not None and bool((error > 0).all()) and float(error.max()) < 1e-5
    assert_rounding_is_bounded(graph, run_nodes(program, (x,), {}))


def test_a_program_that_writes_in_place_is_refused() -> None:
    class InPlace(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 1).relu_()

    with pytest.raises(UsageError, match=r"in place.*relu_") as caught:
        read_fx(torch.export.export(InPlace(), (torch.ones(2),)))
    assert "run_decompositions" in str(caught.value)


def test_a_foreign_operator_is_not_mistaken_for_the_one_of_the_same_name() -> None:
    with torch.library._scoped_library("twinnet_test", "DEF") as library:
        library.define("relu(Tensor x) -> Tensor")
        library.impl("relu", lambda x: x * 3, "CompositeExplicitAutograd")
        library.impl("relu", lambda x: torch.empty_like(x), "Meta")

        class Foreign(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.ops.twinnet_test.relu(x)

        graph: Graph = read_fx(exported(Foreign(), (torch.ones(2),)))
        (layer,) = graph.layers
        assert (layer.kind, layer.op) == ("opaque", "twinnet_test::relu")
        assert evaluate(graph, {"x": torch.tensor([-1.0, 2.0])})[graph.outputs[0]].tolist() == [-3.0, 6.0]


def test_a_saved_program_keeps_names_and_places(programs, tmp_path) -> None:
    torch.export.save(programs["mbconv"], tmp_path / "net.pt2")
    again = read_fx(torch.export.load(tmp_path / "net.pt2"))
    for before, after in zip(read_fx(programs["mbconv"]), again, strict=True):
        assert (before.outputs, before.module, before.source) == (after.outputs, after.module, after.source)


def test_a_program_decomposed_for_onnx_shares_its_names_with_the_onnx_model(programs) -> None:
    """Without that the exporter numbers nodes anew, and `conv2d_4` is another convolution there."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    from torch.onnx._internal.exporter import _fx_passes, _registration

    registry = _registration.ONNXRegistry.from_torchlib()
    for name in ("unet", "functional"):
        program = _fx_passes.decompose_with_registry(programs[name], registry)
        graph = read_fx(program)
        assert [layer.op for layer in graph if layer.kind == "opaque"] == []
        _, args, kwargs = nets.NETS[name]()
        assert_rounding_is_bounded(graph, run_nodes(program, args, kwargs))
        exported_model = torch.onnx.export(program, dynamo=True, optimize=False, verbose=False)
        assert exported_model is not None
        model = onnx.shape_inference.infer_shapes(exported_model.model_proto)
        shapes = {
            value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
            for value in (*model.graph.value_info, *model.graph.output)
        }
        shared = [n for layer in graph for n in layer.outputs if n in shapes]
        assert len(shared) > 0.9 * len({layer.node for layer in graph})
        assert {n: shapes[n] for n in shared} == {n: graph.shapes[n] for n in shared}
