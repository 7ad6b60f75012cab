"""A run folder from somebody else starts nothing unless it is trusted; one made here needs no question."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from typer.testing import CliRunner

from tests.trust.test_names import network
from twinnet import check, repro
from twinnet.cli.main import app
from twinnet.errors import TwinnetError, UsageError
from twinnet.shrink.seed import load_seeds


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose twin is another interpreter's onnxruntime, found wrong."""
    home = tmp_path_factory.mktemp("made")
    onnx.save(network("n", 0.0), home / "net.onnx")
    onnx.save(network("n", 0.25), home / "twin.onnx")
    twin = f"onnxruntime?python={sys.executable}:{home / 'twin.onnx'}"
    assert check(str(home / "net.onnx"), None, twin, out=home / "run").verdict == "FAIL"
    return home / "run"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine of another user, who has another key."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield


def edit(run: Path, **sides: Any) -> None:
    """Change the sides of the run's first seed."""
    path = run / "seeds" / "0" / "seed.json"
    told = json.loads(path.read_text())
    for name, options in sides.items():
        told[name] |= options
    path.write_text(json.dumps(told))


def test_a_run_made_here_needs_no_question(run: Path) -> None:
    assert load_seeds(run)[0].starts == ()
    assert repro(run).confirmed, "also after it was copied to another folder"


@pytest.mark.usefixtures("elsewhere")
def test_a_run_from_elsewhere_says_what_it_would_start(run: Path) -> None:
    with pytest.raises(UsageError, match="--trust") as refused:
        repro(run)
    assert sys.executable in str(refused.value)
    assert not (run / "repro").exists()
    assert repro(run, trust=True).confirmed


def test_a_run_made_here_and_changed_is_one_from_elsewhere(run: Path, tmp_path: Path) -> None:
    hit = tmp_path / "hit"
    evil = tmp_path / "python"
    evil.write_text(f"#!/bin/sh\ntouch {hit}\n")
    evil.chmod(0o755)
    edit(run, twin_side={"options": {"python": str(evil)}})
    done = CliRunner().invoke(app, ["repro", str(run)])
    assert isinstance(done.exception, UsageError) and str(evil) in str(done.exception)
    assert not hit.exists()
    CliRunner().invoke(app, ["repro", str(run), "--trust"])
    assert hit.exists(), "the attack works where nothing stops it"


def test_other_data_beside_a_signed_seed_is_noticed(run: Path) -> None:
    (run / "seeds" / "0" / "network.onnx").write_bytes(network("other", 0.0).SerializeToString())
    assert load_seeds(run)[0].starts == (sys.executable,)


@pytest.mark.parametrize(
    ("engine", "options", "shown"),
    [
        ("command", {"description": "RUN"}, "sh -c touch"),
        ("command", {}, "not described"),
        ("onnxruntime", {"config.ep.context_file_path": "/x"}, "config.ep.context_file_path=/x"),
        ("openvino", {"config.CACHE_DIR": "/x"}, "config.CACHE_DIR=/x"),
        ("iree", {"flag.iree-llvmcpu-system-linker-path": "/x"}, "linker-path=/x"),
    ],
)
@pytest.mark.parametrize("side", ["network_side", "twin_side"])
def test_every_way_to_start_something_is_listed(
    run: Path, tmp_path: Path, side: str, engine: str, options: dict[str, str], shown: str
) -> None:
    hit = tmp_path / "hit"
    if options.get("description"):
        options = {"description": json.dumps({"compile": [], "run": [["sh", "-c", f"touch {hit}"]]})}
    edit(run, **{side: {"engine": engine, "options": options}})
    with pytest.raises(UsageError, match="--trust") as refused:
        repro(run)
    assert shown in str(refused.value) and not hit.exists()


def test_a_table_names_its_engine_in_another_place(run: Path, tmp_path: Path) -> None:
    path = run / "seeds" / "0" / "seed.json"
    told = json.loads(path.read_text())
    described = json.dumps({"compile": [], "run": [["sh", "-c", f"touch {tmp_path / 'hit'}"]]})
    told["kind"] = "table"
    told["twin_side"]["options"] = {}
    told["steps"] = {
        "twin": {"engine": "command", "options": {"description": described}, "file": "twin.onnx"}
    }
    path.write_text(json.dumps(told))
    with pytest.raises(UsageError, match="sh -c touch"):
        repro(run)


def test_what_is_shown_of_a_program_does_not_control_the_terminal(run: Path) -> None:
    edit(run, twin_side={"options": {"python": "/bin/\x1b]0;x\x07sh"}})
    with pytest.raises(UsageError) as refused:
        repro(run)
    assert "\x1b" not in str(refused.value)


@pytest.mark.usefixtures("elsewhere")
def test_reading_a_run_from_elsewhere_starts_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`show`, `judge` and a baseline read numbers only."""
    hit = tmp_path / "hit"
    (run / "evil.py").write_text(f"open({str(hit)!r}, 'w')\n")
    told = json.loads((run / "result.json").read_text())
    text = json.dumps(told).replace(sys.executable, f"{run}/evil.py:run")
    (run / "result.json").write_text(text)
    monkeypatch.setattr("subprocess.Popen", lambda *args, **more: pytest.fail(f"started {args}"))
    for words in (["show", str(run)], ["judge", str(run)], ["judge", str(run), "--baseline", str(run)]):
        done = CliRunner().invoke(app, words)
        assert done.exception is None or isinstance(done.exception, SystemExit | TwinnetError), done.exception
    assert not hit.exists()


def test_a_tensor_does_not_choose_where_a_program_writes() -> None:
    from twinnet.engines._command_alone import tensor_files

    assert tensor_files(["a"], {}, "npy", "/tmp/f", "{name}.npy")[0]["file"] == "/tmp/f/a.npy"
    for name in ("../../x", "/etc/x"):
        with pytest.raises(ValueError, match="out of the folder"):
            tensor_files([name], {}, "npy", "/tmp/f", "{name}.npy")
