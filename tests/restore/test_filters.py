"""Classical filters: at the settings that were chosen on held-out images, and chosen as they say."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from tests.needs import need_data
from twinnet.restore.filters import FILTERS, GRIDS, TUNED, classical, settings_at, tune
from twinnet.restore.tasks.deblock import Deblock
from twinnet.restore.tasks.deblur import Deblur
from twinnet.restore.tasks.denoise import Denoise
from twinnet.restore.tasks.sr import SuperResolution


def test_settings_lie_on_their_grids_and_between_levels():
    for levels in TUNED.values():
        for filters in levels.values():
            assert set(filters) == set(FILTERS)
            for name, settings in filters.items():
                assert all(settings[key] in grid for key, grid in GRIDS[name].items())
    low, high = (TUNED["denoise"][k]["Gaussian"]["sigma"] for k in (15, 25))
    assert settings_at("denoise", 20)["Gaussian"]["sigma"] == pytest.approx((low + high) / 2)
    assert settings_at("denoise", 5) == settings_at("denoise", 15)


def test_every_task_has_what_stands_beside_it():
    image = np.random.default_rng(0).integers(0, 256, (20, 24), np.uint8)
    for task, count in ((SuperResolution(3), 2), (Denoise(30.0), 3), (Deblock(15), 3), (Deblur(5), 0)):
        found = classical(task)
        assert len(found) == count and sum(c.unit for c in found) == min(count, 1)
        for candidate in found:
            result = candidate.restore(image)
            assert result.shape == (20 * task.scale, 24 * task.scale) and result.dtype == np.uint8


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", [Denoise(15.0), Denoise(25.0), Denoise(50.0), Deblock(10), Deblock(20), Deblock(40)]
)
def test_settings_are_those_chosen_on_the_validation_images(task):
    images = []
    for path in sorted(need_data("images", "valid", "CID22").iterdir()):
        colours = np.asarray(Image.open(path).convert("RGB"))[128:384, 128:384]
        images.append(np.rint(colours @ np.array([0.299, 0.587, 0.114])).astype(np.uint8))
    level = int(task.sigma if isinstance(task, Denoise) else task.quality)
    assert tune(task, images) == TUNED[task.name][level]
