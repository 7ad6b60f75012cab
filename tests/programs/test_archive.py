"""Programs of two files or more: put together, they answer where twinnet is not installed."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from twinnet.engines import _executorch_worker, _litert_program, _openvino_program, _ort_session
from twinnet.errors import EngineError
from twinnet.programs.archive import write_archive
from twinnet.programs.place import HERE, Script
from twinnet.programs.worker import Worker
from twinnet.tables.board import PROGRAM

SUM = """
import sys
from twinnet.programs.lines import answer_lines

def answer(asked, loaded):
    print("a library says something")
    loaded["calls"] = loaded.get("calls", 0) + 1
    twinnet = sys.modules["twinnet"]
    return {"sum": asked["a"] + asked["b"], "calls": loaded["calls"], "home": twinnet.__file__}

answer_lines(answer)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "sum.py").write_text(SUM)
    return tmp_path / "sum.py"


def test_answers_request_after_request(program: Path) -> None:
    room = HERE.room("test")
    worker = room.worker(Script(program, "sum", ()))
    try:
        first = worker.ask({"a": 1, "b": 2}, "add")
        assert (first["sum"], first["calls"]) == (3, 1)
        assert "sum.pyz" in first["home"], "it imports what the archive holds, not the installed package"
        with pytest.raises(EngineError, match="could not add: unsupported operand"):
            worker.ask({"a": 1, "b": None}, "add")
        assert worker.ask({"a": 2, "b": 2}, "add")["calls"] == 3
    finally:
        worker.close()
        room.close()


def test_an_archive_may_go_while_its_program_runs(program: Path, tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "sum.pyz", program)
    with Worker([sys.executable, "-I", str(archive)], "sum") as worker:
        worker.ask({"a": 1, "b": 1}, "add")
        archive.unlink()
        assert worker.ask({"a": 2, "b": 3}, "add")["sum"] == 5


def test_equal_content_gives_equal_bytes(program: Path, tmp_path: Path) -> None:
    one, two = (write_archive(tmp_path / f"{i}.pyz", program).read_bytes() for i in range(2))
    assert one == two


@pytest.mark.parametrize(
    "file",
    [
        *(Path(m.__file__) for m in (_executorch_worker, _litert_program, _openvino_program, _ort_session)),
        PROGRAM.file,
    ],
    ids=lambda file: file.stem,
)
def test_programs_hold_all_they_import_of_twinnet(file: Path, tmp_path: Path) -> None:
    """Asked for something it does not know, each one starts and answers."""
    script = PROGRAM if file == PROGRAM.file else Script(file, file.stem, ())
    archive = script.written(tmp_path)
    with zipfile.ZipFile(archive) as held:
        assert held.read("twinnet/__init__.py") == b""
    with (
        Worker([sys.executable, "-I", str(archive)], file.stem) as worker,
        pytest.raises(
            EngineError, match=r"could not try: 'session'|could not try: 'nonsense'|could not try: 'feeds'"
        ),
    ):
        worker.ask({"do": "nonsense"}, "try")
