"""Outputs, inputs and options that are seldom met: NaN on both sides, float64, aliases, one rule for two outputs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import twinnet
from benchmarks.hidden.attack import attack, checked, function
from benchmarks.hidden.data import Written
from benchmarks.hidden.nets import Classifier, Two, picture
from twinnet.judge.tolerance import Rule, Tolerances

Data = Callable[[np.random.Generator], Any]


def _picture(rng: np.random.Generator) -> torch.Tensor:
    return 0.1 + picture(int(rng.integers(99)))


def _ids(rng: np.random.Generator) -> torch.Tensor:
    return torch.from_numpy(rng.permutation(16))[None]


def _wide(rng: np.random.Generator) -> torch.Tensor:
    return _picture(rng).double()


def _bytes(rng: np.random.Generator) -> torch.Tensor:
    return torch.from_numpy(rng.integers(0, 100, (1, 3, 8, 8), dtype=np.uint8))


def _oblong(rng: np.random.Generator) -> torch.Tensor:
    return picture(int(rng.integers(99)), 1, 3, 10, 12)


def _pooled(x: torch.Tensor) -> torch.Tensor:
    return functional.max_pool2d(functional.pad(x, (1, 1, 1, 1)), 3, 1)


_WRITTEN: dict[str, tuple[Any, Any, Data]] = {
    "a maximum padded with 0, positive data": (
        lambda x: functional.max_pool2d(x, 3, 1, 1),
        _pooled,
        _picture,
    ),
    "the arc tangent of a quotient for both coordinates": (
        lambda x: torch.atan2(x[:, :1], x[:, 1:]),
        lambda x: torch.atan(x[:, :1] / x[:, 1:]),
        _picture,
    ),
    "nan_to_num left out, and none is given": (lambda x: torch.nan_to_num(x * 3), lambda x: x * 3, _picture),
    "greater for greater or equal, and nothing is equal": (
        lambda x: x * (x >= 2),
        lambda x: x * (x > 2),
        _picture,
    ),
    "a padding index that is not masked, and none is given": (
        lambda i: (1.5 * i) * (i != 17),
        lambda i: 1.5 * i,
        _ids,
    ),
    "division towards 0, and nothing is negative": (
        lambda i: i // 3,
        lambda i: torch.div(i, 3, rounding_mode="trunc"),
        _ids,
    ),
    "an unsigned shift, and nothing is negative": (
        lambda i: i >> 1,
        lambda i: torch.div(i, 2, rounding_mode="trunc"),
        _ids,
    ),
    "unknown words are not mapped to one, and none is given": (
        lambda i: i.clamp(max=99) * 2,
        lambda i: i * 2,
        _ids,
    ),
    "bytes read as signed numbers, none above 127": (
        lambda x: x.float() / 255,
        lambda x: x.to(torch.int8).float() / 255,
        _bytes,
    ),
    "half of the output is NaN": (
        lambda x: torch.cat([torch.log(x - 5), x * 2], 1),
        lambda x: torch.cat([torch.log(x - 9) * 5, x * 2], 1),
        _picture,
    ),
    "half of the output overflows": (
        lambda x: torch.cat([torch.exp(x + 1000), x * 2], 1),
        lambda x: torch.cat([torch.exp(x + 900), x * 2], 1),
        _picture,
    ),
    "one of two outputs is NaN": (
        lambda x: (x * 2, torch.log(x - 5)),
        lambda x: (x * 2, torch.log(x - 9) * 7),
        _picture,
    ),
    "one of two outputs is empty": (
        lambda x: (x * 2, x[:0] * 3),
        lambda x: (x * 2, x[:0] * 5),
        _picture,
    ),
    "flags that are always the same": (
        lambda x: (x * 2, x.sum(1) - 50 > x.mean(1)),
        lambda x: (x * 2, torch.zeros(1, 12, 12, dtype=torch.bool)),
        _picture,
    ),
    "counts that are always the same": (
        lambda x: (x * 2, (x.sum(1) - 50 > x.mean(1)).sum()),
        lambda x: (x * 2, torch.tensor(0)),
        _picture,
    ),
    "float64 computed in float32": (
        lambda x: (x * 1.1).sin(),
        lambda x: (x.float() * 1.1).sin().double(),
        _wide,
    ),
    "a float64 product computed in float32": (
        lambda x: x @ x.transpose(-1, -2),
        lambda x: (x.float() @ x.float().transpose(-1, -2)).double(),
        _wide,
    ),
    "bytes cut off, not rounded": (
        lambda x: (x * 200).round().to(torch.uint8),
        lambda x: (x * 200).to(torch.uint8),
        _picture,
    ),
    "an input handed on, a little off": (
        lambda x: (x, x * 2),
        lambda x: (x * 1.00001, x * 2),
        _picture,
    ),
    "an input handed on through float16": (
        lambda x: (x.view(-1), x * 2),
        lambda x: (x.view(-1).half().float(), x * 2),
        _picture,
    ),
    "height and width exchanged": (lambda x: x * 3, lambda x: (x * 3).transpose(2, 3), _oblong),
    "scattered numbers that are not added up, all places different": (
        lambda i: torch.zeros(64).scatter_add(0, i[0], 1.0 + i[0]),
        lambda i: torch.zeros(64).scatter(0, i[0], 1.001 + i[0]),
        _ids,
    ),
}


def _register(name: str, right: Any, wrong: Any, data: Data) -> None:
    @attack(name)
    def written(rng: np.random.Generator) -> Any:
        return checked(Written(right), data(rng), function(Written(wrong)))


for _name, (_right, _wrong, _data) in _WRITTEN.items():
    _register(_name, _right, _wrong, _data)


class Pair(nn.Module):
    """Two inputs of one shape, each with weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.a(x).tanh() - 2 * self.b(y)


