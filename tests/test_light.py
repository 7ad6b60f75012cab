"""The base install has no PyTorch: tables run, finished runs are read, and every other verb says what to install."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

import twinnet
from twinnet.errors import MissingExtra
from twinnet.extras import BROUGHT_BY, missing_extra, optional_packages

ROOT = Path(__file__).parents[1]
TABLES = "sr-x4-fast.lut.safetensors"

WORKS = {
    "--help": 0,
    "--version": 0,
    "engines": 0,
    "env --json": 0,
    "cache --help": 0,
    "lut run photo.png --task sr --quality fast -o large.png": 0,
    f"lut info {TABLES}": 0,
    f"lut diff {TABLES} {TABLES}": 0,
    "lut new mine --yes --train photos --set fit.preset=tiny": 0,
    "lut fit -e mine -q": 0,
    "lut run photo.png --table mine/lut/fitted.lut.safetensors -o mine.png": 0,
    "show run": 0,
    "judge run --atol 100": 0,
    "inspect-run run": 0,
}
"""What runs without any extra, with its exit code; `run` is a finished run that failed."""

REFUSED = {
    "check net.py:build": "torch",
    "check net.onnx": "torch",
    "ladder net.onnx": "onnx",
    "matrix net.onnx": "torch",
    "debug net.py:build": "torch",
    "profile net.py:build": "torch",
    "record net.py:build -o recording": "torch",
    "compare recording recording": "torch",
    "repro run": "onnx",
    "diff net.py:build net.py:build": "torch",
    "inspect net.py:build": "torch",
    "inspect net.onnx": "onnx",
    "uvq film.mp4 --weights .": "torch",
    "demo -o demo": "torch",
    "suite": "suite",
    "serve": "dashboard",
    "lut train -e mine": "torch",
    "lut export -e mine": "torch",
    "lut finetune -e mine": "torch",
    "lut debug -e mine": "torch",
    f"lut onnx {TABLES} -o t.onnx": "onnx",
}
"""What needs an extra, and which one it names."""

RUN_ALL = """
import contextlib, io, json, sys
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
import twinnet
from twinnet.cli.main import main
found = []
for line in json.loads(sys.argv[2]):
    sys.argv = ["twinnet", *line.split()]
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
        out.flush()
    found.append((code, out.buffer.getvalue().decode() + err.getvalue()))
