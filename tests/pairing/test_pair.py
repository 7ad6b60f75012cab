"""Pairs with known answers: the same file, renamed, folded, split, laid out otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch import nn

import twinnet
from tests.nets import MBNet, _trained_look
from tests.onnx_edit import make_model, node_of, rename, save
from twinnet.onnx.read import read_onnx
from twinnet.pairing import Side, pair_sites
from twinnet.pairing.provenance import module_in_name
from twinnet.result import Result
from twinnet.site import Site


def _weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _net() -> onnx.ModelProto:
    """Three projections of one tensor (told apart by their weights only), mixed and normalised."""
    nodes = [
        helper.make_node("MatMul", ["x", "q"], ["a"]),
        helper.make_node("MatMul", ["x", "k"], ["b"]),
        helper.make_node("MatMul", ["x", "v"], ["c"]),
        helper.make_node("Tanh", ["a"], ["ta"]),
        helper.make_node("Mul", ["ta", "b"], ["m"]),
        helper.make_node("Add", ["m", "c"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"], axis=-1),
    ]
    weights = {n: _weights(8, 8) + i for i, n in enumerate("qkv")}
    return make_model(nodes, {"x": (4, 8)}, ["y"], weights)


def _check(network: Any, inputs: Any, twin: Any, **options: Any) -> Result:
    found = twinnet.check(network, inputs, twin, **options)
    assert isinstance(found, Result)
    return found


X = {"x": np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)}


def test_the_same_file_pairs_by_name(tmp_path: Path) -> None:
    file = save(_net(), tmp_path / "a.onnx")
    found = _check(str(file), X, "onnxruntime?opt=off")
    assert found.coverage.paired == found.coverage.sites == 7
    assert all(p.site.tensor == p.twin_site.tensor and p.confidence == 1.0 for p in found.pairs)


def test_a_renamed_file_pairs_by_topology(tmp_path: Path) -> None:
    file, other = (
        save(_net(), tmp_path / "a.onnx"),
        save(rename(_net(), lambda n: f"z{n}9"), tmp_path / "b.onnx"),
    )
    found = _check(str(file), X, f"onnxruntime?opt=off:{other}")
    assert found.verdict == "PASS"
    assert {p.site.tensor: p.twin_site.tensor for p in found.pairs} == {
        n: f"z{n}9" for n in ("a", "b", "c", "ta", "m", "s", "y")
    }
    assert {p.how for p in found.pairs} == {"topology", "output"}


def test_projections_in_another_order_are_told_apart_by_their_weights(tmp_path: Path) -> None:
    other = rename(_net(), lambda n: f"z{n}")
    nodes = list(other.graph.node)
    del other.graph.node[:]
    other.graph.node.extend([nodes[2], nodes[0], nodes[1], *nodes[3:]])
    file, twin = save(_net(), tmp_path / "a.onnx"), save(other, tmp_path / "b.onnx")
    found = _check(str(file), X, f"onnxruntime?opt=off:{twin}")
    assert found.verdict == "PASS"
    assert {p.site.tensor: p.twin_site.tensor for p in found.pairs if p.site.tensor in "abc"} == {
        n: f"z{n}" for n in "abc"
    }


def test_changed_weights_still_pair_and_fail(tmp_path: Path) -> None:
    model = rename(_net(), lambda n: f"z{n}")
    weight = next(t for t in model.graph.initializer if t.name == "zk")
    weight.CopyFrom(onnx.numpy_helper.from_array(_weights(8, 8) + 1.25, "zk"))
    file, twin = save(_net(), tmp_path / "a.onnx"), save(model, tmp_path / "b.onnx")
    found = _check(str(file), X, f"onnxruntime?opt=off:{twin}")
    assert [f.site.tensor for f in found.findings] == ["b"]


def test_slices_of_one_tensor_pair_by_their_attributes() -> None:
    def graph(order: tuple[int, int], prefix: str) -> onnx.ModelProto:
        nodes = [
            helper.make_node(
                "MaxPool", ["x"], [f"{prefix}two"], kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1]
            ),
            helper.make_node(
                "MaxPool", ["x"], [f"{prefix}three"], kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]
            ),
        ]
        add = helper.make_node("Add", [f"{prefix}two", f"{prefix}three"], [f"{prefix}y"])
        return make_model([nodes[i] for i in order] + [add], {"x": (1, 1, 5, 5)}, [f"{prefix}y"])

    def sites(model: onnx.ModelProto) -> list[Site]:
        return [Site(o, op=n.op_type) for n in model.graph.node for o in n.output]

    ours, theirs = graph((0, 1), ""), graph((1, 0), "z")
    found = pair_sites(
        Side(sites(ours), read_onnx(ours)),
        Side(sites(theirs), read_onnx(theirs)),
        derived=False,
        inputs=[("x", "x")],
    )
    assert {p.site.tensor: p.twin_site.tensor for p in found.pairs} == {
        "two": "ztwo",
        "three": "zthree",
        "y": "zy",
    }


def test_equal_names_of_other_operators_do_not_pair() -> None:
    ours = [Site("h1", op="Conv"), Site("h2", op="Relu"), Site("y", op="Softmax", role="output")]
    theirs = [Site("h1", op="Sigmoid"), Site("h2", op="Relu"), Site("y", op="Softmax", role="output")]
    found = pair_sites(Side(ours), Side(theirs), derived=False, outputs=[("y", "y")])
    assert [(p.site.tensor, p.how) for p in found.pairs] == [("h2", "provenance"), ("y", "output")]
    assert [s.tensor for s in found.unmatched] == ["h1"] == [s.tensor for s in found.unmatched_twin]
    # A twin made from this very network keeps its names: there the name alone counts.
    assert len(pair_sites(Side(ours), Side(theirs), derived=True).pairs) == 3


def test_stated_names_come_first() -> None:
    ours, theirs = [Site("a", op="Relu"), Site("b", op="Relu")], [Site("b", op="Relu"), Site("c", op="Relu")]
    found = pair_sites(Side(ours), Side(theirs), derived=False, names={"a": "b", "b": "c"})
    assert [(p.site.tensor, p.twin_site.tensor, p.how) for p in found.pairs] == [
        ("a", "b", "stated"),
        ("b", "c", "stated"),
    ]


def test_no_twin_site_is_used_twice_and_order_is_the_networks() -> None:
    ours = [Site(n, op="Relu") for n in "abc"]
    found = pair_sites(
        Side(ours), Side([Site("c", op="Relu"), Site("a", op="Relu")]), derived=False, names={"b": "a"}
    )
    assert [(p.site.tensor, p.twin_site.tensor) for p in found.pairs] == [("b", "a"), ("c", "c")]


@pytest.mark.parametrize(
    ("tensor", "module"),
    [
        ("/features/4/block/conv/Conv_output_0", "features.4.block.conv"),
        ("/layers/layers.0/attn/MatMul_1_output_0", "layers.0.attn"),
        ("/features/features.0/features.0.1/Relu_output_0", "features.0.1"),
        ("conv1_out", ""),
        ("/Conv_output_0", ""),
    ],
)
def test_modules_in_names_of_older_exporters(tensor: str, module: str) -> None:
    assert module_in_name(tensor) == module


def test_modules_in_names_pair_with_the_network() -> None:
    ours = [Site("relu", op="relu", module="act"), Site("linear", op="linear", module="head")]
    theirs = [Site("/act/Relu_output_0", op="Relu"), Site("/head/Gemm_output_0", op="Gemm")]
    found = pair_sites(Side(ours), Side(theirs), derived=False)
    assert [(p.site.tensor, p.how) for p in found.pairs] == [("relu", "module"), ("linear", "module")]


@pytest.fixture(scope="module")
def mbnet() -> Result:
    torch.manual_seed(1)
    net = _trained_look(MBNet())
    return _check(net, torch.rand(2, 3, 32, 32), "onnxruntime")


def test_a_folded_batch_norm_pairs_at_its_end(mbnet: Result) -> None:
    pairs = {p.site.module: p for p in mbnet.pairs}
    norm = pairs["blocks.0.expand.1"]
    assert norm.twin_site.op in ("BatchNormalization", "Conv") and norm.status == "pass"
    if "blocks.0.expand.0" not in pairs:  # the convolution itself is gone: its segment is the norm's
        assert norm.segment == ("blocks.0.expand.1 batch_norm", "blocks.0.expand.0 conv2d")


def test_a_split_activation_pairs_at_its_end(mbnet: Result) -> None:
    silu = next(p for p in mbnet.pairs if p.site.module == "blocks.0.expand.2")
    assert silu.site.op == "silu" and silu.twin_site.op == "Mul" and silu.status == "pass"


def test_every_layer_lies_in_some_segment(mbnet: Result) -> None:
    seen = {label for p in mbnet.pairs for label in p.segment}
    assert {"head linear", "stem.0 conv2d", "blocks.2.project.0 conv2d"} <= seen
    assert mbnet.verdict == "PASS"


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.last = nn.Conv2d(6, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.conv(x)))


def test_another_layout_is_found_by_its_values() -> None:
    net = Small().eval()
    x = np.random.default_rng(0).standard_normal((1, 3, 7, 9)).astype(np.float32)

    def twin(x: np.ndarray) -> dict[str, np.ndarray]:
        with torch.no_grad():
            hidden = net.conv(torch.from_numpy(x))
            return {
                "output": net(torch.from_numpy(x)).numpy(),
                "strange name": hidden.permute(0, 2, 3, 1).numpy().copy(),
            }

    found = _check(net, {"x": x}, twin)
    pair = next(p for p in found.pairs if p.twin_site.tensor == "strange name")
    assert pair.site.module == "conv" and pair.how == "fingerprint" and pair.transform == "permute 0,3,1,2"
    assert pair.status == "pass" and pair.confidence < 1
    assert found.verdict == "PASS"


def test_two_candidates_with_the_same_values_stay_unpaired() -> None:
    net = Small().eval()
    x = np.random.default_rng(0).standard_normal((1, 3, 7, 9)).astype(np.float32)

    def twin(x: np.ndarray) -> dict[str, np.ndarray]:
        with torch.no_grad():
            hidden = net.conv(torch.from_numpy(x)).permute(0, 2, 3, 1).numpy()
            return {"output": net(torch.from_numpy(x)).numpy(), "one": hidden.copy(), "two": hidden.copy()}

    found = _check(net, {"x": x}, twin)
    assert not [p for p in found.pairs if p.twin_site.tensor in ("one", "two")]


def test_a_file_with_other_outputs_is_an_error(tmp_path: Path) -> None:
    other = _net()
    other.graph.output.append(helper.make_tensor_value_info("s", onnx.TensorProto.FLOAT, [4, 8]))
    file, twin = save(_net(), tmp_path / "a.onnx"), save(other, tmp_path / "b.onnx")
    found = _check(str(file), X, f"onnxruntime:{twin}")
    assert found.verdict == "ERROR" and "the network has 1 output (y), the twin 2 (y, s)" in found.error


def test_extended_keeps_the_networks_order() -> None:
    ours = [Site(n, op="Relu") for n in "abc"]
    found = pair_sites(Side(ours), Side([Site("c", op="Relu"), Site("z", op="Relu")]), derived=False)
    more = replace(found.pairs[0], site=ours[0], twin_site=Site("z"))
    assert [p.site.tensor for p in found.extended([more]).pairs] == ["a", "c"]
    assert [p.site.tensor for p in found.extended([more]).without({"a"}).pairs] == ["c"]


def test_a_swapped_operator_is_found_though_names_agree(tmp_path: Path) -> None:
    other = _net()
    node_of(other, "Tanh").op_type = "Sigmoid"
    file, twin = save(_net(), tmp_path / "a.onnx"), save(other, tmp_path / "b.onnx")
    found = _check(str(file), X, f"onnxruntime?opt=off:{twin}")
    assert found.verdict == "FAIL" and len(found.findings) == 1
    assert "ta tanh" in " ".join(found.findings[0].segment).lower()
