"""Files that people write by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.fuzz_readers.reader import Reader, text

__all__ = ["SETTINGS"]

_TOLERANCES = """
[[rule]]
site = "blocks.*"
rtol = 1e-3
atol = 1e-5

[[rule]]
op = "conv2d"
dtype = "float32"
cosine = 0.99
"""


def _make_command(folder: Path) -> None:
    from twinnet.engines._command_file import find_description, ready_files

    shutil.copy(find_description(ready_files()[0]), folder / "board.toml")


def _read_tolerances(path: Path) -> None:
    from twinnet.judge.tolerance import read_tolerances

    read_tolerances(path)


def _read_command(path: Path) -> None:
    from twinnet.engines._command_file import read_description

    read_description(path)


_SUITE = """[tool.twinnet]
models = ["models"]
engines = ["onnxruntime", {spec = "iree", layers = false, time-limit = 300}]
expected = "expected.txt"
seed = 3

[tool.twinnet.model."det-*"]
inputs = "inputs/det.safetensors"
layers = false
"""


_EXPECTED = """# case-glob | FAIL or ERROR:step | reason | link
det_full_model-iree-default | ERROR:compile | no kernel | https://example.org/1
*-litert-* | FAIL | known
"""


def _read_suite(path: Path) -> None:
    from twinnet.suite.config import read_config

    read_config(path.parent)


def _read_expected(path: Path) -> None:
    from twinnet.suite.expected import read_expected

    read_expected(path)


def _make_target(folder: Path) -> None:
    (folder / "board.toml").write_text('name = "board"\npeak = 1e9\nbandwidth = 1e9\noverhead = 1e-6\n')


def _read_target(path: Path) -> None:
    from twinnet.profile.target import read_target

    read_target(path)


def _make_names(folder: Path) -> None:
    (folder / "names.json").write_text('{"conv.weight": "w0", "relu_1": "r"}')
    (folder / "names.toml").write_text('"conv.weight" = "w0"\nrelu_1 = "r"\n')
    (folder / "names.txt").write_text("# network = twin\nconv.weight = w0\nrelu_1 = r\n")


def _read_names(path: Path) -> None:
    from twinnet.name_map import read_name_map

    read_name_map(path)


SETTINGS: dict[str, Reader] = {
    "tolerances": Reader(text("tolerances.toml", _TOLERANCES), _read_tolerances, "*.toml"),
    "command engine": Reader(_make_command, _read_command, "*.toml"),
    "suite": Reader(text("pyproject.toml", _SUITE), _read_suite, "pyproject.toml"),
    "expected failures": Reader(text("expected.txt", _EXPECTED), _read_expected, "expected.txt"),
    "target": Reader(_make_target, _read_target, "board.toml"),
    "names": Reader(_make_names, _read_names, "names.*"),
}
