"""Other packages add engines, causes, metrics and tasks: two small packages are installed with pip and used."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from filelock import FileLock

PACKAGES = Path(__file__).parent / "plugins"
NETWORK = """
import torch

def build():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    return net, torch.randn(32, 8)
"""


def _installed(name: str, factory: pytest.TempPathFactory) -> Path:
    """A folder with one of the packages, installed once for all workers."""
    root = factory.getbasetemp()
    root = root.parent if os.environ.get("PYTEST_XDIST_WORKER") else root
    target = root / f"plugins-{name}"
    with FileLock(f"{target}.lock"):
        if not target.exists():
            source = root / f"plugins-{name}-source"  # pip builds beside the sources
            shutil.copytree(PACKAGES / name, source)
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
            pip += ["--no-index", "--disable-pip-version-check", "--target", str(target), str(source)]
            done = subprocess.run(pip, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _installed("good", tmp_path_factory)


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _installed("broken", tmp_path_factory)


DRIVER = """
import contextlib, io, json, sys
from twinnet.cli.main import main

answers = []
for words in json.loads(sys.argv[1]):
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        sys.argv = ["twinnet", *words]
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    answers.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""
"""Several commands in one process: importing PyTorch for each would take longer than the rest of the tests."""


def commands(folder: Path, packages: Sequence[Path], *lines: str) -> list[tuple[int, str, str]]:
    """Exit code, output and messages of each command, in a folder and with some packages installed."""
    (folder / "net.py").write_text(NETWORK, encoding="utf-8")
    path = os.pathsep.join([*map(str, packages), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps([shlex.split(line) for line in lines])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "240"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


def test_they_are_listed_with_their_origin_and_used(tmp_path: Path, good: Path) -> None:
    listed, described, right, wrong, refused = commands(
        tmp_path,
        [good],
        "engines",
        "engines numpy-mlp",
        "check net.py:build --twin numpy-mlp --metric top1 --json",
        "check net.py:build --twin 'numpy-mlp?relu=smooth' --json",
        "check net.py:build --twin 'numpy-mlp?relu=round'",
    )
    code, out, err = listed
    assert code == 0, err
    lines = {line.split()[0]: line for line in out.splitlines() if line.split()}
    assert "numpy-twin 1.2" in lines["numpy-mlp"] and "hard|smooth" in described[1]
    assert " twinnet " in lines["torch"] and "numpy-twin" not in lines["torch"]
    for added in ("cause smooth-relu", "metric top1", "task inpaint"):
        assert f"{added}: from numpy-twin 1.2" in out
    assert "warning" not in out

    assert right[0] == 0, right[2]
    result = json.loads(right[1])
    assert result["verdict"] == "PASS" and result["twin"]["engine"] == "numpy-mlp"
    assert result["metrics"][0]["name"] == "top1" and result["metrics"][0]["between"] == 1.0
    assert result["environment"]["numpy-twin"] == "1.2"

    assert wrong[0] == 1, wrong[2]
    cause = json.loads(wrong[1])["findings"][0]["cause"]
    assert cause["kind"] == "activation" and cause["twin_value"] == "softplus, beta 8"
    assert cause["sentence"] == "softplus of steepness 8 instead of ReLU"
    assert cause["code"] == "numpy_twin.smooth" and cause["params"]["beta"] == 8.0

    assert refused[0] == 2 and "hard|smooth" in refused[2]


def test_names_that_nobody_has(tmp_path: Path, good: Path) -> None:
    engine, metric, task = commands(
        tmp_path,
        [good],
        "check net.py:build --twin numpy-mpl",
        "check net.py:build --twin torch --metric top2",
        "lut new experiment --yes --task colourise",
    )
    assert engine[0] == 2 and "numpy-mlp" in engine[2]
    assert metric[0] == 2 and "unknown metric 'top2'" in metric[2] and "metrics: top1" in metric[2]
    assert task[0] == 2 and "there is no task 'colourise'" in task[2] and "deblur, inpaint" in task[2]


def test_a_task_of_another_package(tmp_path: Path, good: Path) -> None:
    ((code, _, err),) = commands(tmp_path, [good], "lut new experiment --yes --task inpaint")
    assert code == 0, err
    config = (tmp_path / "experiment" / "config.toml").read_text()
    assert "(sr, denoise, deblock, deblur, inpaint)" in config
    assert 'task = "inpaint"' in config and "scale = 1" in config
    # Where the package is not installed, the experiment says what is missing.
    ((code, _, err),) = commands(tmp_path, [], "lut train -e experiment")
    assert code == 2 and "task = 'inpaint' is not valid" in err


def test_a_file_means_the_engine_that_claims_its_suffix(good: Path) -> None:
    code = "from twinnet.engines import parse_spec; print(parse_spec('nets/a.mlp'))"
    environment = {**os.environ, "PYTHONPATH": f"{good}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "numpy-mlp:nets/a.mlp", done.stderr


def test_broken_plugins_are_said_and_harm_nobody(tmp_path: Path, good: Path, broken: Path) -> None:
    listed, engine, metric, task, other_task, check = commands(
        tmp_path,
        [good, broken],
        "engines",
        "check net.py:build --twin gone",
        "check net.py:build --twin torch --metric gone-metric",
        "lut new one --yes --task gone-task",
        "lut new two --yes --task sr",
        "check net.py:build --twin 'numpy-mlp?relu=smooth' --json",
    )
    code, out, err = listed
    assert code == 0, err
    assert "the engine 'torch' of broken-twin 0.3 is ignored: twinnet has one of that name" in out
    assert "the task 'sr' of broken-twin 0.3 is ignored: twinnet has one of that name" in out
    assert "the engine 'gone' of broken-twin 0.3 cannot be loaded: ModuleNotFoundError" in out
    assert "entry point gone = broken_twin.gone:Engine in the group twinnet.engines" in out
    assert "the engine 'function' of broken-twin 0.3 is not a subclass of twinnet.engines.base.Engine" in out
    assert "the engine 'renamed' of broken-twin 0.3 calls itself 'torch'" in out
    assert "the cause 'gone-cause' of broken-twin 0.3 cannot be loaded" in out
    assert "the metric 'gone-metric' of broken-twin 0.3 cannot be loaded: AttributeError" in out
    assert "numpy-twin 1.2" in out

    # The one that is named is an error; the others are not in the way.
    assert engine[0] == 2 and "the engine 'gone' of broken-twin 0.3 cannot be loaded" in engine[2]
    assert metric[0] == 2 and "uninstall broken-twin" in metric[2]
    assert task[0] == 2 and "the task 'gone-task' of broken-twin 0.3 is not a subclass" in task[2]
    assert other_task[0] == 0, other_task[2]
    assert check[0] == 1 and "the cause 'gone-cause' of broken-twin 0.3 cannot be loaded" in check[2]
    assert json.loads(check[1])["findings"][0]["cause"]["twin_value"] == "softplus, beta 8"
