"""The restoration tasks. A task is one small file with a `Task`; other packages add theirs as `twinnet.tasks`.

>>> from twinnet.restore.config import Config
>>> task_of(Config()).describe()
'sr x4, bicubic matlab'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinnet.errors import UsageError
from twinnet.plugins import plugins
from twinnet.restore.tasks.base import Image, Metric, Random, Task, pixels
from twinnet.restore.tasks.deblock import Deblock
from twinnet.restore.tasks.deblur import Deblur
from twinnet.restore.tasks.denoise import Denoise
from twinnet.restore.tasks.sr import SuperResolution

if TYPE_CHECKING:
    from twinnet.restore.config import Config

__all__ = ["TASKS", "Image", "Metric", "Random", "Task", "find_task", "pixels", "task_names", "task_of"]

TASKS: dict[str, type[Task]] = {
    "sr": SuperResolution,
    "denoise": Denoise,
    "deblock": Deblock,
    "deblur": Deblur,
}
"""twinnet's own tasks by name."""


def task_names() -> tuple[str, ...]:
    """All tasks, those of other packages last.

    >>> task_names()[:2]
    ('sr', 'denoise')
    """
    return (*TASKS, *plugins("task", TASKS))


def find_task(name: str) -> type[Task]:
    """The task of that name."""
    if name in TASKS:
        return TASKS[name]
    plugin = plugins("task", TASKS).get(name)
    if plugin is None:
        raise UsageError(f"there is no task {name!r}", hint=f"tasks: {', '.join(task_names())}")
    found = plugin.load()
    if not isinstance(found, type) or not issubclass(found, Task):
        raise plugin.broken("is not a subclass of twinnet.restore.tasks.Task")
    return found


def task_of(config: Config) -> Task:
    """The task of an experiment."""
    return find_task(config.model.task).of(config)
