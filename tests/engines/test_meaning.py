"""A network with a meaning of its own is judged, explained and shown by that meaning, whoever brings it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import twinnet
from twinnet.engines import BUILT_IN
from twinnet.engines.base import Session
from twinnet.engines.meaning import Meaning, OwnJudge
from twinnet.engines.torch import TorchEngine, TorchSession
from twinnet.job import Arrays
from twinnet.judge.verdicts import Born
from twinnet.layers import Graph
from twinnet.pairing import Pair
from twinnet.result import PairResult, Result, said

NET = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
X = torch.linspace(-1, 1, 12).reshape(3, 4)


class SignJudge(OwnJudge):
    """Only signs count; each tensor is judged by itself."""

    def __init__(self, graph: Graph, inputs: Mapping[str, str], pairs: Sequence[Pair]) -> None:
        self.graph, self.inputs = graph, inputs

    def segment(self, tensor: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
        return self.graph.segment([tensor], list(self.inputs))

    def labels(self, tensor: str) -> tuple[str, ...]:
        return (tensor,)

    def on(self, sample: Arrays, network_trace: Arrays, twin_trace: Arrays) -> Callable[[Pair], Born]:
        def judge(pair: Pair) -> Born:
            ours = np.sign(network_trace[pair.site.tensor])
            theirs = np.sign(pair.transform.to_network(twin_trace[pair.twin_site.tensor]))
            off = int((ours != theirs).sum())
            reason = said(f"{off} signs are wrong") if off else None
            return Born("fail" if off else "pass", float(off), float(off), 0.0, reason, (pair.site.tensor,))

        return judge


class Signs(Meaning):
    name: ClassVar[str] = "signs"
    unit: ClassVar[str] = "signs"

    def __init__(self, session: Session) -> None:
        self._session = session

    def judge(self, pairs: Sequence[Pair], twin: Session) -> SignJudge:
        graph = self._session.graph()
        assert graph is not None
        return SignJudge(graph, {tensor: name for name, tensor in self._session.inputs.items()}, pairs)

    def contributors(self, pairs: Sequence[PairResult]) -> Sequence[PairResult]:
        return [p for p in pairs if p.difference.max_abs > 0][:1]

    def pixel(
        self, stopped: Any, row: PairResult, index: tuple[int, ...]
    ) -> tuple[list[str], dict[str, Any]]:
        return ["by its sign"], {"sign": True}

    def place(self, stopped: Any, row: PairResult) -> list[str]:
        return [f"sign of {row.site.tensor}"]


class SignSession(TorchSession):
    @property
    def meaning(self) -> Meaning:
        return Signs(self)


class SignEngine(TorchEngine):
    name: ClassVar[str] = "signs"

    def open(self, network: Any, options: Any, file: Any, job: Any) -> Session:
        return SignSession(network, job)


@pytest.fixture(autouse=True)
def guest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILT_IN, "signs", f"{__name__}:SignEngine")


def scaled(factor: float) -> Callable[..., dict[str, np.ndarray]]:
    def twin(x: np.ndarray) -> dict[str, np.ndarray]:
        with torch.no_grad():
            return {"output": NET(torch.from_numpy(x)).numpy() * factor}

    return twin


def checked(factor: float, **options: Any) -> Result:
    result = twinnet.check(NET, X, scaled(factor), reference="signs", **options)
    assert isinstance(result, Result)
    return result


def test_its_judge_decides_and_is_named() -> None:
    result = checked(0.5)  # far beyond any rounding
    assert result.verdict == "PASS" and result.judged_by == "signs"
    assert [c.site.role for c in result.contributors] == ["output"]
    assert twinnet.check(NET, X, scaled(0.5)).verdict == "FAIL"


def test_what_it_finds_has_a_repro_of_stored_values(tmp_path: Path) -> None:
    result = checked(-1.0, out=tmp_path / "run")
    assert result.verdict == "FAIL" and "12 signs are wrong" in str(result.findings[0].reason)
    assert result.findings[0].cause is None
    assert twinnet.repro(tmp_path / "run", tmp_path / "repro").kind == "stored"


def test_the_debugger_shows_it() -> None:
    from twinnet.checking.options import Options
    from twinnet.debugger.commands import COMMANDS
    from twinnet.debugger.start import stop_at_check

    stopped = stop_at_check(NET, X, scaled(0.5), options=Options(reference="signs"))
    try:
        assert stopped.unit == "signs"
        answer = COMMANDS["at"].function(stopped, stopped.rows[-1].site.tensor, 1, 2)
        assert answer.data["sign"] and "by its sign" in answer.text
        assert "sign of" in COMMANDS["where"].function(stopped, stopped.rows[-1].site.tensor).text
    finally:
        stopped.close()
