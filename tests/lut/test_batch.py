"""Image files, folders and videos in and out."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from PIL import Image

from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.errors import MissingExtra, UsageError
from twinnet.lut.batch import jobs, run_files
from twinnet.lut.pictures import read_picture
from twinnet.lut.png import write_png
from twinnet.lut.saving import Saving


@pytest.fixture(scope="module")
def model():
    return lut.LutModel(lut.lower(random_net("srlut-S")))


@pytest.fixture
def colour():
    return np.random.default_rng(0).integers(0, 256, (11, 13, 3), np.uint8)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_strips_are_what_pillow_reads(channels):
    image = np.random.default_rng(0).integers(0, 256, (10, 7, channels), np.uint8)
    buffer = io.BytesIO()
    write_png(buffer, 10, 7, channels, [image[:1], image[1:6], image[6:]])
    found = np.asarray(Image.open(buffer))
    assert np.array_equal(found.reshape(image.shape), image)
    with pytest.raises(UsageError, match="9 rows were given"):
        write_png(io.BytesIO(), 10, 7, channels, [image[:9]])


def test_a_folder_keeps_names(model, tmp_path, colour):
    source, out = tmp_path / "in", tmp_path / "new" / "out"
    source.mkdir()
    Image.fromarray(colour).save(source / "a.png")
    Image.fromarray(colour).save(source / "b.bmp")
    Image.fromarray(colour[..., 0]).save(source / "gray.tif")
    Image.fromarray(colour).save(source / "a.jpg")
    (source / "notes.txt").write_text("no image")
    (source / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    shares: list[float] = []
    outcome = run_files(model, source, out, lambda name, share: shares.append(share))
    assert sorted(p.name for p in out.iterdir()) == ["a.jpg.png", "a.png", "b.png", "gray.png"]
    assert [p.name for p in outcome.failed] == ["broken.png"] and shares[-1] == 1.0
    assert np.array_equal(np.asarray(Image.open(out / "b.png")), model(colour))
    assert np.array_equal(np.asarray(Image.open(out / "gray.png")), model(colour[..., 0]))


def test_alpha_palettes_and_bilevel(model, tmp_path, colour):
    # From 1: colours that nobody sees are replaced before the upscaling.
    alpha = np.linspace(1, 255, 11 * 13).reshape(11, 13, 1).astype(np.uint8)
    Image.fromarray(np.concatenate([colour, alpha], axis=2)).save(tmp_path / "rgba.png")
    run_files(model, tmp_path / "rgba.png", tmp_path / "out.png")
    found = Image.open(tmp_path / "out.png")
    assert found.mode == "RGBA" and np.array_equal(np.asarray(found)[..., :3], model(colour))
    resized = Image.fromarray(alpha[..., 0]).resize((26, 22), Image.Resampling.BICUBIC)
    assert np.array_equal(np.asarray(found)[..., 3], np.asarray(resized))
    palette = Image.fromarray(colour).quantize(8)
    palette.save(tmp_path / "p.png")
    assert np.array_equal(read_picture(tmp_path / "p.png").pixels, np.asarray(palette.convert("RGB")))
    Image.fromarray(colour[..., 0] > 128).save(tmp_path / "one.png")
    assert set(np.unique(read_picture(tmp_path / "one.png").pixels)) == {0, 255}


def test_sixteen_bits_are_refused(tmp_path):
    deep = np.arange(64, dtype=np.uint16).reshape(8, 8) * 900
    Image.fromarray(deep).save(tmp_path / "deep.png")
    Image.fromarray(deep).save(tmp_path / "deep.tif")
    Image.fromarray(deep.astype(np.float32)).save(tmp_path / "float.tif")
    cv2 = pytest.importorskip("cv2", reason="opencv writes 16-bit colour")
    cv2.imwrite(str(tmp_path / "colour.png"), np.stack([deep] * 3, axis=-1))
    for name in ("deep.png", "deep.tif", "float.tif", "colour.png"):
        with pytest.raises(UsageError, match="more than 8 bits"):
            read_picture(tmp_path / name)


def test_what_cannot_be_run(model, tmp_path, colour):
    Image.fromarray(colour).save(tmp_path / "a.png")
    cases = [
        (tmp_path / "missing.png", tmp_path / "o", "no such file"),
        (tmp_path / "a.png", tmp_path / "a.png", "the input itself"),
        (tmp_path / "a.png", tmp_path / "o.xyz", "cannot write images of type .xyz"),
    ]
    (tmp_path / "empty").mkdir()
    cases.append((tmp_path / "empty", tmp_path / "o", "holds no images"))
    for source, target, message in cases:
        with pytest.raises(UsageError, match=message):
            run_files(model, source, target)
    with pytest.raises(UsageError, match="is a file, but"):
        jobs(tmp_path, tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match="not a readable image"):
        run_files(model, tmp_path / "cut.png", tmp_path / "o.png")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "cut.png", "empty"] or not list(
        tmp_path.glob(".*")
    )


def test_other_formats(model, tmp_path, colour):
    Image.fromarray(colour).save(tmp_path / "a.png")
    run_files(model, tmp_path / "a.png", tmp_path / "b.bmp")
    assert np.array_equal(np.asarray(Image.open(tmp_path / "b.bmp")), model(colour))


def test_a_strip_never_holds_the_whole_of_a_large_image(model):
    small = lut.LutModel(model.plan, tile=64)
    image = np.random.default_rng(0).integers(0, 256, (300, 500), np.uint8)
    strips = list(small.strips(image))
    assert max(len(s) for s in strips) <= 2 * 64 and np.array_equal(np.concatenate(strips), model(image))


def test_videos_need_an_extra(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    (tmp_path / "a.mp4").write_bytes(b"")
    with pytest.raises(MissingExtra, match="twinnet\\[video\\]"):
        run_files(model, tmp_path / "a.mp4", tmp_path / "out")


def test_nothing_is_overwritten(model, tmp_path, colour):
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        Image.fromarray(colour).save(tmp_path / "in" / f"{name}.png")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.png").write_bytes(b"mine")
    with pytest.raises(UsageError, match=r"already exists\n.*--overwrite"):
        run_files(model, tmp_path / "in" / "a.png", tmp_path / "out" / "a.png")
    outcome = run_files(model, tmp_path / "in", tmp_path / "out")
    assert [p.name for p in outcome.kept] == ["a.png"] and [p.name for p in outcome.written] == ["b.png"]
    assert (tmp_path / "out" / "a.png").read_bytes() == b"mine"
    outcome = run_files(model, tmp_path / "in", tmp_path / "out", saving=Saving(overwrite=True))
    assert len(outcome.written) == 2 and not outcome.kept
    assert np.array_equal(np.asarray(Image.open(tmp_path / "out" / "a.png")), model(colour))


def test_a_model_for_every_file(model, tmp_path, colour):
    seen = []

    def choose(path):
        seen.append(path.name)
        return model

    Image.fromarray(colour).save(tmp_path / "a.png")
    Image.fromarray(colour).save(tmp_path / "b.jpg")
    run_files(choose, tmp_path, tmp_path / "out")
    assert seen == ["a.png", "b.jpg"]


def test_what_a_folder_holds_besides_is_named(model, tmp_path, colour):
    (tmp_path / "in" / "inner").mkdir(parents=True)
    Image.fromarray(colour).save(tmp_path / "in" / "a.png")
    (tmp_path / "in" / "notes.txt").write_text("words")
    (tmp_path / "in" / ".hidden").write_text("words")
    outcome = run_files(model, tmp_path / "in", tmp_path / "out")
    assert outcome.passed == ["inner/", "notes.txt"] and len(outcome.written) == 1


def test_results_do_not_go_among_the_inputs(model, tmp_path, colour):
    Image.fromarray(colour).save(tmp_path / "a.jpg")
    with pytest.raises(UsageError, match="is the folder of the inputs"):
        run_files(model, tmp_path, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.jpg"]


def test_names_that_would_be_equal_are_kept_apart(tmp_path):
    for name in ("a.png", "a.PNG", "a.jpg", "v.mkv", "v.avi", "w.mpg"):
        (tmp_path / name).touch()
    found = {path.name: result.name for path, result in jobs(tmp_path, tmp_path / "out")}
    assert found == {
        "a.png": "a.png",
        "a.PNG": "a.PNG.png",
        "a.jpg": "a.jpg.png",
        "v.mkv": "v.mkv",
        "v.avi": "v.avi.mkv",
        "w.mpg": "w.mkv",
    }
