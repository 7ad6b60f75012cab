"""Times of the steps of an OpenVINO model, from its counters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from twinnet.engines.timing import WARM_UP

__all__ = ["of_each_run", "spent_so_far"]

_COARSE = 5e-6
"""Seconds for each run that a step must last, so that its time in a single run is known well enough."""


def spent_so_far(request: Any, runs: int) -> dict[str, float]:
    """Seconds that each step has taken in all runs so far: the counters are means over them, in whole microseconds."""
    return {
        info.node_name: info.real_time.total_seconds() * runs
        for info in request.profiling_info
        if info.status == info.Status.EXECUTED
    }


def of_each_run(so_far: Sequence[float], whole: Sequence[float]) -> list[float]:
    """Seconds of a step in each run, from what it had taken before the first and after each.

    The longer a model has run, the more of a single run is lost in the rounding of the counters. The time of a short
    step is therefore taken over all runs, and varies from run to run as the whole does.

    >>> of_each_run([2e-3, 3e-3, 4.5e-3], [2e-3, 2e-3]), of_each_run([2e-6, 4e-6, 8e-6], [2e-3, 4e-3])
    ([0.001, 0.0015], [2e-06, 4e-06])
    """
    count = len(whole)
    mean = max(0.0, so_far[-1] - so_far[0]) / count
    if mean > _COARSE * (WARM_UP + count):
        each = [after - before for before, after in pairwise(so_far)]
        if min(each) > 0:
            return [round(one, 9) for one in each]
    return [mean * one / (sum(whole) / count) for one in whole]
