"""The C++ program of docs/executorch.md: compiled with the machine's compiler, run, and its recording used."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import twinnet
from tests.needs import absent, need_engine
from twinnet.result import Result
from twinnet.store import TensorFile

_PAGE = Path(__file__).parents[2] / "docs" / "executorch.md"


def _net() -> nn.Module:
    torch.manual_seed(0)
    layers = (
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return nn.Sequential(*layers, nn.Linear(8, 5)).eval()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, its ETRecord, an input, and what the program of the page recorded."""
    need_engine("executorch")
    import executorch

    package = Path(executorch.__path__[0])
    if shutil.which("g++") is None or not (package / "lib" / "libexecutorch_etdump.so").is_file():
        absent("no C++ compiler, or a wheel without libraries")
    folder = tmp_path_factory.mktemp("device")
    net, x = _net(), torch.randn(1, 3, 16, 16)
    twinnet.record(net, x, out=folder / "recording", reference="executorch")
    made = folder / "recording" / "0000"
    shutil.copy(made / "program.pte", folder / "model.pte")
    [array] = [np.asarray(TensorFile(made / "inputs.safetensors")[n]) for n in ("input",)]
    array.astype(np.float32).tofile(folder / "input.bin")
    page = _PAGE.read_text()
    [code] = re.findall(r"^```cpp\n(.*?)^```$", page, re.M | re.S)
    [command] = re.findall(r"^(g\+\+ .*?)\n```$", page, re.M | re.S)
    (folder / "record.cpp").write_text(code)
    words = [w.replace("$E", str(package)) for w in shlex.split(command.replace("\\\n", " "))]
    subprocess.run([*words, "-w"], cwd=folder, check=True)
    subprocess.run([folder / "record"], cwd=folder, check=True, capture_output=True)
    return folder


def _twin(folder: Path) -> str:
    named = f"etdump={folder}/model.etdp&buffer={folder}/debug.bin"
    return f"executorch:{folder}/model.pte?{named}&etrecord={folder}/recording/0000/program.etrecord"


def test_the_recording_is_that_of_the_engine(recorded: Path) -> None:
    ours = twinnet.Inspector(recorded / "recording")
    theirs = twinnet.Inspector(
        etdump_path=recorded / "model.etdp",
        buffer_path=recorded / "debug.bin",
        etrecord=recorded / "recording" / "0000" / "program.etrecord",
    )
    one, two = (i.event_blocks[-1] for i in (ours, theirs))
    assert [(e.op, e.module) for e in one.events] == [(e.op, e.module) for e in two.events]
    compared = twinnet.compare_results(one.run_output, two.run_output)
    assert all(row["max_abs"] == 0 for row in compared.values()), compared


def test_the_recording_is_a_twin(recorded: Path) -> None:
    inputs = TensorFile(recorded / "recording" / "0000" / "inputs.safetensors")
    x = np.array(inputs["input"])
    right = twinnet.check(_net(), x, _twin(recorded), keep="none")
    assert isinstance(right, Result) and right.verdict == "PASS" and len(right.pairs) >= 5, right
    other = _net()
    with torch.no_grad():
        other.get_submodule("0").bias.zero_()  # type: ignore[union-attr]
    wrong = twinnet.check(other, x, _twin(recorded), keep="none")
    assert isinstance(wrong, Result) and wrong.verdict == "FAIL"
    assert wrong.findings[0].cause is not None and wrong.findings[0].cause.kind == "bias", wrong
