"""Wrong numbers in a part of an output, where the rest of it is right and large."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import twinnet
from benchmarks.hidden.attack import attack, checked, function
from benchmarks.hidden.nets import Classes, Classifier, Head, picture

Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def _shift(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y[..., 4:] = np.abs(y[..., 4:] - rng.uniform(0.05, 0.8))
    return y


def _scale(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y[..., 4:] *= rng.uniform(0.8, 0.97)
    return y


def _one_class(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y[..., 4 + rng.integers(3)] = rng.uniform(0.2, 0.8)
    return y


def _zero_column(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y[..., rng.integers(7)] = 0
    return y


def _half_pixel(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y[..., :2] += 0.5
    return y


def _one_anchor(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y[:, rng.integers(y.shape[1])] *= 1.1
    return y


def _one_score(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    at = rng.integers(y.shape[1])
    y[:, at, 5] = 1 - y[:, at, 5] + 0.05
    return y


def _swapped(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return y[..., [0, 1, 2, 3, 5, 4, 6]]


def _decimals(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.round(y, 3)


def _nan(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y[0, rng.integers(y.shape[1]), 4] = np.nan
    return y


_CHANGES: dict[str, Change] = {
    "scores off": _shift,
    "scores scaled": _scale,
    "one class constant": _one_class,
    "a column 0": _zero_column,
    "boxes off by half a pixel": _half_pixel,
    "one anchor off": _one_anchor,
    "one score wrong": _one_score,
    "two classes exchanged": _swapped,
    "three decimals": _decimals,
    "one NaN": _nan,
}


def _wrong(net: torch.nn.Module, change: Change, rng: np.random.Generator) -> Callable[..., np.ndarray]:
    right, state = function(net), rng.integers(2**31)
    return lambda x: change(right(x).copy(), np.random.default_rng(state))


def _register(name: str, change: Change) -> None:
    @attack(f"head, {name}")
    def opaque(rng: np.random.Generator) -> Any:
        net = Head(int(rng.integers(1, 8))).eval()
        return checked(net, picture(int(rng.integers(99))), _wrong(net, change, rng))

    @attack(f"head, {name}, outputs only")
    def outputs(rng: np.random.Generator) -> Any:
        net = Head(int(rng.integers(1, 8))).eval()
        twin = _wrong(net, change, rng)
        return checked(net, picture(int(rng.integers(99))), twin, level="outputs")


for _name, _change in _CHANGES.items():
    _register(_name, _change)


@attack("head, scores off, in a recording")
def recorded(rng: np.random.Generator) -> Any:
    net, change = Head().eval(), rng.uniform(0.05, 0.5)

    class Shifted(Head):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x)
            return torch.cat([y[..., :4], (y[..., 4:] - change).abs()], -1)

    wrong = Shifted().eval()
    wrong.load_state_dict(net.state_dict())
    with tempfile.TemporaryDirectory(prefix="twinnet-hidden-") as folder:
        ours, theirs = Path(folder) / "ours", Path(folder) / "theirs"
        x = picture(int(rng.integers(99)))
        twinnet.record(net, x, level="outputs", out=ours)
        twinnet.record(wrong, x, level="outputs", out=theirs)
        return twinnet.compare(ours, theirs)


@attack("a batch of two in the wrong order")
def batch(rng: np.random.Generator) -> Any:
    net = Classifier().eval()
    right = function(net)
    return checked(net, picture(int(rng.integers(99)), 2, 3, 12, 12), lambda x: right(x)[::-1].copy())


@attack("the second of a batch off by a per cent")
def second(rng: np.random.Generator) -> Any:
    net = Classifier().eval()
    right, factor = function(net), np.float32([1, 1.01])[:, None]
    return checked(net, picture(int(rng.integers(99)), 2, 3, 12, 12), lambda x: right(x) * factor)


@attack("logits off by two in a thousand")
def logits(rng: np.random.Generator) -> Any:
    net = Classifier().eval()
    right = function(net)
    return checked(net, picture(int(rng.integers(99))), lambda x: right(x) * np.float32(1.002))


@attack("probabilities of two classes exchanged")
def probabilities(rng: np.random.Generator) -> Any:
    net = Classifier(soft=True).eval()
    right, order = function(net), np.arange(20)
    a, b = rng.choice(20, 2, replace=False)
    order[[a, b]] = order[[b, a]]
    return checked(net, picture(int(rng.integers(99))), lambda x: right(x)[:, order])


def _classes(rng: np.random.Generator, change: Callable[[np.ndarray], np.ndarray], **kind: bool) -> Any:
    net = Classes(**kind).eval()
    right = function(net)
    x = torch.randn(9, 4000, generator=torch.Generator().manual_seed(int(rng.integers(99))))
    return checked(net, x, lambda a: change(right(a).copy()))


def _one_up(y: np.ndarray) -> np.ndarray:
    y[3] += 1
    return y


@attack("all classes off by one")
def classes_all(rng: np.random.Generator) -> Any:
    return _classes(rng, lambda y: y + 1)


@attack("one class off by one")
def classes_one(rng: np.random.Generator) -> Any:
    return _classes(rng, _one_up)


@attack("one class off by one, its layers known")
def classes_known(rng: np.random.Generator) -> Any:
    return _classes(rng, _one_up, unknown=False)


@attack("one class off by one, as floats")
def classes_floats(rng: np.random.Generator) -> Any:
    return _classes(rng, _one_up, floats=True)
