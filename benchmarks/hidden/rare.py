"""Wrong only where few inputs go: NaN, ties, one entry of a batch, padding, states, the second call."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import twinnet
from benchmarks.hidden.attack import attack, checked, function
from benchmarks.hidden.nets import Classifier, Head, picture


class Counted(nn.Module):
    """Scores and the classes they end in."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Classifier()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.net(x)
        return scores, scores.topk(3).indices


class Sequence(nn.Module):
    """A recurrent layer with its last state; what lies behind `lengths` is padding."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.last = nn.GRU(6, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, state = self.rnn(x)
        return self.last(y) * mask[..., None], state


class Masked(nn.Module):
    """Attention that leaves out what is masked."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = (q @ k.transpose(1, 2) / 8**0.5).masked_fill(mask[:, None, :] == 0, -1e9)
        return self.out(scores.softmax(-1) @ v)


class Guarded(nn.Module):
    """A fallback for numbers that are missing."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(torch.where(torch.isnan(x), torch.zeros_like(x), x))


class Hashed(nn.Module):
    """Whole numbers modulo another one; a negative one wraps."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids % 7)


class Added(nn.Module):
    """A vector that is added to the rows, not to the columns, of a square."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.linspace(-1, 1, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.bias[:, None]


class Branching(nn.Module):
    """Three kinds of numbers: below, between, above."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0.9, x * 2, torch.where(x < 0.1, x - 1, x))


def _made(rng: np.random.Generator) -> torch.Generator:
    return torch.Generator().manual_seed(int(rng.integers(2**31)))


Change = Callable[[list[np.ndarray]], list[np.ndarray]]


def _changed(net: nn.Module, change: Change) -> Callable[..., Any]:
    right = function(net)

    def run(*given: np.ndarray) -> list[np.ndarray]:
        found = right(*given)
        return change([np.array(f) for f in (found if isinstance(found, list) else [found])])

    return run


def _at(place: Any, value: Callable[[np.ndarray], Any], which: int = 0) -> Change:
    def change(outputs: list[np.ndarray]) -> list[np.ndarray]:
        outputs[which][place] = value(outputs[which][place])
        return outputs

    return change


@attack("the last of a batch of five repeats the first")
def batch_last(rng: np.random.Generator) -> Any:
    net, x = Classifier().eval(), picture(int(rng.integers(99)), 5, 3, 12, 12)
    right = function(net)
    return checked(net, x, lambda a: right(np.concatenate([a[:4], a[:1]])))


@attack("one entry of a batch sees another's pixels in one row")
def batch_leak(rng: np.random.Generator) -> Any:
    net, x = Head().eval(), picture(int(rng.integers(99)), 3, 3, 12, 12)
    right = function(net)

    def twin(a: np.ndarray) -> np.ndarray:
        a = a.copy()
        a[2, :, 5] = a[0, :, 5]
        return right(a)

    return checked(net, x, twin)


@attack("indices of the best in the wrong order")
def order(rng: np.random.Generator) -> Any:
    net = Counted().eval()
    twin = _changed(net, lambda o: [o[0], o[1][:, ::-1].copy()])
    return checked(net, picture(int(rng.integers(99)), 2, 3, 12, 12), twin)


@attack("indices of the worst")
def worst(rng: np.random.Generator) -> Any:
    net = Counted().eval()
    twin = _changed(net, lambda o: [o[0], np.argsort(o[0], 1)[:, :3]])
    return checked(net, picture(int(rng.integers(99))), twin)


@attack("indices as int32")
def indices(rng: np.random.Generator) -> Any:
    net = Counted().eval()
    twin = _changed(net, lambda o: [o[0], o[1].astype(np.int32)])
    return checked(net, picture(int(rng.integers(99))), twin)


def _sequence(rng: np.random.Generator, change: Change) -> Any:
    net = Sequence().eval()
    x = torch.randn(2, 7, 6, generator=_made(rng))
    mask = torch.ones(2, 7)
    mask[0, 5:], mask[1, 3:] = 0, 0
    return checked(net, (x, mask), _changed(net, change))


