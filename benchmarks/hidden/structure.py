"""Outputs that are missing, exchanged or of another type; tolerances and baselines that check nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import twinnet
from benchmarks.hidden.attack import attack, checked, function
from benchmarks.hidden.nets import Classes, Classifier, Head, Two, picture


@attack("a dropped output")
def dropped(rng: np.random.Generator) -> Any:
    net = Two().eval()
    return checked(net, picture(int(rng.integers(99))), lambda x: function(net)(x)[0])


@attack("two outputs exchanged")
def exchanged(rng: np.random.Generator) -> Any:
    net = Two().eval()
    return checked(net, picture(int(rng.integers(99))), lambda x: function(net)(x)[::-1])


@attack("float64 for float32")
def wider(rng: np.random.Generator) -> Any:
    net = Head().eval()
    return checked(net, picture(int(rng.integers(99))), lambda x: function(net)(x).astype(np.float64))


@attack("int32 for int64")
def narrower(rng: np.random.Generator) -> Any:
    net = Classes().eval()
    x = torch.randn(5, 400, generator=torch.Generator().manual_seed(int(rng.integers(99))))
    return checked(net, x, lambda a: function(net)(a).astype(np.int32))


@attack("floats for integers")
def floats(rng: np.random.Generator) -> Any:
    net = Classes().eval()
    x = torch.randn(5, 400, generator=torch.Generator().manual_seed(int(rng.integers(99))))
    return checked(net, x, lambda a: function(net)(a).astype(np.float32))


@attack("ulp stated for integers")
def ulp(rng: np.random.Generator) -> Any:
    net = Classes().eval()
    x = torch.randn(5, 400, generator=torch.Generator().manual_seed(int(rng.integers(99))))
    twin = lambda a: function(net)(a) + 1  # noqa: E731
    return checked(net, x, twin, tolerance=twinnet.Tolerance(ulp=4))


def _limits(limit: str, value: float) -> None:
    @attack(f"{limit} {value:g}")
    def stated(rng: np.random.Generator) -> Any:
        net = Head().eval()
        twin = lambda x: function(net)(x) * np.float32(1.5)  # noqa: E731
        tolerance = twinnet.Tolerance(**{limit: value})
        return checked(net, picture(int(rng.integers(99))), twin, tolerance=tolerance)


for _limit, _value in (
    ("atol", float("nan")),
    ("rtol", float("inf")),
    ("snr", float("nan")),
    ("snr", float("-inf")),
    ("cosine", -1.0),
    ("atol", -1.0),
):
    _limits(_limit, _value)


def _against(net: Any, x: Any, before: Any, now: Any, other: Any = None) -> Any:
    """A check of `now` with the run of `before`, or of another network, as its baseline."""
    with tempfile.TemporaryDirectory(prefix="twinnet-hidden-") as folder:
        known = Path(folder) / "known"
        twinnet.check(other or net, x, before, out=known)
        return checked(net, x, now, baseline=known)


def _only(count: int, factor: float) -> np.ndarray:
    factors = np.ones(20, np.float32)
    factors[:count] = factor
    return factors


@attack("a baseline with one class wrong, now all")
def baseline_more(rng: np.random.Generator) -> Any:
    net, x = Classifier().eval(), picture(int(rng.integers(99)))
    right = function(net)
    return _against(net, x, lambda a: right(a) * _only(1, 2.0), lambda a: right(a) * _only(20, 2.0))


@attack("a baseline with another class wrong")
def baseline_other(rng: np.random.Generator) -> Any:
    net, x = Classifier().eval(), picture(int(rng.integers(99)))
    right = function(net)
    return _against(net, x, lambda a: right(a) * _only(1, 2.0), lambda a: right(a) * _only(1, 2.0)[::-1])


@attack("a baseline with one NaN, now all")
def baseline_nan(rng: np.random.Generator) -> Any:
    net, x = Classifier().eval(), picture(int(rng.integers(99)))
    right = function(net)
    return _against(net, x, lambda a: right(a) * _only(1, np.nan), lambda a: right(a) * np.nan)


@attack("the baseline of another network")
def baseline_network(rng: np.random.Generator) -> Any:
    net, x, other = Classifier().eval(), picture(int(rng.integers(99))), Classifier(20).eval()
    other.last = torch.nn.Linear(16, 20, bias=False)
    twice = lambda n: lambda a: function(n)(a) * np.float32(2)  # noqa: E731
    return _against(net, x, twice(other), twice(net), other)
