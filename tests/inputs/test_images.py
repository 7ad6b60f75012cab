"""Pictures in: every mode of Pillow, orientation, size, layout, and what goes wrong."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from twinnet.errors import UsageError
from twinnet.inputs import load_inputs
from twinnet.inputs.images import read_image
from twinnet.signature import Signature, TensorSpec


def signature(*shape, dtype="float32", name="x") -> Signature:
    return Signature((TensorSpec(name, dtype, shape or None),))


def ramp(height: int, width: int, channels: int = 3) -> np.ndarray:
    """A picture in which every pixel is different enough to notice a flip or a swap."""
    y, x = np.mgrid[:height, :width]
    planes = [x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), (x + y) % 256, 255 - x]
    return np.stack(planes[:channels], axis=-1).astype("uint8")


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(3):
        Image.fromarray(np.roll(ramp(12, 20), i, axis=1)).save(folder / f"{i}.png")
    (folder / "notes.txt").write_text("not a picture")
    (folder / ".DS_Store").write_bytes(b"\0")
    return folder


def test_a_folder_in_the_networks_layout(photos):
    inputs = load_inputs(signature(1, 3, 12, 20), [str(photos)])
    assert len(inputs.samples) == 3
    x = inputs.samples[0]["x"]
    assert x.dtype == np.float32 and x.shape == (1, 3, 12, 20)
    assert np.array_equal(x[0].transpose(1, 2, 0), ramp(12, 20).astype("float32") / np.float32(255))
    assert inputs.info.description == "3 real images, RGB [0,1] 1x3x12x20"
    assert inputs.info.preprocessing == "RGB, not resized, [0,1], NCHW"
    assert not inputs.info.synthetic and inputs.info.samples == 3
    assert inputs.info.shapes == {"x": "1x3x12x20"}
    assert [np.array_equal(a["x"], b["x"]) for a, b in zip(inputs.samples, inputs.samples)] == [True] * 3
    assert np.array_equal(inputs.samples[-1]["x"], inputs.samples[2]["x"])
    with pytest.raises(IndexError):
        inputs.samples[3]


def test_channels_last_gray_and_bytes(photos):
    nhwc = load_inputs(signature(1, 12, 20, 3), [str(photos)]).samples[0]["x"]
    assert np.allclose(nhwc[0], ramp(12, 20) / 255)
    gray = load_inputs(signature(1, 1, 12, 20), [str(photos)])
    assert gray.samples[0]["x"].shape == (1, 1, 12, 20) and "gray" in gray.info.description
    raw = load_inputs(signature(1, 3, 12, 20, dtype="uint8"), [str(photos)])
    assert np.array_equal(raw.samples[0]["x"][0].transpose(1, 2, 0), ramp(12, 20))
    assert "0..255" in raw.info.preprocessing
    chw = load_inputs(signature(3, 16, 20), [str(photos)])
    assert chw.samples[0]["x"].shape == (3, 16, 20)


def test_resizing_is_pillows_bicubic_and_says_that_aspect_is_not_kept(photos):
    inputs = load_inputs(signature(1, 3, 6, 6), [str(photos)])
    expected = np.asarray(Image.fromarray(ramp(12, 20)).resize((6, 6), Image.Resampling.BICUBIC)) / 255
    assert np.allclose(inputs.samples[0]["x"][0].transpose(1, 2, 0), expected, atol=1e-6)
    assert inputs.info.preprocessing == "RGB, resized to 6x6 (bicubic, aspect not kept), [0,1], NCHW"
    kept = load_inputs(signature(1, 3, 6, 10), [str(photos)])
    assert kept.info.preprocessing == "RGB, resized to 10x6 (bicubic), [0,1], NCHW"


def test_dynamic_sizes_come_from_the_pictures(photos):
    inputs = load_inputs(signature("n", 3, "h", "w"), [str(photos)])
    assert inputs.signature.inputs[0].shape == (1, 3, 12, 20)
    assert load_inputs(signature(), [str(photos)]).samples[0]["x"].shape == (1, 3, 12, 20)
    stated = load_inputs(signature("n", 3, "h", "w"), [str(photos)], shapes={"x": (1, 3, 8, 8)})
    assert stated.samples[0]["x"].shape == (1, 3, 8, 8)


def test_mixed_sizes_need_a_stated_size(photos):
    Image.fromarray(ramp(9, 9)).save(photos / "z.png")
    with pytest.raises(UsageError, match=r"2 different sizes, 20x12 \(0\.png\), 9x9 \(z\.png\)") as caught:
        load_inputs(signature(1, 3, "h", "w"), [str(photos)])
    assert "--shape x=1x3x12x20" in str(caught.value)
    assert len(load_inputs(signature(1, 3, 8, 8), [str(photos)]).samples) == 4


def test_a_fixed_batch_takes_several_pictures(photos):
    inputs = load_inputs(signature(2, 3, 12, 20), [str(photos)])
    assert len(inputs.samples) == 2
    assert inputs.samples[0]["x"].shape == (2, 3, 12, 20)
    assert not np.array_equal(inputs.samples[0]["x"][0], inputs.samples[0]["x"][1])


def test_only_so_many(photos):
    inputs = load_inputs(signature(1, 3, 12, 20), [str(photos)], samples=2)
    assert len(inputs.samples) == 2 and inputs.info.description.startswith("2 real images")


def test_one_image_and_two_sources(photos):
    one = load_inputs(signature(1, 3, 12, 20), [str(photos / "1.png")])
    assert one.info.description == "1 real image, RGB [0,1] 1x3x12x20"
    both = load_inputs(signature(1, 3, 12, 20), [str(photos / "1.png"), str(photos / "2.png")])
    assert len(both.samples) == 2


def test_exif_orientation_is_respected(tmp_path):
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(ramp(8, 24)).save(tmp_path / f"{orientation}.png", exif=exif)
    upright = read_image(tmp_path / "1.png")
    assert np.allclose(read_image(tmp_path / "3.png"), upright[::-1, ::-1])
    assert np.allclose(read_image(tmp_path / "6.png"), np.rot90(upright, -1))
    assert read_image(tmp_path / "8.png").shape == (24, 8, 3)
    inputs = load_inputs(signature(1, 3, "h", "w"), [str(tmp_path / "6.png")])
    assert inputs.signature.inputs[0].shape == (1, 3, 24, 8)


def test_every_mode(tmp_path):
    base = Image.fromarray(ramp(10, 10))
    base.convert("L").save(tmp_path / "gray.png")
    base.convert("P").save(tmp_path / "palette.png")
    base.convert("1").save(tmp_path / "bits.png")
    base.convert("CMYK").save(tmp_path / "cmyk.tif")
    base.save(tmp_path / "lossy.webp", quality=100)
    deep = (np.arange(100, dtype="uint16").reshape(10, 10) * 655).astype("uint16")
    Image.fromarray(deep).save(tmp_path / "deep.png")
    gray = read_image(tmp_path / "gray.png")
    assert np.array_equal(gray[..., 0], gray[..., 2])
    assert np.allclose(read_image(tmp_path / "cmyk.tif"), ramp(10, 10) / 255, atol=2 / 255)
    assert np.allclose(read_image(tmp_path / "deep.png")[..., 1], deep / 65535, atol=1e-6)
    assert read_image(tmp_path / "deep.png", 4)[..., 3].min() == 1
    for name in ("palette.png", "bits.png", "lossy.webp"):
        assert read_image(tmp_path / name).shape == (10, 10, 3)
    resized = read_image(tmp_path / "deep.png", 1, (5, 5))
    assert resized.min() >= 0 and resized.max() <= 1 and resized.shape == (5, 5, 1)


def test_transparency_is_laid_on_white(tmp_path):
    pixels = np.zeros((4, 4, 4), "uint8")
    pixels[:2, :, 3] = 255
    Image.fromarray(pixels).save(tmp_path / "a.png")
    image = read_image(tmp_path / "a.png")
    assert image[:2].max() == 0 and image[2:].min() == 1
    assert read_image(tmp_path / "a.png", 4)[..., 3].tolist()[3] == [0, 0, 0, 0]


@pytest.mark.parametrize("mode", ["F", "I"])
def test_pixels_of_unknown_range_are_refused(tmp_path, mode):
    Image.fromarray(np.ones((4, 4), {"F": "float32", "I": "int32"}[mode])).save(tmp_path / "a.tif")
    with pytest.raises(UsageError, match="range is unknown"):
        load_inputs(signature(1, 3, 4, 4), [str(tmp_path / "a.tif")])


def test_unreadable_pictures_are_named(photos):
    (photos / "broken.jpg").write_bytes(b"\xff\xd8\xff not really")
    with pytest.raises(UsageError, match=r"broken\.jpg cannot be read as an image"):
        load_inputs(signature(1, 3, 12, 20), [str(photos)])
    (photos / "broken.jpg").unlink()
    data = (photos / "0.png").read_bytes()
    (photos / "0.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(UsageError, match=r"0\.png cannot be read as an image"):
        load_inputs(signature(1, 3, 12, 20), [str(photos)])


def test_folders_without_pictures(tmp_path):
    with pytest.raises(UsageError, match="is empty"):
        load_inputs(signature(1, 3, 8, 8), [str(tmp_path)])
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(UsageError, match=r"no arrays \(it holds "):
        load_inputs(signature(1, 3, 8, 8), [str(tmp_path)])


def test_pictures_for_an_input_that_takes_none(photos):
    with pytest.raises(UsageError, match=r"input x \(int64 1x12\) does not take pictures"):
        load_inputs(signature(1, 12, dtype="int64"), [str(photos)])
    with pytest.raises(UsageError, match="--preprocess"):
        load_inputs(signature(1, 12, 5, 5), [str(photos)])


def test_pictures_go_to_the_only_input_that_can_take_them(photos, tmp_path):
    both = Signature((TensorSpec("size", "int64", (2,)), TensorSpec("image", "float32", (1, 3, 12, 20))))
    np.save(tmp_path / "size.npy", np.array([12, 20]))
    inputs = load_inputs(both, [str(photos), f"size={tmp_path / 'size.npy'}"])
    assert list(inputs.samples[2]) == ["size", "image"] and len(inputs.samples) == 3


def test_a_preprocessing_function_gets_the_path(photos, tmp_path):
    (tmp_path / "prep.py").write_text(
        "import numpy as np\nfrom PIL import Image\n"
        "def bgr(path):\n"
        "    return np.asarray(Image.open(path), 'float32')[None, :, :, ::-1].transpose(0, 3, 1, 2) / 255\n"
        "def named(path):\n    return {'x': bgr(path)}\n"
        "def nothing(path):\n    pass\n"
        "def wrong(path):\n    return np.zeros((1, 3, 2, 2), 'float32')\n"
        "def fails(path):\n    raise KeyError(path.name)\n"
    )
    plain = load_inputs(signature(1, 3, 12, 20), [str(photos)]).samples[0]["x"]
    for name in ("bgr", "named"):
        inputs = load_inputs(signature(1, 3, 12, 20), [str(photos)], preprocess=f"{tmp_path}/prep.py:{name}")
        assert np.allclose(inputs.samples[0]["x"], plain[:, ::-1])
        assert inputs.info.preprocessing == f"by {name}"
    for name, words in {
        "nothing": "returned nothing",
        "wrong": r"0\.png after wrong: input x is 1x3x12x20; 1x3x2x2 was given",
        "fails": r"prep\.py:12: preprocessing function fails raised KeyError: '0\.png'",
    }.items():
        with pytest.raises(UsageError, match=words):
            load_inputs(signature(1, 3, 12, 20), [str(photos)], preprocess=f"{tmp_path}/prep.py:{name}")