@attack("padding rows that are not 0")
def padding(rng: np.random.Generator) -> Any:
    return _sequence(rng, _at((1, slice(3, None)), lambda v: v + 1e-3))


@attack("the state of one sequence is the other's")
def state(rng: np.random.Generator) -> Any:
    return _sequence(rng, lambda o: [o[0], o[1][:, ::-1].copy()])


@attack("the state a step too early")
def early(rng: np.random.Generator) -> Any:
    return _sequence(rng, _at(..., lambda v: v * np.float32(0.999), 1))


@attack("a mask that is ignored, nothing masked")
def no_mask(rng: np.random.Generator) -> Any:
    net = Masked().eval()
    x, mask = torch.randn(2, 6, 8, generator=_made(rng)), torch.ones(2, 6)
    right = function(net)
    return checked(net, (x, mask), lambda a, m: right(a, np.ones_like(m)))


@attack("a mask that is ignored, some masked")
def some_masked(rng: np.random.Generator) -> Any:
    net = Masked().eval()
    x, mask = torch.randn(2, 6, 8, generator=_made(rng)), torch.ones(2, 6)
    mask[1, 5] = 0
    right = function(net)
    return checked(net, (x, mask), lambda a, m: right(a, np.ones_like(m)))


@attack("the mask of the first for the whole batch")
def first_mask(rng: np.random.Generator) -> Any:
    net = Masked().eval()
    x, mask = torch.randn(2, 6, 8, generator=_made(rng)), torch.ones(2, 6)
    mask[:, 4:] = 0
    mask[1, 4] = 1
    right = function(net)
    return checked(net, (x, mask), lambda a, m: right(a, np.repeat(m[:1], 2, 0)))


@attack("NaN is not replaced, and none is given")
def nan(rng: np.random.Generator) -> Any:
    net = Guarded().eval()
    conv = function(net.conv)
    return checked(net, picture(int(rng.integers(99))), lambda a: conv(a))


@attack("a negative number does not wrap, and none is given")
def negative(rng: np.random.Generator) -> Any:
    net = Hashed().eval()
    right = function(net)
    ids = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 13]])
    return checked(net, ids, lambda a: right(np.abs(a)))


@attack("added to the columns of a square, symmetric data")
def columns(rng: np.random.Generator) -> Any:
    net, x = Added().eval(), torch.rand(8, 8, generator=_made(rng))
    x = x + x.T
    bias = net.bias.detach().numpy()
    return checked(net, x, lambda a: a + bias[None, :])


@attack("every second call is wrong")
def alternating(rng: np.random.Generator) -> Any:
    net, calls = Classifier().eval(), []
    right = function(net)

    def twin(a: np.ndarray) -> np.ndarray:
        calls.append(1)
        return right(a) * np.float32(1 + 0.1 * (len(calls) % 2 == 0))

    return checked(net, picture(int(rng.integers(99))), twin)


@attack("wrong from the fifth call on")
def warm(rng: np.random.Generator) -> Any:
    net, calls = Classifier().eval(), []
    right = function(net)

    def twin(a: np.ndarray) -> np.ndarray:
        calls.append(1)
        return right(a) * np.float32(1 + 0.1 * (len(calls) > 4))

    return checked(net, [picture(s) for s in range(3)], twin)


@attack("the input is written over")
def overwritten(rng: np.random.Generator) -> Any:
    net = Classifier().eval()
    right = function(net)

    def twin(a: np.ndarray) -> np.ndarray:
        found = right(a)
        a *= 0
        return found

    return checked(net, [picture(s) for s in range(2)], twin)


@attack("one buffer for all results")
def buffer(rng: np.random.Generator) -> Any:
    net = Classifier().eval()
    right, kept = function(net), np.zeros((1, 20), np.float32)

    def twin(a: np.ndarray) -> np.ndarray:
        kept[:] = right(a)
        return kept

    wrong = _changed(net, lambda o: [o[0] * np.float32(1.01)])
    samples = [picture(s) for s in range(3)]
    last = samples[-1].numpy()
    return checked(net, samples, lambda a: wrong(a)[0] if np.array_equal(a, last) else twin(a))


