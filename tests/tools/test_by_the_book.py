"""The table of architectures quantised by the book: a row for each check, and none made twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.by_the_book import Row, main, table

from tests.needs import need_engine


def test_rows_are_added_and_not_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_engine("onnxruntime")
    out = tmp_path / "rows.jsonl"
    known = Row("U-Net", "static", "FAIL", 1.0, [{"site": "up", "cause": "known"}])
    out.write_text(json.dumps(vars(known)) + "\n")
    assert main(["--here", "--out", str(out), "--only", "U-Net", "--ways", "static", "weights"]) == 0
    rows = [Row(**json.loads(line)) for line in out.read_text().splitlines()]
    assert rows[0] == known and [(r.way, r.verdict) for r in rows[1:]] == [("weights", "PASS")], rows
    assert rows[1].findings == [] and rows[1].seconds > 0
    assert capsys.readouterr().err.count("U-Net, weights") == 1
    said = table({(r.architecture, r.way): r for r in rows})
    assert said.splitlines() == ["| | static | weights |", "|---|---|---|", "| U-Net | FAIL | PASS |"]
