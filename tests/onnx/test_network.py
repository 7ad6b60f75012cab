"""ONNX files: external data of any size, and everything that makes a model unreadable."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from tests.needs import need_data
from twinnet.errors import UsageError
from twinnet.network import load_network
from twinnet.onnx.network import OnnxNetwork

HEAD = '<ir_version: 10, opset_import: ["": 20]>'


def model(text: str, head: str = HEAD) -> onnx.ModelProto:
    return parser.parse_model(f"{head} {text}")


def matmul(rows: int, columns: int, location: str, **entries: int | str) -> onnx.ModelProto:
    """y = x @ w with w in an external file."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, columns])
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=str(value))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", columns])],
        [weight],
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])


def write(path: Path, proto: onnx.ModelProto) -> Path:
    path.write_bytes(proto.SerializeToString())
    return path


def test_the_signature_keeps_symbolic_dimensions_and_leaves_initializers_out():
    proto = model(
        "g (float[n,3,h,?] x, int64 s, float[3] w) => (float[n,3,h,w2] y) <float[3] w = {1,2,3}>"
        "{ y = Identity(x) }"
    )
    proto.graph.input[0].type.tensor_type.shape.dim[3].dim_value = -1
    proto.graph.input.add(name="any", type=helper.make_tensor_type_proto(TensorProto.BFLOAT16, None))
    net = load_network(proto)
    assert [str(s) for s in net.signature.inputs] == [
        "x: float32 nx3xhx?",
        "s: int64 scalar",
        "any: bfloat16 ?",
    ]
    assert [s.name for s in net.signature.outputs] == ["y"]
    assert net.parameters == 3 and net.opset == 20


def test_constants_in_nodes_and_branches_count_as_parameters():
    then = model("t () => (float[2] a) { a = Constant <value = float[2] {1,2}> () }").graph
    other = model("e () => (float[2] b) { b = Constant <value = float[2] {3,4}> () }").graph
    branch = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    graph = helper.make_graph(
        [branch],
        "g",
        [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    net = load_network(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]))
    assert net.parameters == 4


def test_external_data_over_two_gigabytes_is_mapped_not_loaded(tmp_path):
    rows, columns = 700_000, 1000  # 2.8 GB
    data = tmp_path / "big.bin"
    with data.open("wb") as file:
        file.truncate(rows * columns * 4)
        file.seek((rows * columns - 1) * 4)
        file.write(np.float32(7.5).tobytes())
    assert data.stat().st_blocks * 512 < 10 << 20, "the file system does not keep holes"
    path = write(tmp_path / "big.onnx", matmul(rows, columns, "big.bin"))
    tracemalloc.start()
    net = load_network(path)
    weight = net.weights()["w"]
    assert weight[-1, -1] == 7.5 and weight[0, 0] == 0
    assert weight.shape == (rows, columns) and net.parameters == rows * columns
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
    assert net.external == (data,)


def test_weights_inside_and_beside_the_file_are_the_same(tmp_path):
    proto = model("g (float[1,2] x) => (float[1,2] y) { y = Mul(x, w) }")
    for name, dtype in (("w", np.float32), ("h", ml_dtypes.bfloat16)):
        proto.graph.initializer.append(numpy_helper.from_array(np.array([1.5, -2], dtype), name))
    onnx.save(proto, tmp_path / "in.onnx")
    onnx.save(
        proto, tmp_path / "out.onnx", save_as_external_data=True, size_threshold=0, convert_attribute=True
    )
    inside, beside = load_network(tmp_path / "in.onnx"), load_network(tmp_path / "out.onnx")
    assert beside.external and not inside.external
    for name in ("w", "h"):
        assert np.array_equal(inside.weights()[name], beside.weights()[name])
        assert inside.weights()[name].dtype == beside.weights()[name].dtype
    assert not any(t.raw_data for t in beside.model.graph.initializer)
    loaded = {t.name: numpy_helper.to_array(t).tolist() for t in beside.complete().graph.initializer}
    assert loaded["w"] == [1.5, -2.0]


@pytest.mark.parametrize(
    "location", ["../secret.bin", "/etc/passwd", "a/../../secret.bin", "C:\\secret.bin", "..\\secret.bin", ""]
)
def test_external_data_outside_the_folder_is_refused(tmp_path, location):
    (tmp_path / "secret.bin").write_bytes(b"\0" * 16)
    (tmp_path / "in").mkdir()
    path = write(tmp_path / "in" / "m.onnx", matmul(2, 2, location))
    with pytest.raises(UsageError, match="outside its own folder"):
        load_network(path)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "secret.bin").write_bytes(b"\0" * 16)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "w.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(UsageError, match="outside its own folder"):
        load_network(write(tmp_path / "in" / "m.onnx", matmul(2, 2, "w.bin")))


@pytest.mark.parametrize(
    ("entries", "size", "words"),
    [
        ({}, None, "is missing"),
        ({}, 12, "too short"),
        ({"offset": 8}, 16, "too short"),
        ({"length": 12}, 16, "has 12 bytes; 2x2 of its type needs 16"),
        ({"offset": "x"}, 16, "not a number"),
        ({"offset": -4, "length": 16}, 16, "too short"),
    ],
)
def test_external_data_that_does_not_hold_the_tensor(tmp_path, entries, size, words):
    if size is not None:
        (tmp_path / "w.bin").write_bytes(b"\0" * size)
    with pytest.raises(UsageError, match=words):
        load_network(write(tmp_path / "m.onnx", matmul(2, 2, "w.bin", **entries)))


