"""Classical filters, at the settings that were chosen on held-out images."""

from __future__ import annotations

import numpy as np
import pytest

from twinnet.restore.filters import TUNED, classical, settings_at
from twinnet.restore.tasks.deblock import Deblock
from twinnet.restore.tasks.deblur import Deblur
from twinnet.restore.tasks.denoise import Denoise
from twinnet.restore.tasks.sr import SuperResolution


def test_settings_lie_between_those_of_the_nearest_levels():
    low, high = (TUNED["denoise"]["Gaussian"]["sigma"][k] for k in (0, 1))
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
