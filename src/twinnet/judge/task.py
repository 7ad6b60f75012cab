"""The user's own metric on both sides: does the difference matter for the task?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.plugins import plugins
from twinnet.result import TaskMetric

__all__ = ["load_metric", "mean_metric", "task_metric"]


def load_metric(metric: Any) -> Callable[..., Any] | None:
    """Load a metric from `file.py:fn` or from an installed plug-in; a function is returned unchanged."""
    from twinnet.pyfile import load_attribute

    if not isinstance(metric, str):
        return metric
    if ":" in metric or metric.endswith(".py"):
        return load_attribute(metric, what="metric")
    added = plugins("metric")
    if metric not in added:
        known = f"metrics: {', '.join(added)}; or" if added else "give"
        raise UsageError(f"unknown metric {metric!r}", hint=f"{known} your own function: file.py:NAME")
    found = added[metric].load()
    if not callable(found):
        raise added[metric].broken("is not a function")
    return found


def mean_metric(scores: Sequence[TaskMetric]) -> tuple[TaskMetric, ...]:
    """Average the scores over all samples.

    >>> mean_metric([TaskMetric("psnr", 30.0, 20.0, 10.0), TaskMetric("psnr", 32.0, 30.0, 2.0)])
    (TaskMetric(name='psnr', network=31.0, twin=25.0, between=6.0),)
    """
    if not scores:
        return ()

    def mean(values: list[float | None]) -> float | None:
        known = [v for v in values if v is not None]
        return sum(known) / len(known) if known else None

    network, twin = mean([s.network for s in scores]), mean([s.twin for s in scores])
    return (TaskMetric(scores[0].name, network, twin, mean([s.between for s in scores])),)


def task_metric(
    function: Callable[..., Any],
    sample: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    twin_outputs: Mapping[str, np.ndarray],
) -> TaskMetric:
    """Score one sample.

    `fn(outputs, inputs)` scores one side and is called for both; `fn(outputs, twin_outputs, inputs)` scores the two
    against each other. Outputs and inputs are dicts of arrays; the score is a number.
    """
    from twinnet.pyfile import call_user

    name = getattr(function, "__name__", "metric")
    theirs = dict(twin_outputs)
    required = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind in (0, 1)
    ]
    if len(required) == 3:
        between = call_user(function, dict(outputs), theirs, dict(sample), what="metric", name=name)
        return TaskMetric(name, None, None, _number(between, name))
    if len(required) not in (1, 2):
        raise UsageError(
            f"metric {name} takes {len(required)} arguments",
            hint="accepted: fn(outputs), fn(outputs, inputs) or fn(outputs, twin_outputs, inputs)",
        )
    more = (dict(sample),) if len(required) == 2 else ()
    scores = [
        _number(call_user(function, dict(o), *more, what="metric", name=name), name)
        for o in (outputs, theirs)
    ]
    return TaskMetric(name, scores[0], scores[1], abs(scores[1] - scores[0]))


def _number(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UsageError(f"metric {name} returned {type(value).__name__}, not a number") from None
