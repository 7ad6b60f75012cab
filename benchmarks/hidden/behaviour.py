"""Twins that behave otherwise when it counts: unwatched, on another sample, on another input."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.hidden.attack import attack, check_deployed, checked, function
from benchmarks.hidden.nets import Classifier, Head, picture


def _samples(rng: np.random.Generator) -> list[Any]:
    return [picture(int(s)) for s in rng.choice(999, 3, replace=False)]


def _on(samples: list[Any], number: int, right: Any, change: Any) -> Any:
    there = samples[number].numpy()
    return lambda x: change(right(x)) if np.array_equal(x, there) else right(x)


@attack("unwatched, half as much again on the second sample")
def second(rng: np.random.Generator) -> Any:
    net, samples = Head().eval(), _samples(rng)
    return check_deployed(net, _on(samples, 1, function(net), lambda y: y * np.float32(1.5)), samples)


@attack("unwatched, off by two in a thousand on all samples")
def everywhere(rng: np.random.Generator) -> Any:
    net = Head().eval()
    right = function(net)
    return check_deployed(net, lambda x: right(x) * np.float32(1.002), _samples(rng))


@attack("unwatched, NaN on the last sample")
def nan_last(rng: np.random.Generator) -> Any:
    net, samples = Classifier().eval(), _samples(rng)
    return check_deployed(net, _on(samples, 2, function(net), lambda y: y * np.nan), samples)


@attack("unwatched, another shape on the last sample")
def shape_last(rng: np.random.Generator) -> Any:
    net, samples = Classifier().eval(), _samples(rng)
    return check_deployed(net, _on(samples, 2, function(net), lambda y: y[:, :-1]), samples)


@attack("unwatched, two scores exchanged on the second sample")
def exchanged(rng: np.random.Generator) -> Any:
    net, samples = Head().eval(), _samples(rng)
    hidden = _on(samples, 1, function(net), lambda y: y[..., [0, 1, 2, 3, 5, 4, 6]])
    return check_deployed(net, hidden, samples)


@attack("wrong on the third of three samples")
def third(rng: np.random.Generator) -> Any:
    net, samples = Head().eval(), _samples(rng)
    return checked(net, samples, _on(samples, 2, function(net), lambda y: y * np.float32(1.001)))


@attack("always the output of the one sample")
def constant(rng: np.random.Generator) -> Any:
    net, x = Head().eval(), picture(int(rng.integers(99)))
    always = function(net)(x.numpy())
    return checked(net, [x], lambda _: always)


@attack("the output of the first call for ever")
def cached(rng: np.random.Generator) -> Any:
    net, x = Classifier().eval(), picture(int(rng.integers(99)))
    right, kept = function(net), []

    def twin(given: np.ndarray) -> np.ndarray:
        kept.append(right(given))
        return kept[0]

    return checked(net, [x], twin)


@attack("only the mean of the input is read")
def mean(rng: np.random.Generator) -> Any:
    net, x = Classifier().eval(), picture(int(rng.integers(99)))
    right, at = function(net), float(x.mean())
    return checked(net, [x], lambda a: right(x.numpy()) * np.float32(a.mean() / at))
