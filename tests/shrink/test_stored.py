"""Twins that cannot be run apart from the user's code: their values are the repro."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import twinnet
from tests.shrink.conftest import Start
from twinnet.errors import UsageError


def build() -> torch.nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 4)).eval()


X = torch.linspace(-2, 2, 24).reshape(3, 8)


def approximate(x: np.ndarray) -> dict[str, np.ndarray]:
    net = build()
    with torch.no_grad():
        first = net[0](torch.from_numpy(x))
        second = torch.nn.functional.gelu(first, approximate="tanh")
        return {"0": first.numpy(), "1": second.numpy(), "output": net[2](second).numpy()}


def test_a_function_leaves_its_values(tmp_path: Path, start: Start) -> None:
    folder = tmp_path / "repro"
    made = twinnet.repro(twinnet.check(build(), X, approximate), folder)
    assert (made.kind, made.confirmed) == ("stored", True)
    assert "gelu" in made.sentence
    assert start(folder)[0] == 1
    with np.load(folder / "inputs.npz") as data:
        inputs = data["in0"]
    # The same layer done right, on the stored inputs, is no fault; nothing at all is no answer.
    healed = torch.nn.functional.gelu(torch.from_numpy(inputs)).numpy()
    np.savez(folder / "observed.npz", observed=healed)
    assert start(folder)[0] == 0
    (folder / "observed.npz").unlink()
    assert start(folder)[0] == 3


def test_its_data_cannot_be_hidden(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be run apart"):
        twinnet.repro(twinnet.check(build(), X, approximate), tmp_path / "repro", confidential=True)


@pytest.mark.parametrize("known", [True, False], ids=["with the network", "numbers only"])
def test_two_recordings(known: bool, tmp_path: Path, start: Start) -> None:
    net = build()
    twinnet.record(net, X, out=tmp_path / "a")
    with torch.no_grad():
        net[0].weight *= 1.5
    twinnet.record(net, X, out=tmp_path / "b")
    found = twinnet.compare(tmp_path / "a", tmp_path / "b", network=(build(), X) if known else None)
    made = twinnet.repro(found, tmp_path / "repro")
    assert (made.kind, made.confirmed) == ("stored", True)
    assert ("0 linear" in made.sentence) == known
    assert start(tmp_path / "repro")[0] == 1