@attack("ties broken the other way, and the values with them")
def ties(rng: np.random.Generator) -> Any:
    class Tied(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.argmax(1), x[:, :3] * 2

    net, x = Tied().eval(), torch.zeros(4, 6)
    x[:, 2] = 1
    x[:, 4] = 1 - 1e-3
    twin = _changed(net, lambda o: [np.full(4, 4), o[1]])
    return checked(net, x, twin)


@attack("the last row and column, where the picture is dark")
def edge(rng: np.random.Generator) -> Any:
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.ReLU()).eval()
    x = picture(int(rng.integers(99)), 1, 3, 16, 16)
    x[..., -3:, :], x[..., -3:] = 0, 0
    right = function(net)

    def twin(a: np.ndarray) -> np.ndarray:
        return np.pad(right(a[..., :-1, :-1]), ((0, 0), (0, 0), (0, 1), (0, 1)))

    return checked(net, x, twin)


@attack("one of three ranges of numbers, seldom met")
def ranges(rng: np.random.Generator) -> Any:
    net = Branching().eval()
    x = 0.2 + 0.6 * picture(int(rng.integers(99)))
    return checked(net, x, lambda a: np.where(a < 0.1, a, np.where(a > 0.9, a * 2, a)))


@attack("minus zero and subnormal numbers")
def sign(rng: np.random.Generator) -> Any:
    class Inverse(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 1 / (x * 0.5)

    net = Inverse().eval()
    x = torch.linspace(0.5, 2, 32).reshape(4, 8)
    x[0, 0] = -0.0
    return checked(net, x, lambda a: np.where(a == 0, np.inf, 2 / np.where(a == 0, 1, a)).astype(np.float32))


@attack("complex conjugated")
def conjugate(rng: np.random.Generator) -> Any:
    class Fourier(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft(x)

    net, x = Fourier().eval(), torch.rand(2, 16, generator=_made(rng))
    return checked(net, x, lambda a: np.conj(np.fft.rfft(a)).astype(np.complex64))


@attack("flags inverted in one place of many")
def flags(rng: np.random.Generator) -> Any:
    class Flags(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x > 0.5

    net, x = Flags().eval(), picture(int(rng.integers(99)), 1, 64, 64)
    return checked(net, x, _changed(net, _at((0, 3, 3), np.logical_not)))


@attack("an int64 that needs more than 32 bits")
def wide(rng: np.random.Generator) -> Any:
    class Hash(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2654435761 + 12345

    net, x = Hash().eval(), torch.arange(1, 40)
    return checked(net, x, lambda a: (a * 2654435761 + 12345).astype(np.int32).astype(np.int64))


class Related(nn.Module):
    """Products of all rows with each other, and something large for every row with itself."""

    def __init__(self, off: float = 0.0) -> None:
        super().__init__()
        self.first, self.off = nn.Linear(16, 16), off

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, own = self.first(x).tanh(), torch.eye(len(x))
        return y @ y.transpose(0, 1) * (1 + self.off * (1 - own)) + 1e6 * own


@attack("large numbers in every row and column, the others wrong, in a recording")
def diagonal(rng: np.random.Generator) -> Any:
    net, wrong = Related().eval(), Related(float(rng.uniform(0.1, 0.5))).eval()
    wrong.load_state_dict(net.state_dict())
    x = torch.randn(24, 16, generator=_made(rng))
    with tempfile.TemporaryDirectory(prefix="twinnet-hidden-") as folder:
        ours, theirs = Path(folder) / "ours", Path(folder) / "theirs"
        twinnet.record(net, x, level="outputs", out=ours)
        twinnet.record(wrong, x, level="outputs", out=theirs)
        return twinnet.compare(ours, theirs)


@attack("one more element than asked for, an empty one dropped")
def empty(rng: np.random.Generator) -> Any:
    class Kept(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x[:, :0], x.sum(1)

    net, x = Kept().eval(), torch.rand(3, 9, generator=_made(rng))
    return checked(net, x, _changed(net, lambda o: [np.zeros((3, 1), np.float32), o[1]]))
