"""Write the files of a run folder, so that no reader sees half a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from twinnet.files import atomic_write, whole_folder

if TYPE_CHECKING:
    import numpy as np

    from twinnet.result import Result, ResultSet

__all__ = ["run_written", "write_run"]

_FILES = ("report.html", "pairs.csv", "junit.xml", "summary.md", "environment.json", "model_explorer.json")
_OURS = ("result.json", *_FILES, "traces", "seeds", "repro", "profile")


@contextmanager
def run_written(folder: Path | None) -> Iterator[Path | None]:
    """Where to write a run until it is whole: it then takes the place of an earlier run in `folder`, as one."""
    if folder is None:
        yield None
        return
    with whole_folder(folder, last="result.json", ours=_OURS) as stage:
        yield stage


def write_run(
    result: Result | ResultSet,
    folder: str | Path,
    tensors: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    *,
    page: Path | None = None,
) -> list[Path]:
    """Write every file of a run, result.json last: its presence means the run is complete.

    The others are report.html, pairs.csv, junit.xml, summary.md, environment.json and model_explorer.json.
    `tensors` gives the network's and the twin's tensor by the site's name, for the report's pictures;
    `page` is where the report will stand, if not in `folder`.
    """
    from twinnet.report import html, junit, markdown, model_explorer, pairs_csv
    from twinnet.report.json_file import FILE_NAME, dump_environment, dump_result

    folder = Path(folder)
    texts = {
        html.FILE_NAME: html.render_report(result, tensors, page or folder),
        "pairs.csv": pairs_csv.render_csv(result),
        "junit.xml": junit.render_junit(result),
        "summary.md": markdown.render_markdown(result),
        "environment.json": dump_environment(result),
        "model_explorer.json": model_explorer.render_overlay(result),
        FILE_NAME: dump_result(result),
    }
    return [atomic_write(folder / name, text.encode("utf-8", "replace")) for name, text in texts.items()]
