"""A restoration task: every eighth column is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from twinnet.restore.metrics import psnr
from twinnet.restore.tasks import Task


@dataclass(frozen=True)
class Inpaint(Task):
    step: int = 8
    name: ClassVar[str] = "inpaint"

    @classmethod
    def of(cls, config):
        return cls()

    def describe(self):
        return f"inpaint every {self.step}th column"

    def low(self, good, random):
        bad = np.array(good)
        bad[:, :: self.step] = 0
        return bad

    @property
    def metrics(self):
        return {"PSNR": psnr}
