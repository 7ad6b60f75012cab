"""Arrays, Python samples and named sources, and each way in which they can be wrong."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from twinnet.errors import UsageError
from twinnet.inputs import load_inputs
from twinnet.signature import Signature, TensorSpec

X = Signature((TensorSpec("x", "float32", (1, 4)),))
TWO = Signature((TensorSpec("ids", "int64", ("batch", 3)), TensorSpec("mask", "float32", ("batch", 3))))
FREE = Signature((TensorSpec("x", "float32", None),))


def rows(count: int) -> np.ndarray:
    return np.arange(count * 4, dtype="float32").reshape(count, 4)


def two(batch: int = 2) -> dict[str, np.ndarray]:
    return {"ids": np.arange(batch * 3).reshape(batch, 3), "mask": np.ones((batch, 3), "float32")}


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors"])
def test_array_files(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    if suffix == "npy":
        np.save(path, rows(1))
    elif suffix == "npz":
        np.savez(path, x=rows(1))
    else:
        save_file({"x": rows(1)}, path)
    inputs = load_inputs(X, [str(path)])
    assert np.array_equal(inputs.samples[0]["x"], rows(1))
    assert inputs.info.description == f"1 sample from {path}, 1x4"
    assert not inputs.notes


def test_a_leading_axis_holds_samples(tmp_path):
    np.save(tmp_path / "rows.npy", rows(5))
    inputs = load_inputs(X, [str(tmp_path / "rows.npy")])
    assert len(inputs.samples) == 5 and inputs.samples[3]["x"].tolist() == rows(5)[3:4].tolist()
    np.save(tmp_path / "stack.npy", rows(5)[:, None])
    assert load_inputs(X, [str(tmp_path / "stack.npy")]).samples[4]["x"].shape == (1, 4)
    assert len(load_inputs(X, [str(tmp_path / "rows.npy")], samples=2).samples) == 2
    dynamic = Signature((TensorSpec("x", "float32", ("n", 4)),))
    assert load_inputs(dynamic, [str(tmp_path / "rows.npy")]).samples[0]["x"].shape == (5, 4)


def test_several_inputs_in_one_file_and_by_name(tmp_path):
    np.savez(tmp_path / "both.npz", **two())
    np.savez(tmp_path / "unnamed.npz", *two().values())
    for name, array in two().items():
        np.save(tmp_path / f"{name}.npy", array)
    sources = (
        [str(tmp_path / "both.npz")],
        [str(tmp_path / "unnamed.npz")],
        [f"mask={tmp_path}/mask.npy", f"ids={tmp_path}/ids.npy"],
        [f"mask={tmp_path}/mask.npy", f"{tmp_path}/ids.npy"],
    )
    for source in sources:
        inputs = load_inputs(TWO, source)
        assert list(inputs.samples[0]) == ["ids", "mask"]
        assert np.array_equal(inputs.samples[0]["ids"], two()["ids"])
        assert inputs.info.shapes == {"ids": "2x3", "mask": "2x3"}
        assert [s.shape for s in inputs.signature.inputs] == [(2, 3), (2, 3)]


def test_a_folder_of_arrays_is_one_sample_each(tmp_path):
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", rows(1) + i)
    inputs = load_inputs(X, [str(tmp_path)])
    assert [float(s["x"][0, 0]) for s in inputs.samples] == [0, 1, 2]
    assert inputs.info.source == str(tmp_path)


def test_a_file_whose_name_has_an_equals_sign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x=1.npy", rows(1))
    assert len(load_inputs(X, ["x=1.npy"]).samples) == 1
    assert len(load_inputs(X, ["x=x=1.npy"]).samples) == 1


@pytest.mark.parametrize(
    "value",
    [
        rows(1),
        torch.from_numpy(rows(1)),
        {"x": rows(1)},
        (rows(1),),
        [rows(1)],
        [{"x": torch.from_numpy(rows(1))}],
        rows(1).tolist(),
        (item for item in [rows(1)]),
        lambda: [rows(1)],
    ],
    ids=["array", "tensor", "dict", "tuple", "list", "list of dicts", "numbers", "generator", "function"],
)
def test_python_objects(value):
    inputs = load_inputs(X, value)
    assert len(inputs.samples) == 1
    for _ in range(2):
        assert np.array_equal(inputs.samples[0]["x"], rows(1))


def test_nested_python_samples_go_by_path_and_position():
    nested = Signature(
        (
            TensorSpec("batch.image", "float32", (2,)),
            TensorSpec("batch.pair.0", "float32", (1,)),
            TensorSpec("scale", "float32", ()),
        )
    )
    batch = {"image": np.ones(2, "float32"), "pair": (np.zeros(1, "float32"),)}
    for sample in ({"batch": batch, "scale": np.float32(2)}, (batch, np.float32(2))):
        inputs = load_inputs(nested, sample)
        assert {k: v.tolist() for k, v in inputs.samples[0].items()} == {
            "batch.image": [1, 1],
            "batch.pair.0": [0],
            "scale": 2,
        }


def test_a_generator_in_a_file(tmp_path):
    (tmp_path / "data.py").write_text(
        "import itertools\nimport numpy as np\n"
        "def samples():\n    for i in range(3):\n        yield {'x': np.full((1, 4), i, 'float32')}\n"
        "def endless():\n    for i in itertools.count():\n        yield np.full((1, 4), i, 'float32')\n"
        "def breaks():\n    yield np.zeros((1, 4), 'float32')\n    raise OSError('disk gone')\n"
        "def empty():\n    return []\n"
        "def number():\n    return None\n"
        "ready = [np.zeros((1, 4), 'float32')] * 2\n"
    )
    place = f"{tmp_path}/data.py"
    inputs = load_inputs(X, [f"{place}:samples"])
    assert [s["x"][0, 0] for s in inputs.samples] == [0, 1, 2] and inputs.samples[1]["x"][0, 0] == 1
    assert len(load_inputs(X, [f"x={place}:samples"], samples=2).samples) == 2
    assert len(load_inputs(X, [f"{place}:ready"]).samples) == 2
    endless = load_inputs(X, [f"{place}:endless"])
    assert len(endless.samples) == 100 and "first 100 samples" in endless.notes[0]
    assert len(load_inputs(X, [f"{place}:endless"], samples=7).samples) == 7
    for name, words in {
        "breaks": r"data\.py:11: .*OSError: disk gone",
        "empty": "gave no samples",
        "number": "gave NoneType, not samples",
        "sample": "did you mean samples",
    }.items():
        with pytest.raises(UsageError, match=words):
            load_inputs(X, [f"{place}:{name}"])


def test_a_preprocessing_function_gets_the_array(tmp_path):
    np.save(tmp_path / "a.npy", rows(1).astype("int16"))
    inputs = load_inputs(X, [str(tmp_path / "a.npy")], preprocess=lambda a: a.astype("float32") * 2)
    assert np.array_equal(inputs.samples[0]["x"], rows(1) * 2)


@pytest.mark.parametrize(
    ("given", "wanted", "note"),
    [
        (np.float64, "float32", "x: float64 cast to float32"),
        (np.float32, "float16", "x: float32 cast to float16"),
        (np.float32, "bfloat16", "x: float32 cast to bfloat16"),
        (ml_dtypes.bfloat16, "float32", "x: bfloat16 cast to float32"),
        (np.int64, "int32", "x: int64 cast to int32"),
        (np.uint8, "int64", "x: uint8 cast to int64"),
    ],
)
def test_casts_that_lose_nothing_that_matters_are_noted(given, wanted, note):
    inputs = load_inputs(Signature((TensorSpec("x", wanted, (2,)),)), np.array([1, 2], given))
    assert inputs.samples[0]["x"].dtype.name == wanted
    assert inputs.samples[0]["x"].tolist() == [1, 2] and inputs.notes == (note,)


@pytest.mark.parametrize(
    ("value", "wanted", "words"),
    [
        (np.array([1, 300]), "uint8", "int64 values from 1 to 300 do not fit"),
        (np.array([-1, 3]), "uint64", "values from -1 to 3 do not fit"),
        (np.array([1.5, 2]), "int64", "takes int64, float64 was given"),
        (np.array([1, 2]), "float32", "takes float32, int64 was given"),
        (np.array([True, False]), "float32", "takes float32, bool was given"),
        (np.array([0, 1]), "bool", "takes bool, int64 was given"),
        (np.array(["a", "b"]), "float32", "takes float32"),
        (np.array([1e30, 1]), "float16", "values that float16 cannot represent"),
    ],
)
def test_casts_that_would_change_values_are_refused(value, wanted, words):
    with pytest.raises(UsageError, match=words):
        load_inputs(Signature((TensorSpec("x", wanted, (2,)),)), value)


def test_byte_pictures_in_arrays_are_scaled(tmp_path):
    np.save(tmp_path / "a.npy", np.full((1, 3, 4, 4), 51, "uint8"))
    inputs = load_inputs(Signature((TensorSpec("x", "float32", (1, 3, 4, 4)),)), [str(tmp_path / "a.npy")])
    assert np.allclose(inputs.samples[0]["x"], 0.2) and inputs.notes == ("x: uint8 pixels scaled to [0,1]",)


def test_bfloat16_survives_npy(tmp_path):
    np.save(tmp_path / "a.npy", np.array([1.5, 2], ml_dtypes.bfloat16))
    inputs = load_inputs(Signature((TensorSpec("x", "bfloat16", (2,)),)), [str(tmp_path / "a.npy")])
    assert inputs.samples[0]["x"].astype("float32").tolist() == [1.5, 2]


def test_an_input_of_unknown_rank_takes_integers_as_they_are():
    assert load_inputs(FREE, np.array([[1, 2]])).samples[0]["x"].dtype == np.int64
    assert load_inputs(FREE, np.array([[1.0, 2]])).samples[0]["x"].dtype == np.float32


def test_nan_is_allowed_and_noted():
    inputs = load_inputs(X, np.array([[1, np.nan, np.nan, 2]], "float32"))
    assert inputs.notes == ("the given inputs: input x holds 2 NaN",)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros((1, 2, 2), "float32"), r"has 2 dimensions \(1x4\), 3 were given \(1x2x2\)"),
        (np.zeros(4, "float32"), r"has 2 dimensions \(1x4\), 1 were given \(4\)"),
        (np.zeros((1, 5), "float32"), r"is 1x4; 1x5 was given \(dimension 1 is 5, not 4\)"),
        (np.zeros((0, 4), "float32"), "holds no samples"),
        ({"y": np.zeros((1, 4))}, "no input 'y'"),
        ({}, "input x .* is missing"),
        ((np.zeros((1, 4)), np.zeros(1)), "2 values for 1 inputs"),
        ({"x": object()}, "holds Python objects"),
        ({"x": [[1, 2], [3]]}, "not an array"),
    ],
)
def test_samples_that_do_not_fit(value, words):
    with pytest.raises(UsageError, match=words):
        load_inputs(X, value)


def test_dimensions_of_one_name_must_agree():
    wrong = two() | {"mask": np.ones((3, 3), "float32")}
    with pytest.raises(UsageError, match="dimension batch is 2 in input ids and 3 in input mask"):
        load_inputs(TWO, wrong)


def test_files_that_do_not_fit(tmp_path):
    cases = {
        "object.npy": (
            "holds Python objects",
            lambda p: np.save(p, np.array([{}], object), allow_pickle=True),
        ),
        "object.npz": ("holds Python objects", lambda p: np.savez(p, x=np.array([{}], object))),
        "cut.npy": ("cannot be read as .npy data", lambda p: p.write_bytes(b"\x93NUMPY\x01\0")),
        "text.npz": ("is not a readable .npz file", lambda p: p.write_bytes(b"hello")),
        "cut.safetensors": ("cannot be read as .safetensors data", lambda p: p.write_bytes(b"\1")),
        "other.npz": ("no input 'y'", lambda p: np.savez(p, y=rows(1), z=rows(1))),
        "wide.npy": (
            r"wide\.npy: input x is 1x4; 1x9 was given",
            lambda p: np.save(p, np.zeros((1, 9), "float32")),
        ),
    }
    for name, (words, write) in cases.items():
        write(tmp_path / name)
        with pytest.raises(UsageError, match=words) as caught:
            load_inputs(X, [str(tmp_path / name)])
        assert name in str(caught.value)


def test_sources_that_do_not_fit_the_network(tmp_path):
    for name, array in two().items():
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "many.npy", np.zeros((4, 2, 3), "int64"))
    np.save(tmp_path / "few.npy", np.zeros((3, 2, 3), "float32"))
    for sources, words in (
        ([f"{tmp_path}/ids.npy"], "one array for 2 inputs"),
        ([f"ids={tmp_path}/ids.npy"], "input mask .* is missing"),
        ([f"idz={tmp_path}/ids.npy"], "did you mean ids"),
        ([f"ids={tmp_path}/many.npy", f"mask={tmp_path}/few.npy"], "different numbers of samples"),
        ([f"{tmp_path}/missing.npy"], "no such inputs"),
        (
            [f"ids={tmp_path}/ids.npy", f"mask={tmp_path}/mask.npy", f"{tmp_path}/ids.npy"],
            "already given by name",
        ),
    ):
        with pytest.raises(UsageError, match=words):
            load_inputs(TWO, sources)


def test_mixed_folders_are_refused(tmp_path):
    from PIL import Image

    np.save(tmp_path / "a.npy", rows(1))
    Image.new("RGB", (4, 4)).save(tmp_path / "b.png")
    with pytest.raises(UsageError, match="both images"):
        load_inputs(X, [str(tmp_path)])


def test_samples_of_different_shapes_are_told(tmp_path):
    free = Signature((TensorSpec("x", "float32", (1, "n")),))
    inputs = load_inputs(free, [np.zeros((1, 2), "float32"), np.zeros((1, 3), "float32")])
    assert inputs.info.shapes == {"x": "varies"} and inputs.signature == free


def test_not_even_one_sample():
    with pytest.raises(UsageError, match="at least 1"):
        load_inputs(X, samples=0)


def test_byte_order_and_memory_order_do_not_matter(tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray(rows(1).astype(">f4")))
    inputs = load_inputs(X, [str(tmp_path / "a.npy")])
    assert inputs.samples[0]["x"].dtype == np.dtype("float32") and not inputs.notes
    assert np.array_equal(inputs.samples[0]["x"], rows(1))


def test_nested_python_samples_for_a_module_without_an_example():
    from tests.nets import NETS
    from twinnet.inputs import python_sample
    from twinnet.network import load_network

    module, args, kwargs = NETS["dict_io"]()
    samples = [{"batch": {k: v[:n] for k, v in args[0].items()}, **kwargs} for n in (2, 1)]
    net = load_network(module).with_example(python_sample(samples))
    inputs = load_inputs(net.signature, samples)
    assert inputs.info.shapes["batch.text"] == "varies"
    for sample, n in zip(inputs.samples, (2, 1)):
        assert net.call(sample)["logits"].shape == (n, n)
    assert python_sample(None) is None and python_sample([[1, 2]]) is None
