"""The notebook of the examples runs as it stands, and shows what it promises."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The code cells with their outputs."""
    folder = tmp_path_factory.mktemp("notebook")
    for path in EXAMPLES.glob("*.py"):
        shutil.copy(path, folder)
    book = nbformat.read(EXAMPLES / "06_notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "the notebook is stored without outputs"
    client = nbclient.NotebookClient(
        book, timeout=400, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return [cell for cell in book.cells if cell.cell_type == "code"]


def _shown(cell: Any, form: str) -> str:
    """What a cell's last expression shows."""
    return next(out.data[form] for out in cell.outputs if out.output_type == "execute_result")


def test_cards_say_everything_and_offer_what_there_is(cells: list[Any]) -> None:
    good, bad = (_shown(cell, "text/html") for cell in cells[:2])
    assert ">PASS<" in good and ">FAIL<" in bad
    assert "the twin pads (0,2) where the network pads (1,1)" in bad
    assert "result.show()" in bad and "result.save(" in bad and "result.to_frame()" in bad


def test_findings_frames_and_pictures(cells: list[Any]) -> None:
    printed = "".join(out.text for out in cells[2].outputs)
    assert printed.startswith("<blocks.0.conv conv2d: the twin pads") and "padding (1, 1) (0, 2)" in printed
    assert "<table" in _shown(cells[3], "text/html")
    drawn = _shown(cells[4], "text/html")
    assert drawn.count("data:image/png;base64,") == 3 and "blocks.0.norm" in drawn and "<script" not in drawn
    assert "heat map of" in _shown(cells[4], "text/plain")


def test_it_saves_a_run_folder(cells: list[Any]) -> None:
    assert "report.html" in _shown(cells[5], "text/plain") and "traces" in _shown(cells[5], "text/plain")


def test_progress_appears_and_goes(cells: list[Any]) -> None:
    lines = [out for cell in cells[:2] for out in cell.outputs if out.output_type == "display_data"]
    assert all(line.data["text/html"] == "" for line in lines), "nothing is left of it"
