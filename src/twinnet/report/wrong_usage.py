"""The run of a command that was refused: a CI job finds its files whatever happened."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from twinnet.errors import TwinnetError, UsageError
from twinnet.report.files import run_written, write_run
from twinnet.result import InputsInfo, Result, SideInfo

__all__ = ["write_refused"]


def write_refused(
    error: UsageError, network: str, twin: str, folder: str | Path, argv: Sequence[str]
) -> None:
    """Write a run folder with the verdict ERROR and the message. One that cannot be written is left alone."""
    result = Result(
        "ERROR",
        SideInfo(network, ""),
        SideInfo(twin, "", twin),
        InputsInfo(0, "none", False),
        error=str(error),
        stage="usage",
        argv=tuple(argv),
        folder=str(folder),
    )
    with suppress(TwinnetError, OSError), run_written(Path(folder)) as stage:
        assert stage is not None
        write_run(result, stage, page=Path(folder))
