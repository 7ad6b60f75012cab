"""The speaker for results: loaded with the package, so it imports what it needs only when called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from twinnet.result import Fact, Result, ResultSet
from twinnet.result.speech import use

__all__ = ["Reporter"]


class Reporter:
    """Puts facts into words; shows, writes and reads results."""

    def words(self, fact: Fact) -> str:
        from twinnet.report.sentences import words

        return words(fact)

    def screen(self, thing: Any) -> str:
        if isinstance(thing, Result | ResultSet):
            from twinnet.report.terminal import render_text

            return render_text(thing)
        from twinnet.report.structure import render_diff

        return render_diff(thing)

    def fragment(self, result: Result | ResultSet) -> str:
        from twinnet.report.html import render_fragment

        return render_fragment(result)

    def to_json(self, thing: Any) -> str:
        if isinstance(thing, Result | ResultSet):
            from twinnet.report.json_file import dump_result

            return dump_result(thing)
        from twinnet.report.structure import dump_diff

        return dump_diff(thing)

    def frame(self, result: Result | ResultSet) -> Any:
        from twinnet.report.pairs_csv import frame

        return frame(result)

    def drawing(self, result: Result, site: str) -> Any:
        from twinnet.report.show import drawing_of

        return drawing_of(result, site)

    def save(self, result: Result | ResultSet, folder: str | Path) -> Path:
        from twinnet.report.files import run_written, write_run
        from twinnet.report.show import save_tensors

        tensors = result.tensors if isinstance(result, Result) else {}
        if isinstance(result, Result):
            result = replace(result, folder=str(folder))
        with run_written(Path(folder)) as stage:
            assert stage is not None
            save_tensors(stage, tensors)
            write_run(result, stage, tensors, page=Path(folder))
        return Path(folder)

    def load(self, folder: str | Path) -> Result | ResultSet:
        from twinnet.report.json_file import load_result

        return load_result(folder)


use(Reporter())
