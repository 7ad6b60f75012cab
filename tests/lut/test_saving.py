"""Pictures out of files and into files: everything a file says about its picture is said about the result."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageCms

from twinnet import models
from twinnet.errors import UsageError
from twinnet.lut.deep import run_deep
from twinnet.lut.model import load
from twinnet.lut.pictures import read_picture
from twinnet.lut.png import write_png
from twinnet.lut.saving import Saving, upscale_file


@pytest.fixture(scope="module")
def model():
    return load(models.find("sr", scale=2, quality="fast"))


@pytest.fixture(scope="module")
def same_size():
    return load(models.find("deblock", level=40))


@pytest.fixture
def colour():
    rows, columns = np.mgrid[:24, :40]
    return np.stack([rows * 9, columns * 6, (rows + columns) * 3], axis=-1).astype(np.uint8)


PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def _exif(orientation, size=(40, 24)):
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = orientation, "A camera"
    inner = exif.get_ifd(0x8769)
    inner[0xA002], inner[0xA003], inner[0x9003] = *size, "2020:01:02 03:04:05"
    return exif


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".tif"])
def test_profile_resolution_and_exif_are_kept_and_rotation_applied_once(model, tmp_path, colour, suffix):
    source, target = tmp_path / "a.jpg", tmp_path / f"b{suffix}"
    Image.fromarray(colour).save(
        source, quality=100, subsampling=0, icc_profile=PROFILE, dpi=(300, 300), exif=_exif(6)
    )
    upscale_file(model, source, target)
    with Image.open(target) as made:
        assert made.size == (48, 80)  # upright, and twice as large
        assert made.info.get("icc_profile") == PROFILE
        if suffix != ".webp":  # which has no place for it outside of EXIF
            assert [round(float(d)) for d in made.info["dpi"]] == [300, 300]
        exif = made.getexif()
        assert exif.get(0x0112, 1) == 1 and exif[0x010F] == "A camera"
        inner = exif.get_ifd(0x8769)
        assert (inner[0xA002], inner[0xA003], inner[0x9003]) == (48, 80, "2020:01:02 03:04:05")
        found = np.asarray(made.convert("RGB")).astype(int)
    turned = np.asarray(Image.open(source).transpose(Image.Transpose.ROTATE_270))
    assert np.abs(found - model(turned)).mean() < 1.5
    upscale_file(model, target, tmp_path / "again.png")
    assert Image.open(tmp_path / "again.png").size == (96, 160)  # not turned a second time


def test_a_profile_of_another_colour_space_is_not_kept(model, tmp_path, colour):
    Image.fromarray(colour[..., 0]).save(tmp_path / "gray.png", icc_profile=PROFILE)
    upscale_file(model, tmp_path / "gray.png", tmp_path / "out.png")
    assert "icc_profile" not in Image.open(tmp_path / "out.png").info


def test_jpeg_is_written_at_95_unless_said(model, tmp_path, colour):
    from twinnet.models.jpeg import quality_of

    Image.fromarray(colour).save(tmp_path / "a.png")
    upscale_file(model, tmp_path / "a.png", tmp_path / "b.jpg")
    upscale_file(model, tmp_path / "a.png", tmp_path / "c.jpg", saving=Saving(quality=60))
    assert quality_of(tmp_path / "b.jpg") == 95 and quality_of(tmp_path / "c.jpg") == 60


@pytest.mark.parametrize("suffix", [".jpg", ".bmp"])
def test_transparency_is_not_lost_in_silence(model, tmp_path, colour, suffix):
    alpha = np.full((24, 40, 1), 128, np.uint8)
    Image.fromarray(np.concatenate([colour, alpha], axis=2)).save(tmp_path / "a.png")
    with pytest.raises(UsageError, match=r"transparency.*\n.*\.png or \.webp"):
        upscale_file(model, tmp_path / "a.png", tmp_path / f"b{suffix}")
    assert not (tmp_path / f"b{suffix}").exists()
    upscale_file(model, tmp_path / "a.png", tmp_path / "b.webp")
    assert Image.open(tmp_path / "b.webp").mode == "RGBA"


def test_transparent_pixels_give_no_rim(model, tmp_path):
    image = np.zeros((24, 40, 4), np.uint8)  # black where nothing is seen
    image[6:18, 10:30] = (255, 120, 0, 255)
    Image.fromarray(image).save(tmp_path / "a.png")
    upscale_file(model, tmp_path / "a.png", tmp_path / "b.png")
    made = np.asarray(Image.open(tmp_path / "b.png")).astype(int)
    seen = made[..., 3] > 8
    assert 1000 < seen.sum() < 1200
    assert np.abs(made[seen][:, :3] - [255, 120, 0]).max() <= 2


def deep_png(path, samples, filters=None):
    """A PNG of 16 bits with any filters, written by hand."""
    rows, columns, channels = samples.shape
    data = samples.astype(">u2").tobytes()
    width, line = 2 * channels, 2 * channels * columns
    raw, above = bytearray(), bytes(line)
    for y in range(rows):
        row = data[y * line : (y + 1) * line]
        kind = 0 if filters is None else filters[y % len(filters)]
        raw.append(kind)
        for x in range(line):
            a, b = row[x - width] if x >= width else 0, above[x]
            c = above[x - width] if x >= width else 0
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            raw.append((row[x] - (0, a, b, (a + b) // 2, paeth)[kind]) % 256)
        above = row

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", columns, rows, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(raw)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_sixteen_bits_are_read_with_every_filter_and_written(tmp_path, channels):
    samples = np.random.default_rng(channels).integers(0, 65536, (11, 7, channels)).astype(np.uint16)
    deep_png(tmp_path / "a.png", samples, filters=(4, 3, 2, 1, 0))
    picture = read_picture(tmp_path / "a.png", deep=True)
    planes = picture.pixels[..., None] if picture.pixels.ndim == 2 else picture.pixels
    if picture.alpha is not None:
        planes = np.concatenate([planes, picture.alpha[..., None]], axis=2)
    assert np.array_equal(planes, samples)
    buffer = io.BytesIO()
    write_png(buffer, 11, 7, channels, [samples[:4], samples[4:]], deep=True)
    (tmp_path / "b.png").write_bytes(buffer.getvalue())
    again = read_picture(tmp_path / "b.png", deep=True)
    assert np.array_equal(again.pixels, picture.pixels)
    if channels == 1:  # what Pillow reads with all its bits
        assert np.array_equal(np.asarray(Image.open(tmp_path / "b.png")), samples[..., 0])


def test_sixteen_bits_in_and_out(model, same_size, tmp_path):
    ramp = np.linspace(20000, 24000, 64).astype(np.uint16)
    image = np.repeat(np.repeat(ramp[None], 16, axis=0)[..., None], 3, axis=2)
    deep_png(tmp_path / "ramp.png", image)
    upscale_file(model, tmp_path / "ramp.png", tmp_path / "out.png")
    made = read_picture(tmp_path / "out.png", deep=True)
    assert made.deep and made.pixels.shape == (32, 128, 3)
    # As fine as the input, not the 16 levels that 8 bits have here; and where it should be, to half a level of 8 bits.
    assert len(np.unique(made.pixels)) > 60
    inside = made.pixels[8:24, 16:-16, 0].astype(float)
    wanted = np.interp((np.arange(128) - 0.5) / 2, np.arange(64), ramp)[16:-16]
    assert np.abs(inside - wanted).max() < 100
    assert np.abs(inside - wanted).mean() < 30
    # Levels that 8 bits have, too, give what they give in 8 bits; flat areas keep any level.
    rough = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    assert np.array_equal(
        run_deep(model, rough.astype(np.uint16) * 257), model(rough).astype(np.uint16) * 257
    )
    for level in (0, 1, 20011, 65534, 65535):
        flat = np.full((9, 9), level, np.uint16)
        assert np.abs(run_deep(same_size, flat).astype(int) - level).max() <= 1


def test_sixteen_bits_into_formats_of_eight_are_rounded_and_gray_tiff_keeps_them(model, tmp_path):
    deep = (np.arange(24 * 40, dtype=np.uint16).reshape(24, 40) * 60).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "a.tif")
    upscale_file(model, tmp_path / "a.tif", tmp_path / "b.tif")
    made = np.asarray(Image.open(tmp_path / "b.tif"))
    assert made.dtype == np.uint16 and np.array_equal(made, run_deep(model, deep))
    upscale_file(model, tmp_path / "a.tif", tmp_path / "b.bmp")
    assert np.asarray(Image.open(tmp_path / "b.bmp")).dtype == np.uint8


def test_what_cannot_be_read_with_all_its_bits_is_refused(model, tmp_path):
    Image.fromarray(np.ones((8, 8), np.float32)).save(tmp_path / "float.tif")
    with pytest.raises(UsageError, match="32 bits per sample"):
        upscale_file(model, tmp_path / "float.tif", tmp_path / "o.png")
    deep_png(tmp_path / "a.png", np.zeros((8, 8, 3), np.uint16))
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "interlaced.png").write_bytes(whole[:28] + b"\1" + whole[29:])
    (tmp_path / "cut.png").write_bytes(whole[:50])
    (tmp_path / "bad.png").write_bytes(whole[:45] + b"\xff" + whole[46:])
    for name in ("interlaced", "cut", "bad"):
        with pytest.raises(UsageError):
            read_picture(tmp_path / f"{name}.png", deep=True)


@pytest.mark.parametrize("level", [0, 1, 6])
def test_png_levels_hold_the_same_pixels(level):
    image = np.random.default_rng(0).integers(0, 40, (700, 900, 3)).astype(np.uint8)  # more than one block
    buffer = io.BytesIO()
    write_png(buffer, 700, 900, 3, [image[:300], image[300:]], level=level)
    assert np.array_equal(np.asarray(Image.open(buffer)), image)
    small = len(buffer.getvalue()) < image.nbytes * 0.9
    assert small == (level > 0)


@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".avif", ".tga"])
def test_what_is_too_wide_for_a_format_is_said_before_anything_is_run(model, tmp_path, suffix):
    Image.new("RGB", (33000, 1)).save(tmp_path / "wide.png")
    with pytest.raises(
        UsageError, match=rf"66,000 x 2 pixels, and \{suffix} holds \d+,\d+ on a side\n.*\.png"
    ):
        upscale_file(model, tmp_path / "wide.png", tmp_path / f"b{suffix}", lambda share: pytest.fail("run"))
    assert not (tmp_path / f"b{suffix}").exists()


@pytest.mark.parametrize("suffix", [".gif", ".ico", ".pdf", ".xbm"])
def test_formats_that_lose_something_in_silence_are_not_written(model, tmp_path, colour, suffix):
    Image.fromarray(colour).save(tmp_path / "a.png")
    with pytest.raises(UsageError, match=rf"cannot write images of type \{suffix}.*\n  use \.png, \.jpg"):
        upscale_file(model, tmp_path / "a.png", tmp_path / f"b{suffix}")


@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".avif", ".tif", ".jp2", ".tga", ".bmp", ".ppm"])
def test_every_format_that_is_named_can_be_written(model, tmp_path, colour, suffix):
    for name, pixels in (("colour", colour), ("gray", colour[..., 0])):
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
        upscale_file(model, tmp_path / f"{name}.png", tmp_path / f"{name}{suffix}")
        with Image.open(tmp_path / f"{name}{suffix}") as made:
            assert made.size == (80, 48)
            assert (
                np.abs(np.asarray(made.convert("L"), int) - Image.fromarray(model(pixels)).convert("L")).max()
                < 12
            )


def test_a_tiff_that_states_no_resolution_gives_none(model, tmp_path, colour):
    Image.fromarray(colour).save(tmp_path / "a.tif")
    upscale_file(model, tmp_path / "a.tif", tmp_path / "b.png")
    with Image.open(tmp_path / "b.png") as made:
        assert "dpi" not in made.info


def test_of_a_cameras_file_with_two_pictures_the_photograph_is_run(model, tmp_path, colour):
    preview = Image.new("RGB", (8, 8), "red")
    Image.fromarray(colour).save(
        tmp_path / "phone.jpg", "MPO", save_all=True, append_images=[preview], quality=20, exif=_exif(6)
    )
    with Image.open(tmp_path / "phone.jpg") as image:
        assert image.format == "MPO" and image.n_frames == 2
    upscale_file(model, tmp_path / "phone.jpg", tmp_path / "b.png")
    assert read_picture(tmp_path / "b.png").pixels.shape == (80, 48, 3)
    assert models.jpeg.quality_of(tmp_path / "phone.jpg") == 20


def test_what_several_frames_and_pages_and_nothing_at_all_are_called(tmp_path, colour):
    pages = [Image.fromarray(colour), Image.fromarray(colour[::-1])]
    for name, said in (("a.tif", "has 2 pages"), ("a.gif", "has 2 frames"), ("a.png", "has 2 frames")):
        pages[0].save(tmp_path / name, save_all=True, append_images=pages[1:])
        with pytest.raises(UsageError, match=said):
            read_picture(tmp_path / name)
    (tmp_path / "empty.png").touch()
    with pytest.raises(UsageError, match="is empty: it has 0 bytes"):
        read_picture(tmp_path / "empty.png")
    (tmp_path / "words.png").write_text("words")
    with pytest.raises(UsageError, match=r"words.png is not a readable image$"):
        read_picture(tmp_path / "words.png")
