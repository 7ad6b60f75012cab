"""`twinnet lut new` and the verbs of experiments, as they are typed."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from twinnet.cli.main import app
from twinnet.errors import UsageError
from twinnet.restore.config import load


def call(*words):
    return CliRunner().invoke(app, ["lut", *map(str, words)])


def test_new_writes_what_was_said(tmp_path):
    photos = tmp_path / "my photos"
    done = call(
        "new", tmp_path / "models" / "a", "--yes", "--task", "denoise", "--type", "spf", "--train", photos,
        "--set", "data.sigma=15.5", "--set", "model.modes=sd", "--set", 'data.benchmarks=["Set12"]',
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert 0 < done.output.index("lut fit -e") < done.output.index("lut train -e")
    config = load(tmp_path / "models" / "a")
    assert (config.model.task, config.model.type, config.model.scale, config.model.modes) == (
        "denoise", "spf", 1, "sd",
    )  # fmt: skip
    assert config.data.train == [str(photos)] and config.data.sigma == 15.5
    assert config.data.benchmarks == ["Set12"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--yes", "--type", "mulot"), "did you mean 'mulut'"),
        (("--yes", "--scale", "1"), "larger scale than 1"),
        (("--yes", "--set", "model.sale=2"), "no such setting"),
        (("--yes", "--set", "scale"), "SECTION.KEY=VALUE"),
        ((), "not a terminal"),
    ],
)
def test_new_refuses(tmp_path, words, why):
    done = call("new", tmp_path / "a", *words)
    assert isinstance(done.exception, UsageError) and why in str(done.exception)
    assert not (tmp_path / "a").exists()


def test_new_overwrites_nothing(tmp_path):
    assert call("new", tmp_path / "a", "--yes").exit_code == 0
    before = (tmp_path / "a" / "config.toml").read_text()
    done = call("new", tmp_path / "a", "--yes", "--scale", 2)
    assert "already exists" in str(done.exception)
    assert (tmp_path / "a" / "config.toml").read_text() == before


def test_new_asks_on_a_terminal(tmp_path):
    main, end = pty.openpty()
    started = subprocess.Popen(
        [sys.executable, "-m", "twinnet.cli.main", "lut", "new", "exp"],
        cwd=tmp_path, stdin=end, stdout=end, stderr=end,
    )  # fmt: skip
    os.close(end)
    os.write(main, b"sr\nsrlut\n2\nphotos\n\n")
    seen = b""
    try:
        while part := os.read(main, 4096):
            seen += part
    except OSError:  # the other end is closed: the program is done
        pass
    assert started.wait(timeout=120) == 0, seen
    config = load(tmp_path / "exp")
    assert b"Task" in seen and b"Scale" in seen
    assert (config.model.type, config.model.scale) == ("srlut", 2)
    assert config.data.train == [str(tmp_path / "photos")] and config.data.bench == ""


def test_settings_cannot_be_overridden(tmp_path):
    assert call("new", tmp_path / "a", "--yes").exit_code == 0
    done = call("train", "-e", tmp_path / "a", "--iterations", "5")
    assert done.exit_code == 2 and "No such option" in done.output
    assert call("compress", "-e", tmp_path / "a", "--width", "3").exception is not None
    assert "needs FILE" in str(call("compress").exception)


def test_a_wrong_config_names_its_line(tmp_path):
    assert call("new", tmp_path / "a", "--yes").exit_code == 0
    path = tmp_path / "a" / "config.toml"
    lines = path.read_text().splitlines()
    number = lines.index("batch_size = 32") + 1
    lines[number - 1] = 'batch_size = "many"'
    path.write_text("\n".join(lines))
    for verb in ("train", "export", "compress", "finetune", "eval", "debug"):
        done = call(verb, "-e", tmp_path / "a")
        assert f"config.toml:{number}: [data] batch_size = 'many'" in str(done.exception), verb
        assert "a whole number from 1" in str(done.exception)


def test_eval_says_which_setting_it_wants(tmp_path):
    folder = tmp_path / "a"
    assert call("new", folder, "--yes", "--task", "deblur").exit_code == 0
    assert "[data] bench in" in str(call("eval", "-e", folder).exception)
    bench = tmp_path / "bench"
    (bench / "Mine").mkdir(parents=True)
    assert call("new", tmp_path / "b", "--yes", "--task", "deblur", "--bench", bench).exit_code == 0
    said = str(call("eval", "-e", tmp_path / "b").exception)
    assert "GoPro" in said and "has Mine" in said and "[data] benchmarks" in said
