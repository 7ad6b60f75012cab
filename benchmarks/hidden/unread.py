"""What all samples have in common hides: inputs that never change, grey pictures, one token, the first call, equals."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import twinnet
from benchmarks.hidden.attack import attack, checked, function
from benchmarks.hidden.nets import Classifier, Head, picture


class Together(nn.Module):
    """A picture, and a few numbers that say something about it."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.more = Classifier(), nn.Linear(4, 20)

    def forward(self, x: torch.Tensor, about: torch.Tensor) -> torch.Tensor:
        return self.net(x) + self.more(about)


class Warm(nn.Module):
    """A recurrent layer that starts from a state."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.last = nn.GRU(6, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return self.last(self.rnn(x, state)[0])


class Scaled(nn.Module):
    """One number that scales all."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Classifier()

    def forward(self, x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        return self.net(x) * by


class Chosen(nn.Module):
    """The largest of several numbers; of equal ones the first."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.argmax(1)


class Rounded(nn.Module):
    """One decimal."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.round(x * 10) / 10


def _made(rng: np.random.Generator) -> torch.Generator:
    return torch.Generator().manual_seed(int(rng.integers(2**31)))


def _always(net: nn.Module, second: torch.Tensor) -> Any:
    """The twin of a network with two inputs that has the second one built in."""
    right, kept = function(net), second.numpy()
    return lambda x, _: right(x, kept)


@attack("the smaller of two inputs is ignored")
def smaller(rng: np.random.Generator) -> Any:
    net, about = Together().eval(), torch.randn(1, 4, generator=_made(rng))
    return checked(net, (picture(int(rng.integers(99))), about), _always(net, about))


@attack("an input that is the same in three samples is ignored")
def same(rng: np.random.Generator) -> Any:
    net, about = Together().eval(), torch.randn(1, 4, generator=_made(rng))
    pictures = [picture(int(s)) for s in rng.choice(99, 3, replace=False)]
    samples = [{"x": p.numpy(), "about": about.numpy()} for p in pictures]
    return checked(net, samples, _always(net, about))


@attack("an input that is one number is ignored")
def number(rng: np.random.Generator) -> Any:
    net, by = Scaled().eval(), torch.tensor([float(rng.uniform(0.1, 0.9))])
    return checked(net, (picture(int(rng.integers(99))), by), _always(net, by))


@attack("an input that is a whole number is ignored")
def whole(rng: np.random.Generator) -> Any:
    net, by = Scaled().eval(), torch.tensor([float(rng.integers(1, 9))])
    return checked(net, (picture(int(rng.integers(99))), by), _always(net, by))


@attack("a state that is 0 is ignored")
def state(rng: np.random.Generator) -> Any:
    net, zero = Warm().eval(), torch.zeros(1, 2, 8)
    return checked(net, (torch.randn(2, 7, 6, generator=_made(rng)), zero), _always(net, zero))


@attack("the first of a batch for all, where all are equal in every sample")
def equal(rng: np.random.Generator) -> Any:
    net = Classifier().eval()
    right, pictures = function(net), rng.choice(99, 2, replace=False)
    samples = [picture(int(s)).repeat(4, 1, 1, 1) for s in pictures]
    return checked(net, samples, lambda x: np.repeat(right(x[:1]), len(x), 0))


@attack("channels in reverse order, all pictures grey")
def grey(rng: np.random.Generator) -> Any:
    net = Head().eval()
    right, pictures = function(net), rng.choice(99, 2, replace=False)
    samples = [picture(int(s), 1, 1, 12, 12).repeat(1, 3, 1, 1) for s in pictures]
    return checked(net, samples, lambda x: right(np.ascontiguousarray(x[:, ::-1])))


@attack("the border is left out, and dark in all pictures")
def border(rng: np.random.Generator) -> Any:
    net = Head().eval()
    right, dark = function(net), np.zeros((1, 1, 16, 16), np.float32)
    dark[..., :-1, :-1] = 1
    samples = [picture(int(s), 1, 3, 16, 16) * dark for s in rng.choice(99, 2, replace=False)]
    return checked(net, samples, lambda x: right(x * dark))


class Causal(nn.Module):
    """Attention to what came before."""

    def __init__(self, causal: bool = True) -> None:
        super().__init__()
        self.qkv, self.causal = nn.Linear(8, 24), causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)


@attack("no causal mask, and one token")
def token(rng: np.random.Generator) -> Any:
    net, twin = Causal().eval(), Causal(causal=False).eval()
    twin.load_state_dict(net.state_dict())
    return checked(net, torch.randn(2, 1, 8, generator=_made(rng)), function(twin))


@attack("always the output of the one sample, by a stated tolerance")
def stated(rng: np.random.Generator) -> Any:
    net, x = Classifier().eval(), picture(int(rng.integers(99)))
    always = function(net)(x.numpy())
    return checked(net, x, lambda _: always, tolerance=twinnet.Tolerance(snr=20))


@attack("a known factor that now has the other sign")
def sign(rng: np.random.Generator) -> Any:
    net, x = Classifier().eval(), picture(int(rng.integers(99)))
    right, off = function(net), float(rng.uniform(1e-3, 2e-3))
    with tempfile.TemporaryDirectory(prefix="twinnet-hidden-") as folder:
        twinnet.check(net, x, lambda a: right(a) * np.float32(1 + off), out=Path(folder) / "known")
        return checked(net, x, lambda a: right(a) * np.float32(1 - off), baseline=Path(folder) / "known")


@attack("wrong on the first call only")
def cold(rng: np.random.Generator) -> Any:
    net, calls = Classifier().eval(), []
    right = function(net)

    def twin(x: np.ndarray) -> np.ndarray:
        calls.append(1)
        return right(x) * np.float32(2 if len(calls) == 1 else 1)

    return checked(net, picture(int(rng.integers(99))), twin)


@attack("the last of numbers that are equal")
def last(rng: np.random.Generator) -> Any:
    x = torch.randn(64, 9, generator=_made(rng))
    x[5, 3] = x[5, 4] = 9.0
    return checked(Chosen(), x, lambda a: a.shape[1] - 1 - np.argmax(a[:, ::-1], 1))


@attack("half up for half to even, and nothing is halfway")
def halfway(rng: np.random.Generator) -> Any:
    def twin(x: np.ndarray) -> np.ndarray:
        return (np.floor(x * np.float32(10) + np.float32(0.5)) / np.float32(10)).astype(np.float32)

    return checked(Rounded(), 0.01 + 0.98 * picture(int(rng.integers(99))), twin)
