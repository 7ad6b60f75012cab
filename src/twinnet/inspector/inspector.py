"""The Inspector: any recording, whoever made it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twinnet.errors import UsageError
from twinnet.executorch import DebugBuffer, Dump, Record, read_dump, read_record
from twinnet.inspector.events import Event, EventBlock, frame
from twinnet.inspector.from_etdump import blocks_of
from twinnet.inspector.from_folder import recorded_blocks, run_blocks
from twinnet.inspector.from_profile import PROFILE, has_profile, profile_block

__all__ = ["Inspector"]

_SUFFIXES = (".etdp", ".etdump")


class Inspector:
    """Opens a recording: one of twinnet's folders, or an ETDump with or without its debug buffer and ETRecord.

    `run_dir` is a folder: a run of `twinnet check`, a recording of `twinnet record`, a profile of `twinnet profile`, or
    any folder with an ETDump.
    `missing` says what is not there, and what is not known because of it. Nothing is unpickled, and ExecuTorch need not
    be installed.
    """

    def __init__(
        self,
        run_dir: str | Path | None = None,
        *,
        etdump_path: str | Path | None = None,
        buffer_path: str | Path | None = None,
        debug_buffer_path: str | Path | None = None,
        etrecord: str | Path | None = None,
        method: str = "forward",
        source_time_scale: str = "ns",
        target_time_scale: str = "ms",
    ) -> None:
        if (run_dir is None) == (etdump_path is None):
            raise UsageError(
                "name a folder or an ETDump", hint="Inspector(run_dir) or Inspector(etdump_path=...)"
            )
        if buffer_path is not None and debug_buffer_path is not None:
            raise UsageError("buffer_path and debug_buffer_path are the same: give one of them")
        self._record: Record | None = None
        self._dump: Dump | None = None
        self.missing: tuple[str, ...] = ()
        buffer = buffer_path or debug_buffer_path
        self.path = Path(run_dir if run_dir is not None else etdump_path or "")
        if run_dir is not None:
            found = _found(self.path)
            if found is None:
                self._open_folder(self.path)
                return
            etdump_path, buffer, etrecord = found[0], buffer or found[1], etrecord or found[2]
        assert etdump_path is not None
        self._dump = read_dump(etdump_path)
        self._record = None if etrecord is None else read_record(etrecord)
        held = None if buffer is None else DebugBuffer(buffer)
        self.event_blocks: tuple[EventBlock, ...] = blocks_of(
            self._dump, held, self._record, method=method, source=source_time_scale, target=target_time_scale
        )
        self.missing = _missing(self._dump, held, self._record)

    def _open_folder(self, folder: Path) -> None:
        timed = (profile_block(folder),) if has_profile(folder) else ()
        if (folder / "result.json").exists():
            blocks, self.missing = run_blocks(folder)
            self.event_blocks = (*blocks, *timed)
            if not timed:
                self.missing = (*self.missing, "times (check --profile measures them)")
        elif timed:
            self.event_blocks = timed
        else:
            self.event_blocks = recorded_blocks(folder)
            self.missing = ("times (they are in the ETDump of an ExecuTorch recording)",)

    # -- answers -------------------------------------------------------------------------------------------------

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of all blocks."""
        return tuple(event for block in self.event_blocks for event in block.events)

    def rows(self) -> list[dict[str, Any]]:
        """One row per event, as plain values."""
        return [row for block in self.event_blocks for row in block.rows()]

    def to_dataframe(self) -> Any:
        """One row per event, as a pandas DataFrame."""
        return frame(self.rows())

    def find_total_for_module(self, module: str) -> float:
        """The average time of all operators of a module and those inside it, in the unit of its block."""
        total = 0.0
        for block in self.event_blocks:
            for event in block.events:
                inside = event.module == module or event.module.startswith(f"{module}.")
                own = block.name == PROFILE or event.name.startswith("native_call_")
                if event.perf_data is not None and own and inside:
                    total += event.perf_data.avg
        return total

    def table(self, width: int | None = None) -> str:
        """All events as a table for a terminal."""
        from twinnet.inspector.table import as_text

        return as_text(self.path, self.event_blocks, self.missing, width)

    def print_data_tabular(self) -> None:
        """Print the table."""
        print(self.table())

    def to_html(self, path: str | Path | None = None) -> str:
        """The table as a page that needs nothing else; written to `path` if given."""
        from twinnet.files import atomic_write
        from twinnet.inspector.page import as_page

        text = as_page(self.path, self.event_blocks, self.missing)
        if path is not None:
            atomic_write(path, text.encode("utf-8", "replace"))
        return text

    def _repr_html_(self) -> str:
        from twinnet.inspector.page import as_fragment

        return as_fragment(self.path, self.event_blocks, self.missing)

    def __repr__(self) -> str:
        return f"<Inspector {self.path}: {len(self.event_blocks)} blocks, {len(self.events)} events>"


def _found(folder: Path) -> tuple[Path, Path | None, Path | None] | None:
    """The ETDump in a folder, or in the first sample of a recording, with its buffer and ETRecord."""
    if not folder.is_dir():
        raise UsageError(f"no such folder: {folder}")
    for place in (folder, folder / "0000"):
        dumps = sorted(p for p in place.glob("*") if p.suffix in _SUFFIXES) if place.is_dir() else []
        if len(dumps) > 1:
            names = ", ".join(p.name for p in dumps[:6])
            raise UsageError(
                f"{place} holds several ETDumps: {names}", hint="name one: Inspector(etdump_path=...)"
            )
        if dumps:
            return (
                dumps[0],
                _only(place, ("*.bin", "*.dbg")),
                _only(place, ("*.etrecord",)) or _only(folder, ("*.etrecord",)),
            )
    return None


def _only(folder: Path, patterns: Sequence[str]) -> Path | None:
    found = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    return found[0] if len(found) == 1 else None


def _missing(dump: Dump, buffer: DebugBuffer | None, record: Record | None) -> tuple[str, ...]:
    said = []
    logged = any(run.values for run in dump.runs)
    if not logged:
        said.append("tensors (the runtime logged none: no debug level was set)")
    elif buffer is None:
        said.append("debug buffer: shapes are known, values are not")
    if logged and all(value.output for run in dump.runs for value in run.values):
        said.append("intermediate tensors (the runtime logged program outputs only)")
    if record is None:
        said.append("ETRecord: operators, modules and source lines are not known")
    elif record.exported is None:
        said.append("exported program in the ETRecord: names are those of the lowered program")
    if not any(run.steps for run in dump.runs):
        said.append("times (the runtime logged none)")
    return tuple(said)
