"""Compare two sets of tensors, figure by figure: nothing is rounded, broadcast or hidden."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.judge.metrics import compare, why_not
from twinnet.report.figures import count

__all__ = ["FIGURES", "compare_results"]

FIGURES = ("snr", "mse", "psnr", "cosine", "max_abs", "ulp")
"""The figures that are drawn."""


def compare_results(
    a: Any, b: Any, *, plot: bool = False, out: str | Path = "."
) -> dict[str, dict[str, Any]]:
    """Compare tensors of `a`, the reference, with those of `b`, and return the figures of each by its name.

    Both are arrays or tensors, lists of them (named by their position), or mappings from names. `nan_reference`,
    `nan_twin`, `inf_reference` and `inf_twin` count what is not finite; where it is so on one side only, there is a
    `problem`, and the figures are NaN. Tensors that cannot be compared (another shape, only on one side) have a
    `problem` and no figures. With `plot` each figure is drawn, in a notebook at once, and written to `out` as
    `FIGURE.svg`.

    >>> compare_results([np.float32([1, 2])], [np.float32([1, 4])])["0"]["max_abs"]
    2.0
    >>> compare_results([np.zeros((2, 3))], [np.zeros(3)])["0"]
    {'problem': 'shape 3 where the network has 2x3'}
    """
    ours, theirs = _named(a), _named(b)
    found = {name: _figures(ours.get(name), theirs.get(name)) for name in dict.fromkeys((*ours, *theirs))}
    if plot:
        from twinnet.inspector.plot import show_plots

        show_plots(found, FIGURES, Path(out))
    return found


def _figures(ours: np.ndarray | None, theirs: np.ndarray | None) -> dict[str, Any]:
    if ours is None or theirs is None:
        return {"problem": "only in the second" if ours is None else "only in the first"}
    problem = why_not(ours, theirs)
    if problem is not None:
        return {"problem": str(problem)}
    d = compare(ours, theirs)
    figures = {name: getattr(d, name) for name in (*FIGURES, "mean_abs")}
    said: dict[str, Any] = {}
    if d.nonfinite_mismatch:
        # Figures of the rest would look like agreement.
        figures = dict.fromkeys(figures, math.nan)
        said = {"problem": f"{count(d.nonfinite_mismatch, 'element')} NaN or Inf on one side only"}
    return {
        **said,
        **figures,
        "elements": d.elements,
        "differing": d.differing,
        "nan_reference": d.nan_reference,
        "nan_twin": d.nan_twin,
        "inf_reference": d.inf_reference,
        "inf_twin": d.inf_twin,
        "nonfinite_mismatch": d.nonfinite_mismatch,
        "index": d.index,
    }


def _named(given: Any) -> dict[str, np.ndarray]:
    """Tensors by name."""
    if isinstance(given, Mapping):
        return {str(name): _array(value, str(name)) for name, value in given.items()}
    if isinstance(given, np.ndarray) or hasattr(given, "detach"):
        return {"0": _array(given, "0")}
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return {str(i): _array(value, str(i)) for i, value in enumerate(given)}
    raise UsageError(
        f"{type(given).__name__} holds no tensors", hint="give arrays, a list or a mapping of them"
    )


def _array(value: Any, name: str) -> np.ndarray:
    if hasattr(value, "detach"):
        from twinnet.network.arrays import to_numpy

        return to_numpy(value.detach().cpu())
    array = np.asarray(value)
    if array.dtype == object or array.dtype.kind in "USO":
        raise UsageError(
            f"{name} is not a tensor of numbers", hint="was it recorded? None stands for no values"
        )
    return array
