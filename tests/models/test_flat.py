"""Every shipped table on pictures that no test set has: flat areas, both ranges, colour, text, gradients, noise."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from tools.shipped_tables.unusual_inputs import gradient, page_of_text

from twinnet import models
from twinnet.lut.flat import flatness
from twinnet.lut.model import load
from twinnet.models.evaluate import board_of, task_of_board
from twinnet.restore.bicubic import modcrop, shrink
from twinnet.restore.metrics import psnr
from twinnet.restore.sample import scene
from twinnet.restore.tasks.deblock import Deblock
from twinnet.restore.tasks.denoise import Denoise

EXACT = [name for name in models.available() if name not in ("sr-x4-best", "sr-x2-fast", "denoise-15")]


@pytest.fixture(scope="module", params=models.available())
def shipped(request):
    return request.param, load(models.file_of(request.param)), task_of_board(board_of(request.param))


def test_all_256_greys_stay_flat_and_where_they_are(shipped):
    name, model, _ = shipped
    found = flatness(model.plan)
    assert found.uneven == 0 and found.moved <= 1 and (found.black, found.white) == (0, 255)
    assert found.exact == 256 or name not in EXACT


def test_flat_colours_stay_in_images_of_three_planes(shipped):
    name, model, _ = shipped
    greys = np.random.default_rng(0).integers(0, 256, (6, 3), np.uint8)
    for colour in greys:
        made = model(np.broadcast_to(colour, (13, 17, 3)).copy()).astype(int)
        assert np.abs(made - colour).max() <= (name not in EXACT)


def _bad(task, good):
    if isinstance(task, Denoise):
        noise = np.random.default_rng(0).normal(0, task.sigma, good.shape)
        return np.rint(good + noise).clip(0, 255).astype(np.uint8)
    if isinstance(task, Deblock):
        buffer = io.BytesIO()
        Image.fromarray(good).save(buffer, "JPEG", quality=task.quality)
        return np.asarray(Image.open(buffer))
    return shrink(good, task.scale)


def _picture(kind, scale):
    photo = scene(2, 96, 120)
    match kind:
        case "full range":
            return ((photo.astype(float) - photo.min()) * 255 / np.ptp(photo)).astype(np.uint8)[..., 1]
        case "studio range":
            return (16 + photo[..., 1] * (219 / 255)).astype(np.uint8)
        case "colour":
            return photo
        case "text":
            return page_of_text(scale)[:96, :192, 0]
        case "gradient":
            return gradient()[:96, :192]
        case _:
            noise = np.random.default_rng(1).normal(0, 6, photo.shape[:2])
            return np.rint(photo[..., 1] * 0.8 + 20 + noise).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("kind", ["full range", "studio range", "colour", "text", "gradient", "noise"])
def test_tables_gain_on_every_kind_of_picture(shipped, kind):
    name, model, task = shipped
    good = modcrop(_picture(kind, task.scale), task.scale)
    low = _bad(task, good)
    score = psnr(model(low), good)
    if (
        task.scale > 1 and kind == "gradient"
    ):  # shrinking takes nothing from it: both are right to half a level
        assert score > 50
        return
    gain = score - psnr(task.plain(low), good)
    # Enlarging takes noise for detail.
    assert gain > (-1.5 if task.scale > 1 and kind == "noise" else 0), f"{name} on {kind}: {gain:+.2f} dB"


def test_gradients_keep_their_order(shipped):
    """A ramp of all greys, each eight pixels wide: hardly a step backwards."""
    _, model, task = shipped
    ramp = np.repeat(np.arange(256, dtype=np.uint8), 8)
    made = model(np.tile(ramp, (16, 1))).astype(int)
    centre = made[8 * task.scale]
    assert (np.diff(centre) >= -2).all() and (np.diff(centre) < 0).mean() < 0.05
    assert abs(int(centre[0])) == 0 and int(centre[-1]) == 255
