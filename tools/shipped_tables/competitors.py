"""Models of others that ours are compared with: where they lie in the data folder, and under which terms.

Nothing of theirs is part of this package; they are run where somebody has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from twinnet.errors import TwinnetError
from twinnet.restore.candidates import Candidate, compared, unable
from twinnet.restore.tasks import Task

__all__ = ["COMPETITORS", "UNIT", "Competitor", "competitors"]


@dataclass(frozen=True)
class Competitor:
    """A model of somebody else for one task and scale. `file` may hold `{scale}`."""

    name: str
    kind: str
    """`published` tables, or a `network`."""
    file: str
    scales: tuple[int, ...] = (4,)
    terms: str = ""


_ALL = (2, 3, 4)
UNIT = "MuLUT sdy x2"
"""Whose running time all others are divided by: its x4 tables make an image of the same size."""
COMPETITORS: tuple[Competitor, ...] = (
    Competitor("SR-LUT S", "published", "lut-data/SR-LUT/Model_S_x{scale}_4bit_int8.npy", _ALL, "no licence"),
    Competitor("SR-LUT F", "published", "lut-data/SR-LUT/Model_F_x4_4bit_int8.npy", terms="no licence"),
    Competitor("SR-LUT V", "published", "lut-data/SR-LUT/Model_V_x4_0bit_int8.npy", terms="no licence"),
    Competitor("MuLUT sdy x2", "published", "lut-data/MuLUT/sr_x2sdy", terms="MIT"),
    Competitor("MuLUT sdy x2, DFC, not fine-tuned", "published", "lut-golden/mulut_dfc_xyzt2i5", terms="MIT"),
    Competitor(
        "SPF-LUT + DFC",
        "published",
        "",
        terms="its tables were published on a drive that is not part of this data; its paper states 31.05 dB on Set5",
    ),
    Competitor("AutoLUT", "published", "", terms="no tables were published"),
    Competitor(
        "FSRCNN-small, OpenCV", "network", "sr-peers/fsrcnn/FSRCNN-small_x{scale}.pb", _ALL, "Apache-2.0"
    ),
    Competitor("FSRCNN, OpenCV", "network", "sr-peers/fsrcnn/FSRCNN_x{scale}.pb", _ALL, "Apache-2.0"),
    Competitor("ESPCN, OpenCV", "network", "sr-peers/espcn/ESPCN_x{scale}.pb", _ALL, "Apache-2.0"),
    Competitor(
        "FSRCNN, ONNX Runtime", "network", "sr-peers/fsrcnn-onnx/FSRCNN_x{scale}.onnx", _ALL, "Apache-2.0"
    ),
    Competitor(
        "FSRCNN-NT, ONNX Runtime", "network", "sr-peers/nt-fsrcnn/FSRCNN-NT_x{scale}.onnx", _ALL, "MIT"
    ),
    Competitor("ESPCN-NT, ONNX Runtime", "network", "sr-peers/nt-espcn/ESPCN-NT_x{scale}.onnx", _ALL, "MIT"),
    Competitor("IMDN, ONNX Runtime", "network", "sr-peers/imdn/IMDN_x{scale}.onnx", terms="no licence"),
)
"""All of them are for super-resolution. FSRCNN and ESPCN as OpenCV's users get them were trained on images shrunk
without a filter against aliasing; IMDN is there as an upper bound, at several hundred times the cost."""


def competitors(task: Task, data: Path) -> Iterator[tuple[Competitor, Path | None, Candidate]]:
    """Those for a task, each with its file, ready to run or with the reason why not."""
    for other in COMPETITORS:
        if task.name != "sr" or task.scale not in other.scales:
            continue
        if not other.file:
            yield other, None, unable(other.name, other.terms)
            continue
        path = data / other.file.format(scale=task.scale)
        if not path.exists():
            yield other, None, unable(other.name, f"{other.file.format(scale=task.scale)} is not there")
            continue
        try:
            yield other, path, replace(compared(str(path), task), name=other.name)
        except TwinnetError as error:
            yield other, path, unable(other.name, error.what)
