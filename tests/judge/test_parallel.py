"""One after the other or several at once: the same answers in the same order, and torch's threads as they were."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch

from twinnet.judge import parallel


@pytest.mark.parametrize("elements", [10, 1 << 22])
def test_answers_come_in_order(elements: int) -> None:
    before = torch.get_num_threads()
    with parallel.mapping(elements) as over:
        seen = list(over(lambda n: (n, torch.get_num_threads()), range(50)))
    assert [n for n, _ in seen] == list(range(50))
    assert {threads for _, threads in seen} == {before if elements == 10 or parallel._cores() == 1 else 1}
    assert torch.get_num_threads() == before


def test_only_large_tensors_are_handed_to_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_cores", lambda: 2)
    here = threading.get_ident()
    with parallel.mapping(1000) as over:
        assert {i == here for i in over(lambda _: threading.get_ident(), range(8))} == {True}
    with parallel.mapping(1 << 22) as over:
        assert {i == here for i in over(lambda _: threading.get_ident(), range(8))} == {False}


_CODE = """
import sys, torch
from twinnet.judge.parallel import mapping
if "map" in sys.argv:
    with mapping(1 << 22) as over:
        assert list(over(abs, [-1, 2])) == [1, 2]
print(torch.get_num_threads())
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core only")
def test_pytorch_keeps_its_threads() -> None:
    """A user's own code after a check would run on one core, and so would evaluating a whole network."""
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    told = [
        subprocess.run(
            [sys.executable, "-c", _CODE, *words], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for words in ([], ["map"])
    ]
    assert told[0] == told[1] and int(told[0]) > 1
