"""A program in one file that Python runs: its own text, the loop of `lines.py`, and what else of twinnet it needs."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

__all__ = ["write_archive"]

_ROOT = Path(__file__).parents[1]
_LOOP = "programs/lines.py"


def write_archive(target: Path, program: Path, parts: Iterable[str] = ()) -> Path:
    """Write an archive whose main program is the file `program`; `parts` are files of twinnet that it imports.

    The packages around these files are empty in it, so nothing else of twinnet is imported or needed. Equal content
    gives equal bytes, by which a board knows what it has already.
    """
    texts = {f"twinnet/{part}": (_ROOT / part).read_bytes() for part in (_LOOP, *parts)}
    for name in list(texts):
        for folder in PurePosixPath(name).parents:
            if folder.name:
                texts.setdefault(f"{folder}/__init__.py", b"")
    texts["__main__.py"] = program.read_bytes()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(texts.items()):
            archive.writestr(zipfile.ZipInfo(name), data)  # without the time of day
    return target
