"""Write the files of a run folder, each under a temporary name first, so that no reader sees half a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from twinnet.errors import UsageError
from twinnet.store import atomic_write

if TYPE_CHECKING:
    import numpy as np

    from twinnet.result import Result, ResultSet

__all__ = ["write_run", "write_text"]


def write_run(
    result: Result | ResultSet,
    folder: str | Path,
    tensors: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
) -> list[Path]:
    """Write every file of a run, result.json last: its presence means the run is complete.

    The others are report.html, pairs.csv, junit.xml, summary.md, environment.json and model_explorer.json.
    `tensors` gives the network's and the twin's tensor by the site's name, for the report's pictures.
    """
    from twinnet.report import html, junit, markdown, model_explorer, pairs_csv
    from twinnet.report.json_file import FILE_NAME, dump_environment, dump_result

    folder = Path(folder)
    texts = {
        html.FILE_NAME: html.render_report(result, tensors, folder),
        "pairs.csv": pairs_csv.render_csv(result),
        "junit.xml": junit.render_junit(result),
        "summary.md": markdown.render_markdown(result),
        "environment.json": dump_environment(result),
        "model_explorer.json": model_explorer.render_overlay(result),
        FILE_NAME: dump_result(result),
    }
    return [write_text(folder / name, text) for name, text in texts.items()]


def write_text(path: Path, text: str) -> Path:
    """Write `text` as UTF-8; a reader sees the whole file or none."""
    try:
        return atomic_write(path, [text.encode("utf-8", "replace")])
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}", hint="choose another folder with --out"
        ) from None
