"""How each model is made: the `[model]`, `[data]` and `[fit]` settings of its experiment.

Images are those of CID22 and gb82; selection is on the validation part of CID22. No test set is looked at.
"""

from __future__ import annotations

from typing import Any

__all__ = ["RECIPES", "TERMS", "finishing", "settings"]

Values = dict[str, dict[str, Any]]

TERMS = (
    "CID22, training part (209 images, Cloudinary, CC BY-SA 4.0)",
    "gb82 (25 images, CC0 1.0)",
)
"""Training data with its terms."""

# Restoration at the same size: the pixel with its corner, two lines, a triangle and a cross, up to three pixels away.
_FIRST = [
    [[0, 0], [0, 1], [1, 0], [1, 1]],
    [[0, 0], [-2, 0], [-1, 0], [1, 0]],
    [[0, 0], [-2, -1], [-2, 1], [-1, 0]],
    [[0, 0], [-2, -2], [-1, -1], [1, 1]],
    [[0, 0], [-3, 0], [0, -2], [0, 2]],
]
# The same for a stage that sees the image so far (source 0); the first table looks at the input (source 1), too.
_LATER = [
    [[0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]],
    *[[[*tap, 0] for tap in taps] for taps in _FIRST[1:]],
]
# P patterns around the centre of a 3x3 cell.
_THREE = [
    [[1, 1], [1, 2], [2, 1], [2, 2]],
    [[1, 1], [-1, 1], [0, 1], [2, 1]],
    [[1, 1], [-2, 1], [-1, 1], [0, 1]],
]
_FEWER = {"shares": [0.02, 0.05, 0.1, 0.2]}
"""For scales whose inputs have several times as many pixels."""
_FEWEST = {"shares": [0.02, 0.03, 0.04, 0.05], "half": False}
"""For inputs of full size and tables of one output: three million sites do, since tuning sees the rest."""


def _stage(
    patterns: Any, upscale: int = 1, cell: int = 1, interval: int = 4, band: int = 2, **more: Any
) -> dict:
    return {
        "patterns": patterns, "upscale": upscale, "cell": cell, "interval": interval, "band": band, **more,
    }  # fmt: skip


def _own(*stages: dict, **more: Any) -> dict[str, Any]:
    # All tables end on 17 nodes, so half of the images will do on 9.
    return {"preset": "own", "stages": list(stages), "shares": [0.1, 0.3, 0.5, 1.0], **more}


def _tuned(iterations: int, fit: dict[str, Any], **data: Any) -> Values:
    """Fitted, then all stages tuned together."""
    tuning = {
        "table": "fitted", "iterations": iterations, "learning_rate": 2e-3, "learning_rate_end": 0.0,
        "batch_size": 16, "betas": [0.9, 0.99], "rounding": "deploy", "checkpoint_every": 100, "keep_checkpoints": 1,
        "validate_every": 500, "validate_images": 21, "validate_crop": 0, "tensorboard": False,
    }  # fmt: skip
    return {"data": {"crop_size": 48, **data}, "fit": fit, "finetune_lut": tuning}


def _sr(iterations: int, *stages: dict, **more: Any) -> Values:
    """Super-resolution."""
    return _tuned(iterations, _own(*stages, **more), tones=0.5)


def _restored(interval: int, band: int, **data: Any) -> Values:
    """Denoising and deblocking: a first image, improved twice with a look at the input. `interval` and `band` are those
    of the first stage: what noise hides needs no fine grid."""
    later = [_stage(_LATER, sources=[f"stage{k}", "input"]) for k in (1, 2)]
    return _tuned(800, _own(_stage(_FIRST, interval=interval, band=band), *later, **_FEWEST), **data)


_FIVE = "R1+R2+R3+R4+R5"

RECIPES: dict[str, Values] = {
    # Nine nodes throughout: with a band of seventeen in the first two stages it is slower than MuLUT on some images.
    "sr-x4-strong": _sr(
        1500,
        _stage("P1+P2+P3", 2, interval=5, band=0),
        _stage("Q1+Q2+Q3", 2, 2, interval=5, band=0),
        _stage("Q1+Q2+Q3", 4, 2, interval=5, band=0),
    ),
    "sr-x4-fast": _sr(2000, _stage("P2", 2, band=3), _stage("Q1", 4, 2, band=3)),
    "sr-x4-best": _sr(
        1000,
        _stage("P1+P2+P3+P4", 2, band=3),
        *[_stage(_FIVE, 2, 2, band=3)] * 2,
        _stage(_FIVE, 4, 2, band=3),
        *[_stage("Q1+Q2+Q3", 2, 2, band=3)] * 2,
        shares=[0.1, 0.2, 0.3, 0.5],
    ),
    "sr-x2-strong": _sr(800, _stage("P1+P2+P3", 2), *[_stage("Q1+Q2+Q3", 2, 2)] * 2, **_FEWER),
    "sr-x3-strong": _sr(800, _stage("P1+P2+P3", 3), _stage(_THREE, 3, 3), **_FEWER),
    "sr-x2-fast": _sr(1000, _stage("P2", 2, band=3), _stage("Q1", 2, 2, band=3), **_FEWER),
    # A cascade of two tables is no better at x3 (28.19 dB on the held-out images, this 28.20), and slower.
    "sr-x3-fast": {"fit": _own(_stage("P1+P2", 3), shares=[0.02, 0.1, 0.2, 0.4], half=False)},
    **{f"denoise-{sigma}": _restored(5, 0, sigma=float(sigma)) for sigma in (25, 15, 50)},
    **{f"deblock-{quality}": _restored(4, 2, quality=quality) for quality in (20, 10, 40)},
    "sr-x3-best": _sr(600, _stage("P1+P2+P3+P4", 3, band=3), *[_stage(_THREE, 3, 3, band=3)] * 2, **_FEWER),
}
"""By name, in the order in which they are made."""


_WHOLE = ("sr-x4-best", "sr-x2-fast", "denoise-15")
"""Models whose flat areas are kept from end to end: keeping them in every stage cost more than 0.01 dB."""


def finishing(name: str) -> dict[str, str]:
    """What is done to the tables of a model after fitting and tuning.

    >>> finishing("deblock-20")
    {'flat': 'every stage', 'range': '16..235 to 0..255'}
    """
    flat = {"flat": "end to end" if name in _WHOLE else "every stage"}
    return flat | ({"range": "16..235 to 0..255"} if name.startswith("deblock") else {})


def settings(name: str, images: str) -> Values:
    """The settings of a model's experiment, for images in a folder with `train/`, `valid/` and `bench/`.

    >>> settings("denoise-25", "/data/images")["model"]
    {'task': 'denoise', 'scale': 1}
    """
    recipe = RECIPES[name]
    task, _, rest = name.partition("-")
    scale = int(rest[1]) if task == "sr" else 1
    data = {
        "train": [f"{images}/train/CID22", f"{images}/train/gb82"],
        "valid": [f"{images}/valid/CID22"],
        "bench": f"{images}/bench",
    }
    tuning = {"finetune_lut": recipe["finetune_lut"]} if "finetune_lut" in recipe else {}
    return {
        "model": {"task": task, "scale": scale},
        "data": {**data, **recipe.get("data", {})},
        "fit": recipe["fit"],
        **tuning,
    }
