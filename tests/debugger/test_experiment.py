"""An experiment of LUT image restoration, served: the network and its tables on one image."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.debugger.running import Debugger, command
from tests.needs import absent
from twinnet.restore.new import new
from twinnet.restore.sample import write_samples

SITE = ".convblock1.in_c0.b0.rot0.sr"
QUICK = {
    "model": {"type": "spf", "modes": "s", "scale": 2, "features": 4},
    "data": {"train": ["../photos"], "batch_size": 2, "crop_size": 8},
    "train": {"iterations": 1, "tensorboard": False},
}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained by one step: what it computes does not matter here."""
    from twinnet.restore.train import train

    root = tmp_path_factory.mktemp("experiment")
    write_samples(root / "photos", 2, rows=32, columns=36)
    folder = new(root / "spf", QUICK).parent
    train(folder, quiet=True)
    return folder


def look(debugger: Debugger) -> None:
    """The first questions of a person who debugs tables."""
    told = debugger.curl(f"cmp('{SITE}')")
    assert told.startswith("convblock1.in_c0.b0.rot0.sr   3x2x")
    assert "max " in told and " pixels" in told
    assert "corner [0, 0, :8, :8]" in told
    assert debugger.text("dnn_output.dtype, lut_output.shape == dnn_output.shape") == "(dtype('uint8'), True)"
    assert debugger.text(f"model_dbg['{SITE}'].shape == lut_dbg['{SITE}'].shape") == "True"
    assert "vertices" in debugger.text(f"at('{SITE}', 5, 6, channel=1)")
    assert "sum of" in debugger.text("at('upblock', 5, 6)")


def serving(experiment: Path) -> list[str]:
    """The command that serves an experiment with one of its photos."""
    image = next((experiment.parent / "photos").glob("*.png"))
    verb = ["-m", "twinnet.cli.main", "lut", "debug", "-e", str(experiment)]
    return [*verb, "--serve", "--image", str(image)]


def test_an_experiment_is_served(experiment: Path) -> None:
    with command(serving(experiment), experiment, TWINNET_DEBUG_PORT="0") as debugger:
        assert debugger.info.parent == experiment / "debugger"
        look(debugger)
        sites = [s["site"] for s in debugger.data("sites('*.sr')")["sites"]]
        assert debugger.text(f"{SITE!r}[1:] in {sites!r}") == "True"
        debugger.text(f"swap('{SITE}')")
        assert "max now" in debugger.text("rerun()")


@pytest.mark.slow
def test_an_experiment_has_the_same_door(experiment: Path) -> None:
    told = experiment / "told" / "here.env"
    words = [*serving(experiment), "--port", "0", "--read-only", "--info", str(told)]
    with command(words, experiment) as debugger:
        assert debugger.info == told
        assert debugger.text(f"cmp('{SITE}')").startswith("convblock1")
        refused = debugger.ask("1 + 1")
        assert refused.status != 200 and "read-only" in refused.text


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--serve", "--host", "0.0.0.0"], "can be reached from other machines"),
        (["--read-only"], "add --serve"),
    ],
)
def test_a_door_that_cannot_be_is_refused_before_anything_runs(options: list[str], why: str) -> None:
    from typer.testing import CliRunner

    from twinnet.cli.main import app
    from twinnet.errors import UsageError

    done = CliRunner().invoke(app, ["lut", "debug", "-e", "no-such-experiment", *options])
    assert isinstance(done.exception, UsageError) and why in str(done.exception)


@pytest.mark.slow
def test_of_two_processes_one_serves(experiment: Path) -> None:
    launcher = shutil.which("accelerate", path=str(Path(sys.executable).parent))
    if launcher is None:
        absent("accelerate is not installed")
    words = [launcher, "launch", "--cpu", "--num_processes", "2", "--num_machines", "1"]
    words += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    image = next((experiment.parent / "photos").glob("*.png"))
    words += ["-m", "twinnet.restore.debug", "-e", str(experiment), "--serve", "--image", str(image)]
    with command(words, experiment, TWINNET_DEBUG_PORT="0") as debugger:
        look(debugger)
        assert len(list(experiment.rglob("*.env"))) == 1
