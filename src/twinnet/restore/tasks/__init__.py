"""What can be restored. A task is one small file with a `Task`, and one line in `TASKS`.

>>> from twinnet.restore.config import Config
>>> task_of(Config()).describe()
'sr x4, bicubic matlab'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinnet.restore.tasks.base import Image, Metric, Random, Task, pixels
from twinnet.restore.tasks.deblock import Deblock
from twinnet.restore.tasks.deblur import Deblur
from twinnet.restore.tasks.denoise import Denoise
from twinnet.restore.tasks.sr import SuperResolution

if TYPE_CHECKING:
    from twinnet.restore.config import Config

__all__ = ["TASKS", "Image", "Metric", "Random", "Task", "pixels", "task_of"]

TASKS: dict[str, type[Task]] = {
    "sr": SuperResolution,
    "denoise": Denoise,
    "deblock": Deblock,
    "deblur": Deblur,
}
"""Tasks by name."""


def task_of(config: Config) -> Task:
    """The task of an experiment."""
    return TASKS[config.model.task].of(config)
