"""The event block of a profile: the same times, as events."""

from __future__ import annotations

from pathlib import Path

from twinnet.errors import UsageError
from twinnet.inspector.events import Event, EventBlock, Times
from twinnet.profile import Profile, load_profile
from twinnet.profile.model import FILE_NAME, FOLDER

__all__ = ["PROFILE", "has_profile", "profile_block"]

PROFILE = "profile"
"""The name of the block."""


def has_profile(folder: Path) -> bool:
    """Whether a folder is, or holds, a profile."""
    return (folder / FILE_NAME).is_file() or (folder / FOLDER / FILE_NAME).is_file()


def profile_block(folder: Path) -> EventBlock:
    """An event for each step, with the time of every run in milliseconds."""
    profile: Profile = load_profile(folder)
    if not profile.rows:
        raise UsageError(f"the profile in {folder} has no steps")
    events = tuple(
        Event(
            row.name,
            Times(tuple(1e3 * s for s in row.seconds)) if row.seconds else None,
            op=row.op,
            op_types=row.network_ops,
            stack_traces=dict.fromkeys(row.sites[:1], row.source) if row.source else {},
            module_hierarchy={site: {row.module: (row.module, "")} for site in row.sites[:1] if row.module},
            source=row.source,
            module=row.module,
        )
        for row in profile.rows
    )
    return EventBlock(PROFILE, events, unit="ms")