print("ANSWERS" + json.dumps(found))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """All commands, run in one process that has none of the optional packages."""
    folder = tmp_path_factory.mktemp("light")
    from PIL import Image

    from twinnet.models import file_of, named
    from twinnet.restore.sample import write_samples

    (folder / TABLES).symlink_to(file_of(named("sr", quality="fast")))
    Image.radial_gradient("L").resize((48, 40)).convert("RGB").save(folder / "photo.png")
    write_samples(folder / "photos", 3)
    (folder / "net.py").write_text("import torch\n\ndef build():\n    return torch.nn.ReLU()\n")
    (folder / "net.onnx").write_bytes(b"")
    result = twinnet.check(
        torch.nn.ReLU(), torch.randn(4, 8), lambda x: np.maximum(x, 0) + 1, out=folder / "run"
    )
    assert result.verdict == "FAIL"
    lines = [*WORKS, *REFUSED]
    hidden = json.dumps(sorted(BROUGHT_BY))
    environment = {**os.environ, "TWINNET_CACHE": str(folder / "cache"), "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL, hidden, json.dumps(lines)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.rpartition("ANSWERS")[2])
    return {line: (code, text) for line, (code, text) in zip(lines, said, strict=True)}


@pytest.mark.parametrize("line", WORKS)
def test_works_without_pytorch(line: str, answers: dict[str, tuple[int, str]]) -> None:
    code, text = answers[line]
    assert code == WORKS[line], text
    assert "Traceback" not in text and "not built" not in text


@pytest.mark.parametrize("line", REFUSED)
def test_says_which_extra_to_install(line: str, answers: dict[str, tuple[int, str]]) -> None:
    code, text = answers[line]
    assert code == 2, text
    assert f"pip install 'twinnet[{REFUSED[line]}]'" in text
    assert "Traceback" not in text and len(text.strip().splitlines()) == 2


def test_engines_are_listed_with_what_to_install(answers: dict[str, tuple[int, str]]) -> None:
    text = answers["engines"][1]
    for line in ("torch: pip install 'twinnet[torch]'", "openvino: pip install 'twinnet[openvino]'"):
        assert line in text
    for name in ("onnxruntime", "iree", "litert", "executorch", "lut-native"):
        assert re.search(rf"^{name}\s", text, re.M)


def test_public_names_say_which_extra_to_install() -> None:
    code = """
import sys
for name in ("torch", "onnx"):
    sys.modules[name] = None
import twinnet
from twinnet import lut
for name in twinnet.__all__:
    try:
        value = getattr(twinnet, name)
        if name in ("check", "stages", "ladder", "record"):
            value("net.py:build", out="here")
    except twinnet.UsageError as error:
        print(name, error.extra)
try:
    lut.export
except twinnet.UsageError as error:
    print("lut.export", error.extra)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = dict(line.split() for line in done.stdout.splitlines())
    verbs = ("check", "compare", "diff", "ladder", "record", "stages", "lut.export")
    assert said == {**dict.fromkeys(verbs, "torch"), "repro": "onnx"}


def test_pytorch_alone_compares_pytorch_networks() -> None:
    """`twinnet[torch]`: everything but ONNX files and what is made from them."""
    code = """
import sys
for name in ("onnx", "onnx_ir", "onnxruntime", "onnxscript"):
    sys.modules[name] = None
import tempfile, torch, twinnet
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
x = torch.randn(4, 8)
print(twinnet.check(net, x, "torch?dtype=float64").verdict)
wrong = twinnet.check(net, x, lambda x: {"output": x + 1})
print(wrong.verdict, twinnet.diff((net, x), (net, x)).same)
print(type(twinnet.record(net, x, out=tempfile.mkdtemp())).__name__)
for verb, what in (("check", (net, x)), ("repro", wrong)):
    try:
        getattr(twinnet, verb)(what)
    except twinnet.UsageError as error:
        print(error.extra)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["PASS", "FAIL", "True", "Recording", "onnx", "onnx"]


def test_every_optional_package_has_its_extra() -> None:
    """What pyproject.toml lists is what messages name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert set(BROUGHT_BY.values()) <= set(extras)
    spelt = {
        "av": "av",
        "cv2": "opencv-python-headless",
        "iree": "iree-base-runtime",
        "xdist": "pytest-xdist",
    }
    indirect = {"onnx_ir": "onnxscript", "torchao": "executorch"}
    for package, extra in BROUGHT_BY.items():
        name = spelt.get(package, indirect.get(package, package)).replace("_", "-")
        assert any(re.match(rf"{name}\b", line) for line in extras[extra]), (package, extra)
    assert not [line for line in project["dependencies"] if line.startswith(tuple(BROUGHT_BY))]


def test_nothing_is_imported_that_no_requirement_brings() -> None:
    """A package that is here because something else brought it may be missing elsewhere."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stated = {re.split(r"[\[><=]", line)[0].replace("-", "_") for line in project["dependencies"]}
    spelt = {"pillow": "PIL"}
    companions = {
        *("annotated_types", "pydantic_core", "markupsafe", "starlette", "google", "flatbuffers", "_pytest"),
        *("IPython", "pandas"),  # used where the user has them
    }
    allowed = {spelt.get(name, name) for name in stated} | set(BROUGHT_BY) | companions
    found: dict[str, str] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found |= {str(name).partition(".")[0]: path.name for name in names}
    other = {name: path for name, path in found.items() if name not in sys.stdlib_module_names}
    assert {n: p for n, p in other.items() if n not in allowed | {"twinnet"}} == {}


def test_extras_that_compare_networks_bring_pytorch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def brings(extra: str) -> bool:
        inner = [w for line in extras[extra] if line.startswith("twinnet[") for w in line[8:-1].split(",")]
        return any(line.startswith("torch>=") for line in extras[extra]) or any(map(brings, inner))

    without = {extra for extra in extras if not brings(extra)}
    assert without == {"video", "perfetto", "dashboard", "test", "lint"}


def test_a_broken_package_is_not_called_missing() -> None:
    assert missing_extra(ModuleNotFoundError("No module named 'torch.gone'", name="torch.gone")) is None
    with pytest.raises(ModuleNotFoundError, match="nonsense"), optional_packages():
        import nonsense  # noqa: F401


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtra, match=r"twinnet\[video\]") as caught, optional_packages():
        import av  # noqa: F401
    assert caught.value.what == "PyAV, which reads videos, is not installed"
