"""The installed command: exit codes, messages without stack traces, machine-readable answers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.onnx_edit import make_model, node_of, save, scale_channel

COMMAND = Path(sys.executable).parent / "twinnet"

SOURCE = """
import torch
from torch import nn

def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.linspace(-1, 1, 16).reshape(2, 8)

def bare():
    return nn.Linear(8, 4)

def raises():
    raise ValueError("no checkpoint here")

def text():
    return "not a network"

def stuck(x):
    raise RuntimeError("the board does not answer")

def size(outputs):
    return abs(next(iter(outputs.values()))).sum()

def dead():
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    with torch.no_grad():
        net[0].bias.fill_(-100)
    return net, torch.linspace(-1, 1, 16).reshape(2, 8)
"""


def _model(batch: int | str = 1) -> object:
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["d"]),
        helper.make_node("Sigmoid", ["d"], ["y"]),
    ]
    weights = {
        n: rng.standard_normal(s).astype(np.float32) for n, s in (("w", (6, 3, 3, 3)), ("v", (4, 6, 1, 1)))
    }
    return make_model(nodes, {"x": (batch, 3, 10, 10)}, ["y"], weights)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, commands: Path) -> Path:
    """A folder as a user would have it, with one finished run in it."""
    root = tmp_path_factory.mktemp("cli")
    (root / ".bin").symlink_to(commands)
    (root / "nets.py").write_text(SOURCE)
    save(_model(), root / "net.onnx")  # type: ignore[arg-type]
    save(_model("batch"), root / "dynamic.onnx")  # type: ignore[arg-type]
    bad = _model()
    scale_channel(bad, node_of(bad, "Conv", 1), 2, 1.01)  # type: ignore[arg-type]
    save(bad, root / "bad.onnx")  # type: ignore[arg-type]
    (root / "truncated.onnx").write_bytes((root / "net.onnx").read_bytes()[:300])
    (root / "words.txt").write_text("hello")
    (root / "bad.toml").write_text("[[rule]]\nrtl = 1\n")
    done = run(root, "check", "net.onnx", "--twin", "onnxruntime?opt=off:bad.onnx", "--out", "run")
    assert done.returncode == 1, done.stderr
    return root


def run(place: Path, *words: str, columns: int = 100, **env: str) -> subprocess.CompletedProcess[str]:
    """The command in a folder, without colours and without a terminal; started warm, if the folder can."""
    around = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb", **env}
    warm = place / ".bin" / "twinnet"
    command = warm if warm.exists() else COMMAND
    return subprocess.run(
        [str(command), *words], cwd=place, env=around, capture_output=True, text=True, timeout=300
    )


def _no_trace(done: subprocess.CompletedProcess[str]) -> None:
    assert "Traceback" not in done.stderr + done.stdout, done.stderr


WRONG: list[tuple[str, str]] = [
    ("check nets.py:nobody", "nobody"),
    ("profile compar before after", "Did you mean 'compare'?"),
    ("profile compare nowhere nowhere", "no profile in nowhere"),
    ("check nowhere.py:build", "nowhere.py"),
    ("check nets.py:raises", "no checkpoint here"),
    ("check nets.py:text", "text"),
    ("check nets.py:bare", "shape"),
    ("check truncated.onnx", "truncated.onnx"),
    ("check words.txt", "words.txt"),
    ("check missing.onnx", "missing.onnx"),
    ("check dynamic.onnx", "--shape"),
    ("check net.onnx --twin tensorrt", "names neither an engine nor a file"),
    ("check net.onnx --twin onnxruntime?opt=fast", "unknown value 'fast' for opt"),
    ("check net.onnx --twin onnxruntime?colour=red", "has no option 'colour'"),
    ("check net.onnx --twin onnxruntime:truncated.onnx", "truncated.onnx"),
    ("check net.onnx --twin recording:nowhere", "no such recording"),
    ("check net.onnx --as torch", "not ONNX files"),
    ("check net.onnx --inputs none.npy", "none.npy"),
    ("check net.onnx --shape x=banana", "banana"),
    ("check net.onnx --level some", "'some' is not one of 'outputs', 'intermediates'"),
    ("check net.onnx --keep most", "'most' is not one of 'worst', 'all', 'none'"),
    ("check net.onnx --max-memory lots", "not a size"),
    ("check net.onnx --rtol -1", "rtol"),
    ("check net.onnx --tolerance bad.toml", "unknown key: 'rtl'"),
    ("check net.onnx --tolerance none.toml", "none.toml"),
    ("check net.onnx --metric nets.py:none", "none"),
    ("check net.onnx --baseline nowhere", "nowhere"),
    ("check net.onnx --names nowhere.json", "nowhere.json"),
    ("check", "NETWORK"),
    ("check net.onnx --no-such-option", "No such option"),
    ("check net.onnx --out words.txt/run", "cannot write"),
    ("judge nowhere", "nowhere"),
    ("judge words.txt", "words.txt"),
    ("show nowhere", "nowhere"),
    ("show run no-such-site", "no-such-site"),
    ("compare nowhere run", "no such recording"),
    ("record net.onnx --out run", "not a recording"),
    ("inspect missing.onnx", "missing.onnx"),
    ("fly", "No such command"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[w for w, _ in WRONG])
def test_wrong_usage_is_2_and_one_message(place: Path, words: str, said: str) -> None:
    done = run(place, *words.split())
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    _no_trace(done)
    assert said in done.stderr and done.stdout.strip() == ""
    assert len(done.stderr.splitlines()) <= 12


def test_pass_is_0_and_leaves_a_run(place: Path) -> None:
    done = run(place, "check", "net.onnx")
    assert done.returncode == 0 and "PASS" in done.stdout and done.stderr == ""
    folder = place / "runs" / "net-onnxruntime"
    assert (folder / "result.json").exists() and (folder / "report.html").exists()
    assert json.loads((folder / "result.json").read_text())["command"] == "twinnet check net.onnx"


def test_fail_is_1_and_names_the_place(place: Path) -> None:
    done = run(place, "check", "net.onnx", "-t", "onnxruntime?opt=off:bad.onnx", "--out", "again")
    assert done.returncode == 1 and "FAIL" in done.stdout and re.search(r"born in +d", done.stdout)
    assert len(done.stdout.splitlines()) < 30


def test_error_is_3(place: Path) -> None:
    done = run(place, "check", "nets.py:build", "--twin", "callable:nets.py:stuck", "--out", "stuck")
    assert done.returncode == 3 and "ERROR" in done.stdout and "the board does not answer" in done.stdout
    _no_trace(done)
    assert json.loads((place / "stuck" / "result.json").read_text())["verdict"] == "ERROR"
    assert run(place, "judge", "stuck").returncode == 3
    limit = run(place, "check", "net.onnx", "-t", "onnx-reference", "--time-limit", "0", "-q", "--out", "t")
    assert limit.returncode == 3 and limit.stdout == "ERROR\n"


def test_any_fail_beats_any_error(place: Path) -> None:
    both = "onnxruntime:bad.onnx,callable:nets.py:stuck"
    assert run(place, "check", "net.onnx", "-q", "--twin", both, "--out", "both").returncode == 1
    one = "onnxruntime,callable:nets.py:stuck"
    assert run(place, "check", "net.onnx", "-q", "--twin", one, "--out", "one").returncode == 3


def test_weak_evidence_is_1_only_if_strict(place: Path) -> None:
    words = ("check", "nets.py:dead", "-t", "torch?dtype=float64", "--out", "dead")
    assert run(place, *words).returncode == 0
    assert run(place, *words, "--strict").returncode == 1
    assert run(place, "judge", "dead").returncode == 0
    assert run(place, "judge", "dead", "--strict").returncode == 1


def test_json_is_json_and_nothing_else(place: Path) -> None:
    done = run(place, "check", "net.onnx", "--json", "--metric", "nets.py:size", "--out", "j")
    data = json.loads(done.stdout)
    for key in (
        "verdict",
        "network",
        "twin",
        "inputs",
        "coverage",
        "guards",
        "evidence",
        "failing",
        "findings",
    ):
        assert key in data
    assert data["verdict"] == "PASS" and data["metrics"][0]["name"] == "size"
    several = json.loads(run(place, "check", "net.onnx", "--json", "-t", "onnxruntime,onnx-reference").stdout)
    assert several["verdict"] == "PASS" and len(several["results"]) == 2


def test_quiet_is_one_word(place: Path) -> None:
    done = run(place, "check", "net.onnx", "-q", "--out", "q")
    assert done.stdout == "PASS\n" and done.stderr == ""


def test_version_and_help(place: Path) -> None:
    from twinnet import __version__

    assert run(place, "--version").stdout == f"twinnet {__version__}\n"
    text = run(place, "--help").stdout
    assert "..." not in text.partition("Commands:")[2], "every verb has its sentence whole"
    for verb in ("check", "judge", "record", "compare", "show", "inspect", "engines", "env", "demo"):
        assert verb in text
        assert run(place, verb, "-h").returncode == 0


@pytest.mark.parametrize("words", [("lut", "run"), ("lut", "eval"), ("check",)])
def test_every_example_begins_a_line(words: tuple[str, ...]) -> None:
    from typer.testing import CliRunner

    from twinnet.cli.main import app

    text = CliRunner().invoke(app, [*words, "--help"]).output
    assert "Example: " in text
    assert all(line.strip().startswith("Example: ") for line in text.splitlines() if "Example: " in line)


@pytest.mark.parametrize("words", [("check",), ("judge",), ("lut", "run")])
def test_help_says_what_a_verb_takes(words: tuple[str, ...]) -> None:
    import typer
    from typer.testing import CliRunner

    from twinnet.cli.main import app

    verb: Any = typer.main.get_command(app)
    for word in words:
        verb = verb.commands[word]
    text = " ".join(CliRunner().invoke(app, [*words, "--help"]).output.split())
    told = [p.help for p in verb.params if p.param_type_name == "argument"]
    assert told and all(help and " ".join(help.split()) in text for help in told)


def test_judge_again(place: Path) -> None:
    assert run(place, "judge", "run").returncode == 1
    loose = run(place, "judge", "run", "--atol", "1")
    assert loose.returncode == 0 and "PASS" in loose.stdout
    assert run(place, "judge", "run", "--atol", "1e-9").returncode == 1
    assert run(place, "judge", "run", "--baseline", "run").returncode == 0
    known = ("check", "net.onnx", "-t", "onnxruntime?opt=off:bad.onnx", "--out", "known")
    assert run(place, *known, "--baseline", "run").returncode == 0


def test_show_draws_a_site(place: Path) -> None:
    assert "FAIL" in run(place, "show", "run").stdout
    drawn = run(place, "show", "run", "d")
    assert drawn.returncode == 0 and len(drawn.stdout.splitlines()) > 3
    plain = run(place, "show", "run", "d", "--ascii").stdout
    assert plain.isascii()


def test_record_and_compare(place: Path) -> None:
    made = run(place, "record", "net.onnx", "--out", "here", "--seed", "3")
    assert made.returncode == 0 and "recorded 4 sites" in made.stdout
    assert run(place, "record", "bad.onnx", "--out", "there", "--seed", "3", "-q").stdout == ""
    assert run(place, "compare", "here", "here", "-q").stdout == "PASS\n"
    judged = run(place, "compare", "here", "there", "--network", "net.onnx")
    assert judged.returncode == 1 and re.search(r"born in +d", judged.stdout)
    run(place, "record", "net.onnx", "--out", "other", "--seed", "4", "-q")
    other = run(place, "compare", "here", "other")
    assert other.returncode == 2 and "not the same in both" in other.stderr


def test_inspect(place: Path) -> None:
    done = run(place, "inspect", "net.onnx", "--ops")
    assert re.search(r"2 +Conv", done.stdout) and "x: float32 1x3x10x10" in done.stdout
    assert json.loads(run(place, "inspect", "net.onnx", "--json").stdout)["operators"]["Conv"] == 2
    assert "1 operators" not in run(place, "inspect", "nets.py:build").stdout


def test_env_and_engines(place: Path) -> None:
    env = json.loads(run(place, "env", "--json").stdout)
    assert env["python"].startswith("3.") and "torch" in env and "onnxruntime" in env
    assert "torch" in run(place, "env").stdout
    engines = run(place, "engines").stdout
    for name in ("torch", "onnxruntime", "onnx-reference", "callable", "recording"):
        assert name in engines
    assert len(engines.splitlines()) < 50  # options are listed for one engine at a time
    one = run(place, "engines", "onnxruntime").stdout
    assert "off|basic|extended|all (default all)" in " ".join(one.split()) and "quantize" in one
    wrong = run(place, "engines", "onnxrutime")
    assert wrong.returncode == 2 and "did you mean onnxruntime" in wrong.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(place: Path, shell: str) -> None:
    done = run(place, "--show-completion", shell)
    if done.returncode == 2:  # the shell is found out by itself
        done = run(
            place,
            "--show-completion",
            _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1",
            SHELL=f"/bin/{shell}",
        )
    assert "_TWINNET_COMPLETE" in done.stdout or "complete" in done.stdout, done.stderr


@pytest.mark.parametrize("columns", [50, 30])
def test_a_narrow_terminal(place: Path, columns: int) -> None:
    done = run(place, "show", "run", columns=columns)
    assert done.returncode == 0 and max(map(len, done.stdout.splitlines())) <= columns
    assert run(place, "--help", columns=columns).returncode == 0


def test_a_reader_that_leaves_early(place: Path) -> None:
    text = f"'{COMMAND}' show run -v | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", text], cwd=place, capture_output=True, text=True)
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
    assert done.stdout.splitlines()[-1] in ("0", "1", "141")
