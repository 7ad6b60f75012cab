"""External delegates: a library compiled here is loaded, takes over an operator, and is judged as any kernel is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

import twinnet
from tests.needs import absent, need_engine
from twinnet.engines._litert_make import converted
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.result import Result

_SOURCE = Path(__file__).with_name("delegate.cpp")


def _net() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sigmoid(), nn.Conv2d(4, 4, 3), nn.Tanh()).eval()
    return net, torch.randn(1, 3, 10, 10)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_engine("litert")
    if shutil.which("g++") is None:
        absent("there is no C++ compiler")
    net, x = _net()
    path = tmp_path_factory.mktemp("delegate") / "net.tflite"
    path.write_bytes(converted(load_network((net, (x,))), Job({"input": x.numpy()})).data)
    return path


def _library(folder: Path, *flags: str) -> Path:
    made = folder / "".join(("libtest", *flags, ".so"))
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Werror", *flags]
    subprocess.run([*command, str(_SOURCE), "-o", str(made)], check=True)
    return made


def _checked(model: Path, library: Path) -> Result:
    net, x = _net()
    found = twinnet.check(
        net, x, f"litert?kernels=builtin&delegate={library}:{model}", keep="none", trust=True
    )
    assert isinstance(found, Result)
    return found


@pytest.mark.parametrize("flags", [(), ("-DCLAIMS_NOTHING",)], ids=["one operator", "none"])
def test_a_delegate_that_computes_the_same_passes(flags: tuple[str, ...], model: Path) -> None:
    found = _checked(model, _library(model.parent, *flags))
    assert found.verdict == "PASS" and len(found.pairs) >= 4, found


def test_a_delegate_with_other_kernels_is_found_out(model: Path) -> None:
    found = _checked(model, _library(model.parent, "-DFAULT"))
    assert found.verdict == "FAIL", found
    [finding] = found.findings
    assert finding.place.module == "1" and finding.cause is not None, found
    assert finding.cause.kind == "activation", found


def test_a_library_that_is_no_delegate_is_an_error(model: Path) -> None:
    source = model.parent / "empty.cpp"
    source.write_text("")
    made = model.parent / "libempty.so"
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(made)], check=True)
    found = _checked(model, made)
    assert found.verdict == "ERROR" and "tflite_plugin_create_delegate" in found.error, found