def test_a_loaded_model_with_data_elsewhere_asks_for_its_path():
    with pytest.raises(UsageError, match="its folder is unknown"):
        load_network(matmul(2, 2, "w.bin"))


def test_versions_that_are_too_new():
    newer = onnx.defs.onnx_opset_version() + 1
    with pytest.raises(UsageError, match=f"needs opset {newer}; onnx .* knows up to {newer - 1}"):
        load_network(
            model(
                "g (float[1] x) => (float[1] y) { y = Relu(x) }",
                f'<ir_version: 10, opset_import: ["": {newer}]>',
            )
        )
    later = onnx.IR_VERSION + 1
    with pytest.raises(UsageError, match=f"format version {later}; onnx .* reads up to {onnx.IR_VERSION}"):
        load_network(
            model(
                "g (float[1] x) => (float[1] y) { y = Relu(x) }",
                f'<ir_version: {later}, opset_import: ["": 20]>',
            )
        )


def test_unknown_operators_are_named():
    head = '<ir_version: 10, opset_import: ["": 20, "acme.chip": 1]>'
    with pytest.raises(UsageError, match=r"operator Warp of the domain 'acme\.chip'"):
        load_network(model("g (float[1] x) => (float[1] y) { y = acme.chip.Warp(x) }", head))
    with pytest.raises(UsageError, match="Wrap"):
        load_network(model("g (float[1] x) => (float[1] y) { y = Wrap(x) }"))


def test_operators_that_the_model_defines_itself_are_fine():
    head = '<ir_version: 10, opset_import: ["": 20, "mine": 1]>'
    function = '<domain: "mine", opset_import: ["": 20]> Twice (a) => (b) { b = Add(a, a) }'
    assert (
        load_network(model(f"g (float[1] x) => (float[1] y) {{ y = mine.Twice(x) }} {function}", head)).name
        == "g"
    )
    head = '<ir_version: 10, opset_import: ["": 20, "com.microsoft": 1]>'
    assert (
        load_network(model("g (float[1] x) => (float[1] y) { y = com.microsoft.Gelu(x) }", head)).opset == 20
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("g (float[1] x) => (float[1] y) { y = Relu(z) }", "not a valid ONNX model.*z"),
        ("g (float[1] x) => (float[1] y) { y = Relu(x, x) }", "not a valid ONNX model.*Relu"),
        ("g (float[1] x) => () { y = Relu(x) }", "no graph with outputs"),
    ],
)
def test_invalid_graphs(text, words, tmp_path):
    proto = model(text)
    for ref in (proto, write(tmp_path / "m.onnx", proto)):
        with pytest.raises(UsageError, match=f"(?s){words}"):
            load_network(ref)


def test_truncated_at_any_place(tmp_path):
    proto = model("g (float[1,64] x) => (float[1,64] y) { y = Relu(x) }")
    proto.graph.initializer.append(
        numpy_helper.from_array(np.random.default_rng(0).random(64, "float32"), "w")
    )
    data = proto.SerializeToString()
    path = tmp_path / "m.onnx"
    for length in range(0, len(data), 13):
        path.write_bytes(data[:length])
        with pytest.raises(UsageError, match=r"m\.onnx"):
            load_network(path)


def test_random_bytes_never_escape_as_another_error(tmp_path):
    source = np.random.default_rng(1)
    path = tmp_path / "m.onnx"
    data = bytearray(model("g (float[1,64] x) => (float[1,64] y) { y = Relu(x) }").SerializeToString())
    for _ in range(400):
        changed = bytearray(data)
        for at in source.integers(0, len(data), 3):
            changed[at] = source.integers(0, 256)
        path.write_bytes(bytes(changed))
        try:
            net = load_network(path)
        except UsageError:
            continue
        assert isinstance(net, OnnxNetwork)


def test_sequences_are_refused_in_words():
    proto = model("g (seq(float[1]) x) => (float[1] y) <int64 i = {0}> { y = SequenceAt(x, i) }")
    with pytest.raises(UsageError, match="x is a sequence"):
        load_network(proto)


def test_gathers_on_weights_bound_their_indices():
    table = numpy_helper.from_array(np.zeros((30, 2), "float32"), "table")
    proto = model("g (int32[1,4] ids) => (float[1,4,2] y) { c = Cast<to=7>(ids)  y = Gather(table, c) }")
    proto.graph.initializer.append(table)
    assert load_network(proto).bounds() == {"ids": (0, 29)}
    proto = model(
        "g (int32[1,4] ids) => (float[1,4,7] y) "
        "{ d = Constant<value = int64 {7}>()  v = Constant<value = float[2] {0, 1}>()"
        "  y = OneHot(ids, d, v) }"
    )
    assert load_network(proto).bounds() == {"ids": (0, 6)}


def test_shapes_can_be_stated(tmp_path):
    proto = model("g (float[n,3,h,w] x) => (float[n,3,h,w] y) { y = Relu(x) }")
    assert load_network(proto, shape={"x": (1, 3, 8, 9)}).signature.inputs[0].shape == (1, 3, 8, 9)
    assert load_network(proto, shape=(1, 3, 8, 9)).signature.outputs[0].shape == (1, 3, 8, 9)
    with pytest.raises(UsageError, match="fixed at 3"):
        load_network(proto, shape=(1, 4, 8, 9))


def test_published_models_load():
    found = sorted(need_data().rglob("*.onnx"))
    assert found
    for path in found:
        net = load_network(path)
        assert net.signature.inputs and net.signature.outputs and net.parameters > 1000