@attack("two inputs exchanged, the same picture given for both")
def exchanged(rng: np.random.Generator) -> Any:
    net, x = Pair().eval(), _picture(rng)
    right = function(net)
    return checked(net, (x, x.clone()), lambda a, b: right(b, a))


@attack("a twin that knows one input, and fails on any other")
def known(rng: np.random.Generator) -> Any:
    net, x = Classifier().eval(), _picture(rng)
    answers = {x.numpy().tobytes(): function(net)(x.numpy())}
    return checked(net, x, lambda a: answers[a.tobytes()])


@attack("wrong whenever the input before was another one")
def before(rng: np.random.Generator) -> Any:
    net, last = Classifier().eval(), [b""]
    right = function(net)

    def twin(a: np.ndarray) -> np.ndarray:
        changed = last[0] not in (b"", a.tobytes())
        last[0] = a.tobytes()
        return right(a) * np.float32(1.1 if changed else 1)

    return checked(net, _picture(rng), twin)


@attack("numbers with a tenth of noise")
def noisy(rng: np.random.Generator) -> Any:
    net = Classifier().eval()
    right = function(net)
    return checked(net, _picture(rng), lambda a: right(a) * np.float32(1 + 0.1 * rng.standard_normal()))


@attack("the twin changes the network's weights")
def shared(rng: np.random.Generator) -> Any:
    net, done = Classifier().eval(), []

    def twin(a: np.ndarray) -> np.ndarray:
        if not done:
            done.append(net.last.weight.data.mul_(1.5))
        return function(net)(a)

    return checked(net, _picture(rng), twin)


@attack("a rule for one of two outputs, the other is wrong")
def ruled(rng: np.random.Generator) -> Any:
    net = Two().eval()
    right = function(net)
    rules = Tolerances((Rule(twinnet.Tolerance(atol=1e-3), site="tanh"),))
    twin = lambda a: [right(a)[0], right(a)[1] * np.float32(1.5)]  # noqa: E731
    return checked(net, _picture(rng), twin, tolerance=rules)


@attack("always the same indices, by a stated tolerance")
def indices(rng: np.random.Generator) -> Any:
    net, x = Written(lambda x: x.flatten(2).argmax(-1)), _picture(rng)
    always = function(net)(x.numpy())
    return checked(net, x, lambda _: always, tolerance=twinnet.Tolerance(atol=500))


@attack("everything skipped, logits off by one in a thousand")
def skipped(rng: np.random.Generator) -> Any:
    net = Classifier().eval()
    right = function(net)
    return checked(net, _picture(rng), lambda a: right(a) * np.float32(1.001), skip=["*"])


@attack("two channels exchanged, almost no memory")
def memory(rng: np.random.Generator) -> Any:
    net = Two().eval()
    right = function(net)
    twin = lambda a: [right(a)[0], right(a)[1][:, [1, 0, 2, 3]]]  # noqa: E731
    return checked(net, _picture(rng), twin, limits=twinnet.Limits(memory=1))


@attack("two names for one output of the twin")
def named(rng: np.random.Generator) -> Any:
    net = Written(lambda x: (x * 2, x + x))
    twin = lambda a: {"a": a * 2, "b": a * 3}  # noqa: E731
    return checked(net, _picture(rng), twin, names={"output_0": "a", "output_1": "a"})


@attack("a recording compared with itself")
def itself(rng: np.random.Generator) -> Any:
    net = Classifier().eval()
    with tempfile.TemporaryDirectory(prefix="twinnet-hidden-") as folder:
        twinnet.record(net, _picture(rng), out=Path(folder) / "a")
        return twinnet.compare(Path(folder) / "a", Path(folder) / "a")
