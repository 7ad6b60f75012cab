"""Other packages add engines, causes, metrics and tasks: two small packages are installed with pip and used."""

from __future__ import annotations

import json
import os
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


class Shell:
    """Runs twinnet in a folder with some packages installed."""

    def __init__(self, folder: Path, *packages: Path) -> None:
        self.folder = folder
        (folder / "net.py").write_text(NETWORK, encoding="utf-8")
        path = os.pathsep.join([*map(str, packages), os.environ.get("PYTHONPATH", "")])
        self._environment = {**os.environ, "PYTHONPATH": path.strip(os.pathsep), "COLUMNS": "240"}

    def run(self, words: Sequence[str]) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "twinnet.cli.main", *words],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.returncode, done.stdout, done.stderr

    def check(self, *words: str) -> tuple[int, dict]:
        code, out, err = self.run(["check", "net.py:build", *words, "--out", "run", "--quiet"])
        assert (self.folder / "run" / "result.json").exists(), out + err
        return code, json.loads((self.folder / "run" / "result.json").read_text())


def test_engines_are_listed_with_their_origin(tmp_path: Path, good: Path) -> None:
    code, out, err = Shell(tmp_path, good).run(["engines"])
    assert code == 0, err
    lines = {line.split()[0]: line for line in out.splitlines() if line.split()}
    assert "numpy-twin 1.2" in lines["numpy-mlp"] and "relu=hard|smooth" in lines["numpy-mlp"]
    assert " twinnet " in lines["torch"] and "numpy-twin" not in lines["torch"]
    for added in ("cause smooth-relu", "metric top1", "task inpaint"):
        assert f"{added}: from numpy-twin 1.2" in out
    assert "warning" not in out


def test_an_engine_a_metric_and_a_cause_of_another_package(tmp_path: Path, good: Path) -> None:
    shell = Shell(tmp_path, good)
    code, result = shell.check("--twin", "numpy-mlp", "--metric", "top1")
    assert code == 0 and result["verdict"] == "PASS" and result["twin"]["engine"] == "numpy-mlp"
    assert result["metrics"][0]["name"] == "top1" and result["metrics"][0]["between"] == 1.0
    assert result["environment"]["numpy-twin"] == "1.2"

    code, result = shell.check("--twin", "numpy-mlp?relu=smooth")
    assert code == 1
    cause = result["findings"][0]["cause"]
    assert cause["kind"] == "activation" and cause["twin_value"] == "softplus, beta 8"

    code, _, err = shell.run(["check", "net.py:build", "--twin", "numpy-mlp?relu=round"])
    assert code == 2 and "hard|smooth" in err


def test_a_file_means_the_engine_that_claims_its_suffix(tmp_path: Path, good: Path) -> None:
    code = "from twinnet.engines import parse_spec; print(parse_spec('nets/a.mlp'))"
    environment = {**os.environ, "PYTHONPATH": f"{good}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "numpy-mlp:nets/a.mlp", done.stderr


def test_names_that_nobody_has(tmp_path: Path, good: Path) -> None:
    shell = Shell(tmp_path, good)
    code, _, err = shell.run(["check", "net.py:build", "--twin", "numpy-mpl"])
    assert code == 2 and "numpy-mlp" in err
    code, _, err = shell.run(["check", "net.py:build", "--twin", "torch", "--metric", "top2"])
    assert code == 2 and "there is no metric 'top2'" in err and "metrics: top1" in err
    code, _, err = shell.run(["lut", "new", "experiment", "--yes", "--task", "colourise"])
    assert code == 2 and "there is no task 'colourise'" in err and "deblur, inpaint" in err


def test_a_task_of_another_package(tmp_path: Path, good: Path) -> None:
    code, _, err = Shell(tmp_path, good).run(["lut", "new", "experiment", "--yes", "--task", "inpaint"])
    assert code == 0, err
    config = (tmp_path / "experiment" / "config.toml").read_text()
    assert "(sr, denoise, deblock, deblur, inpaint)" in config
    assert 'task = "inpaint"' in config and "scale = 1" in config
    # Where the package is not installed, the experiment says what is missing.
    code, _, err = Shell(tmp_path).run(["lut", "train", "-e", "experiment"])
    assert code == 2 and "task = 'inpaint' is not possible" in err


def test_broken_plugins_are_said_and_harm_nobody(tmp_path: Path, good: Path, broken: Path) -> None:
    shell = Shell(tmp_path, good, broken)
    code, out, err = shell.run(["engines"])
    assert code == 0, err
    assert "the engine 'torch' of broken-twin 0.3 is ignored: twinnet has one of that name" in out
    assert "the engine 'gone' of broken-twin 0.3 cannot be loaded: ModuleNotFoundError" in out
    assert "entry point gone = broken_twin.gone:Engine in the group twinnet.engines" in out
    assert "the engine 'function' of broken-twin 0.3 is not a subclass of twinnet.engines.base.Engine" in out
    assert "the engine 'renamed' of broken-twin 0.3 calls itself 'torch'" in out
    assert "the cause 'gone-cause' of broken-twin 0.3 cannot be loaded" in out
    assert "the metric 'gone-metric' of broken-twin 0.3 cannot be loaded: AttributeError" in out
    assert "numpy-twin 1.2" in out

    # The one that is named is an error; the others are not in the way.
    code, _, err = shell.run(["check", "net.py:build", "--twin", "gone"])
    assert code == 2 and "the engine 'gone' of broken-twin 0.3 cannot be loaded" in err
    code, _, err = shell.run(["check", "net.py:build", "--twin", "torch", "--metric", "gone-metric"])
    assert code == 2 and "uninstall broken-twin" in err
    code, _, err = shell.run(["lut", "new", "experiment", "--yes", "--task", "gone-task"])
    assert code == 2 and "the task 'gone-task' of broken-twin 0.3 is not a subclass" in err
    code, _, err = shell.run(["lut", "new", "experiment", "--yes", "--task", "sr"])
    assert code == 0, err

    code, out, err = shell.run(["check", "net.py:build", "--twin", "numpy-mlp?relu=smooth", "--json"])
    assert code == 1 and "the cause 'gone-cause' of broken-twin 0.3 cannot be loaded" in err
    assert json.loads(out)["findings"][0]["cause"]["twin_value"] == "softplus, beta 8"
