"""The settings of the classical filters are those that tuning chooses."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from tools.shipped_tables.filter_tuning import GRIDS, tune

from tests.needs import need_data
from twinnet.restore.filters import FILTERS, TUNED, settings_at
from twinnet.restore.tasks.deblock import Deblock
from twinnet.restore.tasks.denoise import Denoise


def test_settings_lie_on_their_grids():
    for filters in TUNED.values():
        assert set(filters) == set(FILTERS)
        for name, settings in filters.items():
            assert all(value in grid for key, grid in GRIDS[name].items() for value in settings[key])


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
    assert tune(task, images) == settings_at(task.name, level)
