"""Classical baselines: the resampling and the filters of OpenCV.

The settings of the filters are those with the best PSNR on the validation images (CID22), found by
`tools/shipped_tables/filter_tuning.py`; no test set was looked at. Between the levels listed they are interpolated.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twinnet.restore.candidates import Candidate, unable
from twinnet.restore.tasks import Image, Task, pixels
from twinnet.restore.tasks.deblock import Deblock
from twinnet.restore.tasks.denoise import Denoise

__all__ = ["FILTERS", "LEVELS", "TUNED", "classical", "level_of", "settings_at"]

Filter = Callable[..., np.ndarray]


def _gaussian(image: np.ndarray, sigma: float) -> np.ndarray:
    import cv2

    return cv2.GaussianBlur(image, (0, 0), sigma)


def _bilateral(image: np.ndarray, range: float, space: float) -> np.ndarray:
    import cv2

    return cv2.bilateralFilter(image, 0, range, space)


def _means(image: np.ndarray, h: float) -> np.ndarray:
    import cv2

    return cv2.fastNlMeansDenoising(image, None, float(h), 7, 21)


FILTERS: dict[str, Filter] = {"Gaussian": _gaussian, "bilateral": _bilateral, "non-local means": _means}
"""By name; parameters by keyword. `sigma` and `space` are pixels, `range` and `h` grey levels."""

LEVELS = {"denoise": (15, 25, 50), "deblock": (10, 20, 40)}
"""Sigmas and JPEG qualities that the filters were tuned at."""

TUNED: dict[str, dict[str, dict[str, tuple[float, ...]]]] = {
    "denoise": {
        "Gaussian": {"sigma": (0.7, 0.9, 1.4)},
        "bilateral": {"range": (35, 65, 160), "space": (1.8, 1.8, 2.4)},
        "non-local means": {"h": (16, 25, 42)},
    },
    "deblock": {
        "Gaussian": {"sigma": (0.5, 0.5, 0.4)},
        "bilateral": {"range": (18, 18, 25), "space": (2.4, 1.4, 0.7)},
        "non-local means": {"h": (10, 6, 4)},
    },
}
"""By task, filter and setting: the best values at the levels of the task."""


def level_of(task: Task) -> float | None:
    """How strong the degradation is: sigma, or JPEG quality; None for tasks without such a number.

    >>> level_of(Denoise(25.0)), level_of(Deblock(40))
    (25.0, 40.0)
    """
    if isinstance(task, Denoise):
        return task.sigma
    return float(task.quality) if isinstance(task, Deblock) else None


def settings_at(task: str, level: float) -> dict[str, dict[str, float]]:
    """The settings of all filters at a level.

    >>> settings_at("denoise", 20)["Gaussian"]
    {'sigma': 0.8}
    """
    return {
        name: {key: float(np.interp(level, LEVELS[task], values)) for key, values in settings.items()}
        for name, settings in TUNED[task].items()
    }


def classical(task: Task) -> list[Candidate]:
    """The classical answers to a task; cubic resampling or the bilateral filter gives the unit of running time."""
    try:
        import cv2
    except ImportError:
        return [unable("OpenCV's filters", "OpenCV is not installed: pip install 'twinnet[train]'")]
    cv2.setNumThreads(1)
    if task.scale > 1:
        kinds = {"cubic, OpenCV": cv2.INTER_CUBIC, "Lanczos, OpenCV": cv2.INTER_LANCZOS4}
        return [
            Candidate(name, _resampled(task.scale, kind), unit=kind == cv2.INTER_CUBIC)
            for name, kind in kinds.items()
        ]
    level = level_of(task)
    if level is None:
        return []
    return [
        Candidate(_named(name, settings), _filtered(FILTERS[name], settings), unit=name == "bilateral")
        for name, settings in settings_at(task.name, level).items()
    ]


def _named(name: str, settings: dict[str, float]) -> str:
    return f"{name}, {' '.join(f'{key} {value:g}' for key, value in settings.items())}"


def _resampled(scale: int, kind: int) -> Callable[[Image], np.ndarray]:
    import cv2

    return lambda low: np.asarray(
        cv2.resize(pixels(low), (low.shape[1] * scale, low.shape[0] * scale), interpolation=kind)
    )


def _filtered(run: Filter, settings: dict[str, float]) -> Callable[[Image], np.ndarray]:
    return lambda low: run(pixels(low), **settings)
