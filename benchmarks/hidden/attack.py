"""What an attack is, and when it has succeeded."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

import twinnet
from twinnet.checking.case import Case, read_network
from twinnet.checking.options import Options
from twinnet.checking.run import check_case
from twinnet.engines.callable import CallableSession
from twinnet.errors import UsageError
from twinnet.job import Job
from twinnet.trace import Trace, TraceBuilder

__all__ = ["ATTACKS", "Deployed", "Told", "attack", "check_deployed", "checked", "function", "run_attack"]

Attack = Callable[[np.random.Generator], Any]

_NAMED = ("exercise.missing", "exercise.twin", "inputs.still", "inputs.sizes", "outputs.still")

ATTACKS: dict[str, Attack] = {}
"""Every attack by name: it makes a wrong twin and gives what twinnet says of it."""


def attack(name: str) -> Callable[[Attack], Attack]:
    """Register an attack."""

    def put(made: Attack) -> Attack:
        assert name not in ATTACKS
        ATTACKS[name] = made
        return made

    return put


@dataclass(frozen=True)
class Told:
    """What came of an attack: the answer in short, and whether the wrong twin passed unnoticed."""

    name: str
    answer: str
    hidden: bool


def run_attack(name: str, seed: int) -> Told:
    """Try one attack."""
    rng = np.random.default_rng([seed, len(name), *name.encode()])
    torch.manual_seed(int(rng.integers(2**31)))
    try:
        result = ATTACKS[name](rng)
    except UsageError as error:
        return Told(name, f"refused: {error.what}", False)
    verdict = f"{result.verdict} ({result.evidence})"
    said = " | ".join(g.message for g in result.guards if g.name in ("coverage", "degenerate data"))
    hidden = result.verdict == "PASS" and result.evidence == "strong"
    # What the data did not exercise and twinnet names is no silence.
    named = any(g.fact.code in _NAMED for g in result.guards)
    return Told(name, f"{verdict} {said}".strip(), hidden and not named)


def function(net: nn.Module) -> Callable[..., Any]:
    """A module as a function of arrays that shows its outputs and nothing else."""

    def run(*given: np.ndarray) -> Any:
        with torch.no_grad():
            found = net(*(torch.from_numpy(np.ascontiguousarray(g)) for g in given))
        return [f.numpy() for f in found] if isinstance(found, tuple) else found.numpy()

    return run


def checked(net: Any, inputs: Any, twin: Any, **options: Any) -> twinnet.Result:
    """The answer to one check."""
    found = twinnet.check(net, inputs, twin, keep="none", **options)
    assert isinstance(found, twinnet.Result)
    return found


class Deployed(CallableSession):
    """A twin that computes something else while it is watched."""

    looks = False

    def __init__(self, watched: Any, hidden: Any, network: Any, job: Job) -> None:
        self._watched, self._hidden = watched, hidden
        super().__init__(self._either, network, job)

    def _either(self, *given: np.ndarray) -> Any:
        return (self._watched if self.looks else self._hidden)(*given)

    def trace(self, inputs: Any, watch: Collection[str], builder: TraceBuilder) -> Trace:
        self.looks = True
        try:
            return super().trace(inputs, watch, builder)
        finally:
            self.looks = False


def check_deployed(net: nn.Module, hidden: Any, samples: Any) -> twinnet.Result:
    """Check a twin that is right while it is watched, and `hidden` as deployed."""
    options = Options(keep="none")
    loaded, feed = read_network(net, samples, options)
    session = Deployed(function(net), hidden, loaded, Job(feed.samples[0], samples=feed.samples))
    return check_case(Case.of(loaded, feed, session, options))
