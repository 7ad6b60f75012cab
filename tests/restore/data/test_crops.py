"""Crops: without bias, the same whatever computes them, from pairs that fit together."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from twinnet.errors import UsageError
from twinnet.restore.bicubic import shrink
from twinnet.restore.data import Crops, batches, open_pairs
from twinnet.restore.tasks import TASKS
from twinnet.restore.tasks.deblur import Deblur
from twinnet.restore.tasks.denoise import Denoise
from twinnet.restore.tasks.sr import SuperResolution


def numbered(folder, sizes):
    """Images whose planes are the row, the column, and the number of the image."""
    folder.mkdir()
    for k, (rows, columns) in enumerate(sizes):
        y, x = np.mgrid[0:rows, 0:columns]
        Image.fromarray(np.stack([y, x, np.full_like(y, k)], axis=2).astype(np.uint8)).save(
            folder / f"{k}.png"
        )
    return folder


def test_every_place_is_equally_likely(tmp_path):
    folder = numbered(tmp_path / "images", [(20, 17)])
    crops = Crops(open_pairs(Denoise(1e-6), [folder]), 12, augment=False)
    starts = {"rows": [], "columns": [], "image": []}
    for place in range(4500):
        _, high = crops.crop(0, place)
        kind = "rows" if high[0, 0] != high[1, 0] else "columns" if high[0, 0] != high[0, 1] else "image"
        starts[kind].append(int(high[0, 0]))
    assert all(1350 < len(found) < 1650 for found in starts.values())  # every colour equally often
    for kind, places in (("rows", 9), ("columns", 6)):
        counts = np.bincount(starts[kind])
        expected = len(starts[kind]) / places
        assert len(counts) == places
        assert np.abs(counts - expected).max() < 4.5 * np.sqrt(expected)


@pytest.mark.parametrize(("weigh", "share"), [("images", 0.5), ("pixels", 1 / (1 + 21 * 21))])
def test_images_or_pixels_are_weighed(tmp_path, weigh, share):
    folder = numbered(tmp_path / "images", [(12, 12), (32, 32)])
    crops = Crops(open_pairs(Denoise(1e-6), [folder]), 12, weigh=weigh)
    random = np.random.default_rng(0)
    picked = [int(np.searchsorted(crops._edges, random.random(), side="right")) for _ in range(2000)]
    assert np.mean(np.array(picked) == 0) == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_super_resolution_crops_belong_together(photos, scale):
    crops = Crops(open_pairs(SuperResolution(scale), [photos]), 8)
    pairs = crops.pairs
    for k in range(len(pairs)):
        low, good = pairs.pair(k)
        assert np.array_equal(shrink(np.asarray(good), scale), low)
    low, high = crops.batch(3, 0, 16)
    assert low.shape == (16, 1, 8, 8) and high.shape == (16, 1, 8 * scale, 8 * scale)
    coarse = high.reshape(16, 8, scale, 8, scale).mean(axis=(2, 4))
    turned = np.roll(coarse, 1, axis=1)
    assert np.abs(coarse - low[:, 0]).mean() < 0.3 * np.abs(turned - low[:, 0]).mean()


@pytest.mark.parametrize(
    "task", [Denoise(15), Deblur(7), TASKS["deblock"](10), SuperResolution(2)], ids=lambda task: task.name
)
def test_workers_and_processes_see_the_same_crops(photos, task):
    crops = Crops(open_pairs(task, [photos]), 10, seed=5)
    alone = list(batches(crops, range(2, 5), 6))
    workers = list(batches(crops, range(2, 5), 6, workers=2))
    halves = [list(batches(crops, range(2, 5), 6, rank=r, ranks=2)) for r in (0, 1)]
    later = list(batches(crops, range(4, 5), 6))
    for k, (low, high) in enumerate(alone):
        assert low.equal(workers[k][0]) and high.equal(workers[k][1])
        assert low[:3].equal(halves[0][k][0]) and high[3:].equal(halves[1][k][1])
    assert alone[2][0].equal(later[0][0])
    assert not alone[0][0].equal(alone[1][0])
    with pytest.raises(UsageError, match="multiple of 4"):
        next(batches(crops, range(1), 6, ranks=4))


def test_blurred_crops_are_cut_from_blurred_images(tmp_path):
    folder = numbered(tmp_path / "images", [(60, 60)])
    crops = Crops(open_pairs(Deblur(9), [folder]), 16, augment=False)
    seen = 0
    for place in range(60):
        low, high = crops.crop(0, place)
        assert low.shape == high.shape == (16, 16)
        if high.min() >= 4 and high.max() <= 55:
            # Blur moves a slope but leaves it a slope, so long as it sees beyond the crop.
            gap = low.astype(int) - high
            seen += 1
            assert gap.max() - gap.min() <= 1 and abs(gap).max() <= 4
    assert seen > 10


def test_small_images_are_left_out(tmp_path):
    folder = numbered(tmp_path / "images", [(9, 40), (40, 40)])
    crops = Crops(open_pairs(SuperResolution(2), [folder]), 8)
    assert crops.small == ("0",)
    with pytest.raises(UsageError, match=r"largest has 40 x 40 pixels, a crop 64 x 64"):
        Crops(open_pairs(SuperResolution(2), [folder]), 32)


def test_given_bad_images_are_matched_by_name(photos, tmp_path):
    bad = tmp_path / "bad"
    for path in [p for p in photos.rglob("*") if p.is_file()]:
        image = np.asarray(Image.open(path))
        low = shrink(image if image.ndim == 2 else image[..., :3], 2)
        target = (bad / path.relative_to(photos)).with_name(f"{path.stem}x2.png")
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(low).save(target)
    task = SuperResolution(2)
    given, made = open_pairs(task, [photos], [bad]), open_pairs(task, [photos])
    assert given.names == made.names
    for k in range(len(made)):
        assert np.array_equal(given.pair(k)[0], made.pair(k)[0])
    with pytest.raises(UsageError, match="which is not x4"):
        open_pairs(SuperResolution(4), [photos], [photos])
    (bad / "scene001x2.png").unlink()
    with pytest.raises(UsageError, match="no bad image goes with scene001"):
        open_pairs(task, [photos], [bad])


def test_folders_are_matched_one_by_one(tmp_path):
    """Two collections that use the same names."""
    rng = np.random.default_rng(0)
    good, bad = [], []
    for part in ("a", "b"):
        image = rng.integers(0, 256, (24, 24, 3), dtype=np.uint8)
        for folder, pixels in (
            (tmp_path / part / "good", image),
            (tmp_path / part / "bad", shrink(image, 2)),
        ):
            folder.mkdir(parents=True)
            Image.fromarray(pixels).save(folder / "0001.png")
        good.append(tmp_path / part / "good")
        bad.append(tmp_path / part / "bad")
    pairs = open_pairs(SuperResolution(2), good, bad)
    assert len(pairs) == 2 and pairs.names == ("0001", "0001")
    for k in range(2):
        low, high = pairs.pair(k)
        assert np.array_equal(low, shrink(np.asarray(high), 2))
    with pytest.raises(UsageError, match="2 folders of good images, but 1 of bad"):
        open_pairs(SuperResolution(2), good, bad[:1])


def test_gray_against_colours(tmp_path):
    for name, shape in (("good", (8, 8, 3)), ("bad", (4, 4))):
        (tmp_path / name).mkdir()
        Image.fromarray(np.zeros(shape, np.uint8)).save(tmp_path / name / "x.png")
    with pytest.raises(UsageError, match="one image of the pair is gray"):
        open_pairs(SuperResolution(2), [tmp_path / "good"], [tmp_path / "bad"])


def test_changed_tones_are_the_same_change_on_both_sides(photos):
    pairs = open_pairs(SuperResolution(2), [photos])
    plain, toned = Crops(pairs, 8), Crops(pairs, 8, tones=0.5)
    seen = {"as it was": 0, "darker or brighter": 0, "inverted": 0}
    for place in range(200):
        (low, high), (low2, high2) = plain.crop(0, place), toned.crop(0, place)
        if np.array_equal(low, low2):
            assert np.array_equal(high, high2)
            seen["as it was"] += 1
            continue
        contrast, darkest = np.polyfit(high.ravel().astype(float), high2.ravel(), 1)
        assert 0.45 < abs(contrast) < 1.05 and high2.min() >= 0 and high2.max() <= 255
        assert np.abs(low * contrast + darkest - low2).max() < 2  # one rounding, and that of the line found
        seen["inverted" if contrast < 0 else "darker or brighter"] += 1
    assert seen["as it was"] in range(70, 130)
    assert seen["inverted"] in range(25, 75)


def test_only_super_resolution_changes_tones(tmp_path):
    from twinnet.restore.new import new

    with pytest.raises(UsageError, match="denoise cannot change tones"):
        new(tmp_path / "exp", {"model": {"task": "denoise", "scale": 1}, "data": {"tones": 0.5}})
