"""Made-up samples: what they look like, and that they are the same everywhere."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinnet.errors import UsageError
from twinnet.inputs import load_inputs, synthesise
from twinnet.inputs.synthetic import kind_of, suggest_shape
from twinnet.signature import Signature, TensorSpec


def make(*specs: TensorSpec, index: int = 0, **options) -> dict[str, np.ndarray]:
    return synthesise(Signature(specs), index, **options)


def test_pictures_have_a_falling_spectrum_edges_and_related_colours():
    x = make(TensorSpec("x", "float32", (1, 3, 256, 256)))["x"][0].astype("float64")
    assert x.min() >= 0 and x.max() <= 1 and x.std() > 0.1
    levels = x * 255
    assert np.allclose(levels, np.rint(levels), atol=1e-4)
    light = x.mean(0) - x.mean()
    power = np.abs(np.fft.fft2(light)) ** 2
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(256), np.fft.fftfreq(256)))
    bands = [power[(frequency >= a) & (frequency < 2 * a)].mean() for a in (1 / 128, 1 / 32, 1 / 8)]
    assert bands[0] > 5 * bands[1] > 25 * bands[2], "white noise would be flat"
    assert np.abs(np.diff(light, axis=1)).max() > 6 * np.abs(np.diff(light, axis=1)).mean(), "no edges"
    assert np.corrcoef(x[0].ravel(), x[1].ravel())[0, 1] > 0.5


def test_layouts_and_bytes():
    first = make(TensorSpec("x", "float32", (1, 3, 16, 24)))["x"]
    last = make(TensorSpec("x", "float32", (1, 16, 24, 3)))["x"]
    assert np.array_equal(first[0].transpose(1, 2, 0), last[0])
    raw = make(TensorSpec("x", "uint8", (1, 16, 24, 3)))["x"]
    assert np.array_equal(raw[0], np.rint(last[0] * 255))
    batch = make(TensorSpec("x", "float32", (3, 1, 8, 8)))["x"]
    assert not np.array_equal(batch[0], batch[1])


def test_sound_is_bounded_correlated_and_not_silent():
    for shape in ((1, 16000), (2, 1, 16000), (1, 43844, 1)):
        x = make(TensorSpec("audio", "float32", shape))["audio"]
        wave = x.reshape(-1)[:16000].astype("float64")
        assert np.abs(wave).max() <= 1 and wave.std() > 0.02
        assert np.corrcoef(wave[1:], wave[:-1])[0, 1] > 0.5


def test_integers_bools_rates_and_states():
    sample = make(
        TensorSpec("ids", "int64", (4, 50)),
        TensorSpec("attention_mask", "int64", (1, 50)),
        TensorSpec("flag", "bool", (3, 3)),
        TensorSpec("sr", "int64", ()),
        TensorSpec("state", "float32", (2, 1, 128)),
        TensorSpec("features", "float32", (1, 80)),
        bounds={"ids": (5, 9)},
    )
    assert sample["ids"].min() == 5 and sample["ids"].max() == 9 and sample["ids"].dtype == np.int64
    assert set(np.unique(sample["attention_mask"])) <= {0, 1}
    assert sample["flag"].dtype == bool
    assert sample["sr"].shape == () and sample["sr"] == 16000
    assert 0.05 < sample["state"].std() < 0.2
    assert 0.5 < sample["features"].std() < 1.5


def test_samples_differ_and_repeat():
    spec = TensorSpec("x", "float32", (1, 3, 32, 32))
    assert np.array_equal(make(spec)["x"], make(spec)["x"])
    assert not np.array_equal(make(spec)["x"], make(spec, index=1)["x"])
    assert not np.array_equal(make(spec)["x"], make(spec, seed=1)["x"])
    a, b = TensorSpec("a", "float32", (1, 9)), TensorSpec("b", "float32", (1, 9))
    assert not np.array_equal(*make(a, b).values())


def test_the_same_bytes_on_every_machine():
    sample = make(
        TensorSpec("x", "float32", (1, 3, 40, 56)),
        TensorSpec("audio", "float32", (1, 4000)),
        TensorSpec("ids", "int64", (1, 32)),
        TensorSpec("z", "float32", (4, 5)),
        seed=7,
    )
    digests = {k: hashlib.sha256(v.tobytes()).hexdigest()[:12] for k, v in sample.items()}
    assert digests == {
        "x": "8c8be0d22225",
        "audio": "8f10e8ed3336",
        "ids": "01f5c250e705",
        "z": "8e520a3f324b",
    }


def test_the_default_is_two_different_samples_said_to_be_synthetic():
    inputs = load_inputs(Signature((TensorSpec("x", "float32", (1, 3, 8, 8)),)), seed=4)
    assert inputs.info.synthetic and inputs.info.description == "2 synthetic samples, seed 4, 1x3x8x8"
    assert len(inputs.samples) == 2
    assert not np.array_equal(inputs.samples[0]["x"], inputs.samples[1]["x"])
    assert len(load_inputs(Signature((TensorSpec("x", "float32", (1, 3, 8, 8)),)), samples=5).samples) == 5


def test_a_stated_value_stays_and_the_rest_is_made():
    signature = Signature((TensorSpec("x", "float32", (1, 512)), TensorSpec("sr", "int64", ())))
    inputs = load_inputs(signature, ["sr=8000"])
    assert [int(s["sr"]) for s in inputs.samples] == [8000, 8000] and inputs.info.synthetic
    assert "sr given" in inputs.info.description
    with pytest.raises(UsageError, match="input sr takes int64, float64 was given"):
        load_inputs(signature, ["sr=8000.5"])


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            TensorSpec("x", "float32", ("n", 3, "h", "w")),
            r"dimension 0 \(n\) of input x.*--shape x=1x3x640x640",
        ),
        (TensorSpec("x", "float32", (1, "t")), r"dimension 1 \(t\) of input x.*--shape x=1x16000"),
        (TensorSpec("ids", "int64", (1, "?")), r"dimension 1 \(\?\) of input ids.*--shape ids=1x128"),
        (TensorSpec("x", "float32", None), r"shape of input x is unknown.*--shape x=1x3x224x224"),
    ],
)
def test_dynamic_dimensions_are_never_guessed(spec, words):
    with pytest.raises(UsageError, match=f"(?s){words}"):
        load_inputs(Signature((spec,)))


def test_the_suggestion_can_be_used():
    spec = TensorSpec("x", "float32", ("n", 3, "h", "w"))
    inputs = load_inputs(Signature((spec,)), shapes={"x": suggest_shape(spec)}, samples=1)
    assert inputs.samples[0]["x"].shape == (1, 3, 640, 640)


def test_text_cannot_be_made_up_and_preprocessing_needs_data():
    with pytest.raises(UsageError, match="takes text"):
        load_inputs(Signature((TensorSpec("t", "str", (1,)),)))
    with pytest.raises(UsageError, match="--preprocess needs --inputs"):
        load_inputs(Signature((TensorSpec("x", "float32", (1,)),)), preprocess=lambda a: a)


def test_optional_inputs_are_left_out():
    spec = (TensorSpec("x", "float32", (1,)), TensorSpec("o", "float32", None, optional=True))
    assert list(load_inputs(Signature(spec)).samples[0]) == ["x"]


@given(
    st.sampled_from(
        ["float16", "float32", "float64", "bfloat16", "int8", "uint8", "int32", "int64", "bool", "complex64"]
    ),
    st.lists(st.integers(0, 9), max_size=5),
    st.sampled_from(["x", "image", "state", "mask", "sr", "audio"]),
)
@settings(max_examples=300, deadline=None)
def test_any_shape_and_dtype_can_be_made(dtype, shape, name):
    spec = TensorSpec(name, dtype, tuple(shape))
    array = make(spec)[name]
    assert array.shape == tuple(shape) and array.dtype.name == dtype
    assert kind_of(spec)
    assert load_inputs(Signature((spec,)), {name: array}).samples[0][name].dtype.name == dtype
