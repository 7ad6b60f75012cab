"""Models of others score as they are known to, so that ours stand beside the real ones."""

from __future__ import annotations

import pytest
from tools.shipped_tables.competitors import competitors

from tests.needs import need_data, need_engine
from twinnet.restore.benchmarks import benchmarks_in
from twinnet.restore.candidates import Candidate
from twinnet.restore.evaluate import score
from twinnet.restore.filters import classical
from twinnet.restore.tasks.sr import SuperResolution

GOLDEN = {
    "FSRCNN-small, OpenCV": 28.18, "FSRCNN, OpenCV": 28.39, "ESPCN, OpenCV": 28.36, "FSRCNN, ONNX Runtime": 28.39,
    "FSRCNN-NT, ONNX Runtime": 29.02, "ESPCN-NT, ONNX Runtime": 29.13, "IMDN, ONNX Runtime": 32.19,
    "cubic, OpenCV": 28.62, "Lanczos, OpenCV": 28.87, "SR-LUT S": 29.82, "MuLUT sdy x2": 30.59,
}  # fmt: skip
"""Set5 x4, measured elsewhere on luma rounded to 8 bit, which costs up to 0.03 dB."""


def test_all_others_have_their_known_scores_and_costs():
    need_engine("onnxruntime")
    data = need_data()
    task = SuperResolution(4)
    found, _ = benchmarks_in(need_data("images", "bench"), task, ["Set5"])
    models = [
        Candidate("bicubic", task.plain),
        *classical(task),
        *(model for _, _, model in competitors(task, data)),
    ]
    rows = {row.model: row for row in score(task, found, models)[0]}
    for name, golden in GOLDEN.items():
        assert rows[name].scores["PSNR"] == pytest.approx(golden, abs=0.03), name
    assert rows["cubic, OpenCV"].ratio == 1.0 and rows["IMDN, ONNX Runtime"].ratio > 50
    assert rows["MuLUT sdy x2"].lookups == 24 and rows["IMDN, ONNX Runtime"].parameters == 715_176
    assert "published" in rows["SPF-LUT + DFC"].failed and not rows["SPF-LUT + DFC"].scores
