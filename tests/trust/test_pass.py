"""Wrong twins that try to pass: none may PASS with strong evidence and without a word."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import twinnet
from twinnet.engines.callable import CallableSession
from twinnet.job import Job
from twinnet.trace import Trace, TraceBuilder

torch.manual_seed(3)


class Head(nn.Module):
    """Boxes of up to 1280 beside scores of up to 1, in one output."""

    def __init__(self, depth: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(layer for _ in range(depth) for layer in (nn.Conv2d(8, 8, 3, padding=1), nn.SiLU()))
        )
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.box = nn.Conv2d(8, 4, 1)
        self.score = nn.Conv2d(8, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(self.stem(x))
        boxes, scores = self.box(x).sigmoid() * 1280, (8 * self.score(x)).sigmoid()
        return torch.cat([boxes.flatten(2), scores.flatten(2)], 1).transpose(1, 2)


def plain(net: nn.Module) -> Callable[..., Any]:
    def twin(*given: np.ndarray) -> Any:
        with torch.no_grad():
            found = net(*map(torch.from_numpy, given))
        return [f.numpy() for f in found] if isinstance(found, tuple) else found.numpy()

    return twin


def wrong_scores(net: nn.Module, amount: float) -> Callable[[np.ndarray], np.ndarray]:
    right = plain(net)

    def twin(x: np.ndarray) -> np.ndarray:
        y = right(x).copy()
        y[..., 4:] = np.abs(y[..., 4:] - amount)
        return y

    return twin


def checked(net: Any, x: Any, twin: Any, **options: Any) -> twinnet.Result:
    found = twinnet.check(net, x, twin, keep="none", **options)
    assert isinstance(found, twinnet.Result)
    return found


X = torch.rand(1, 3, 12, 12, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("depth", [1, 3, 6])
@pytest.mark.parametrize("amount", [0.8, 0.05])
@pytest.mark.parametrize("level", ["sites", "outputs"])
def test_a_large_exact_part_hides_nothing(depth: int, amount: float, level: Any) -> None:
    net = Head(depth).eval()
    found = checked(net, X, wrong_scores(net, amount), level=level)
    assert found.verdict == "FAIL"


@pytest.mark.parametrize("depth", [1, 3, 6])
def test_a_right_twin_of_it_passes_with_strong_evidence(depth: int) -> None:
    net = Head(depth).eval()
    found = checked(net, X, plain(net))
    assert (found.verdict, found.evidence) == ("PASS", "strong")


class Shifted(Head):
    """The same head with all scores off."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        return torch.cat([y[..., :4], (y[..., 4:] - 0.05).abs()], -1)


def test_nor_in_two_recordings(tmp_path: Path) -> None:
    for name, kind in (("ours", Head), ("same", Head), ("wrong", Shifted)):
        torch.manual_seed(6)
        twinnet.record(kind().eval(), X, level="outputs", out=tmp_path / name)
    assert twinnet.compare(tmp_path / "ours", tmp_path / "same").verdict == "PASS"
    assert twinnet.compare(tmp_path / "ours", tmp_path / "wrong").verdict == "FAIL"


class Classes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x).argmax(1)


def test_integers_are_equal_or_not() -> None:
    net = Classes().eval()
    x = torch.randn(5, 4000, generator=torch.Generator().manual_seed(1))
    found = checked(net, x, lambda a: plain(net)(a) + 1)
    assert found.verdict == "FAIL"


class Deployed(CallableSession):
    """A twin that does something else when nobody looks."""

    def __init__(self, function: Any, hidden: Any, network: Any, job: Job) -> None:
        self.hidden, self.watched = hidden, function
        super().__init__(self._either, network, job)

    looks = False

    def _either(self, *given: np.ndarray) -> Any:
        return (self.watched if self.looks else self.hidden)(*given)

    def trace(self, inputs: Any, watch: Collection[str], builder: TraceBuilder) -> Trace:
        self.looks = True
        try:
            return super().trace(inputs, watch, builder)
        finally:
            self.looks = False


def deployed(net: nn.Module, hidden: Any, samples: list[Any]) -> twinnet.Result:
    from twinnet.checking.case import Case, read_network
    from twinnet.checking.options import Options
    from twinnet.checking.run import check_case

    options = Options(keep="none")
    loaded, feed = read_network(net, samples, options)
    session = Deployed(plain(net), hidden, loaded, Job(feed.samples[0], samples=feed.samples))
    return check_case(Case.of(loaded, feed, session, options))


@pytest.mark.parametrize("which", ["second", "all"])
def test_what_is_deployed_is_judged_on_every_sample(which: str) -> None:
    net = Head(2).eval()
    samples = [torch.rand(1, 3, 12, 12, generator=torch.Generator().manual_seed(i)) for i in (1, 2, 3)]
    right = plain(net)

    def hidden(x: np.ndarray) -> np.ndarray:
        if which == "second":
            return right(x) * (1.5 if np.array_equal(x, samples[1].numpy()) else 1)
        return right(x) * np.float32(1.002)

    assert deployed(net, right, samples).verdict == "PASS"
    assert deployed(net, hidden, samples).verdict == "FAIL"


def test_a_twin_that_ignores_its_input() -> None:
    net = Head().eval()
    always = plain(net)(X.numpy())
    assert checked(net, [X], lambda x: always).verdict == "FAIL"


class Two(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x), torch.relu(x) * 1.0


def said(result: twinnet.Result) -> bool:
    return result.verdict == "FAIL" or result.evidence == "weak"


def test_a_dropped_output_is_said() -> None:
    found = checked(Two().eval(), X, lambda x: np.maximum(x, 0))
    assert said(found)


def test_another_dtype_is_said() -> None:
    net = Head().eval()
    found = checked(net, X, lambda x: plain(net)(x).astype(np.float64))
    assert said(found)
    ints = Classes().eval()
    x = torch.randn(5, 400)
    assert said(checked(ints, x, lambda a: plain(ints)(a).astype(np.int32)))


class Clipped(nn.Module):
    """A clip on the input that no picture in [0,1] reaches."""

    def __init__(self, lost: bool = False) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.conv = nn.Conv2d(3, 4, 3)
        self.lost = lost

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x if self.lost else x.clamp(0, 1))


def test_synthetic_samples_reach_both_sides_of_every_bound() -> None:
    shape = {"x": (1, 3, 16, 16)}
    right = checked(Clipped().eval(), None, plain(Clipped().eval()), shapes=shape)
    assert (right.verdict, right.evidence) == ("PASS", "strong")
    assert "stretched" in right.inputs.description
    wrong = checked(Clipped().eval(), None, plain(Clipped(lost=True).eval()), shapes=shape)
    assert wrong.verdict == "FAIL"


def test_what_given_data_does_not_reach_is_said() -> None:
    found = checked(Clipped().eval(), X, plain(Clipped(lost=True).eval()))
    assert found.verdict == "PASS"
    assert any("never sees a value below 0" in g.message for g in found.guards)


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.body = nn.Sequential(*(nn.Conv2d(3, 3, 3, padding=1) for _ in range(8)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return torch.cat([y, torch.relu(y - 1e3)], 1)


def test_a_part_that_the_data_leaves_at_zero_is_said_to_be_untested() -> None:
    net = Halves().eval()
    found = checked(net, [X, X + 0.1], plain(net))
    assert (found.verdict, found.evidence) == ("PASS", "weak")
    assert any("432 of 864 elements" in g.message for g in found.guards)
