"""Small problems for the tests of fitting."""

from __future__ import annotations

import numpy as np
import pytest

from twinnet.restore.fit import FitImages
from twinnet.restore.sample import scene
from twinnet.restore.tasks.sr import SuperResolution


@pytest.fixture(scope="session")
def scenes() -> tuple[FitImages, FitImages]:
    """Synthetic planes to fit and to judge on, x4."""
    task = SuperResolution(4)
    train = FitImages.of_task(task, [scene(k, 160, 160) for k in range(8)], half=True)
    return train, FitImages.of_task(task, [scene(k, 128, 128) for k in range(40, 43)], planes="all")


@pytest.fixture
def random() -> np.random.Generator:
    """The same numbers in every run."""
    return np.random.default_rng(7)
