"""Write the files of a profile into a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinnet.errors import MissingExtra
from twinnet.files import atomic_write
from twinnet.profile.building import CompileProfile
from twinnet.profile.measure import Measured
from twinnet.profile.model import FILE_NAME
from twinnet.report.profiles.csv_file import render_compile_csv, render_csv
from twinnet.report.profiles.perfetto import perfetto_bytes
from twinnet.report.profiles.trace_events import render_events

__all__ = ["write_compile_profile", "write_profile", "write_profiles"]


def write_profile(measured: Measured, folder: str | Path) -> list[Path]:
    """Write profile.csv, trace.json, trace.pftrace, profile.html, and profile.json last.

    Without the extra `perfetto` there is no trace.pftrace; trace.json opens in the same viewer.
    """
    from twinnet.report.profiles.page import render_profile

    folder, profile = Path(folder), measured.profile
    files = {
        "profile.csv": render_csv(profile).encode("utf-8", "replace"),
        "trace.json": render_events(measured.timeline).encode("utf-8", "replace"),
    }
    try:
        files["trace.pftrace"] = perfetto_bytes(measured.timeline)
    except MissingExtra:
        (folder / "trace.pftrace").unlink(missing_ok=True)
    files["profile.html"] = render_profile(profile).encode("utf-8", "replace")
    files[FILE_NAME] = profile.to_json().encode()
    return [atomic_write(folder / name, data) for name, data in files.items()]


def write_profiles(found: Sequence[Measured], folders: Sequence[str | Path]) -> None:
    """Write several profiles, each into a folder of its own; one that an earlier call left beside them goes."""
    for measured, folder in zip(found, folders, strict=True):
        write_profile(measured, folder)
    if len(found) > 1:
        for around in {Path(folder).parent for folder in folders}:
            (around / FILE_NAME).unlink(missing_ok=True)


def write_compile_profile(profile: CompileProfile, folder: str | Path) -> list[Path]:
    """Write compile.csv and compile.json."""
    files = {"compile.csv": render_compile_csv(profile), "compile.json": profile.to_json()}
    return [
        atomic_write(Path(folder) / name, text.encode("utf-8", "replace")) for name, text in files.items()
    ]
