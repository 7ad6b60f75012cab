"""A bundle as it arrives: a zip file from anyone. Everything in it is checked before any of it is used."""

from __future__ import annotations

import json
import re
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from twinnet.errors import UsageError
from twinnet.files import BAD_ARCHIVE
from twinnet.report.bundle import SCHEMA

__all__ = ["BadBundle", "Limits", "Opened", "open_bundle"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What an upload may be: bytes sent, bytes unpacked, of one file, members, and how much a member may swell."""

    body: int = 2 << 30
    unpacked: int = 8 << 30
    member: int = 2 << 30
    text: int = 64 << 20
    members: int = 200_000
    ratio: int = 300


class BadBundle(UsageError):
    """An upload that is refused, and why."""


_RUN = re.compile(r"runs/([^/]+)/(.+)")
_SMALL = 1 << 16


class Opened:
    """A bundle whose members are checked. `session` is its session.json, `runs` the members of each run folder."""

    def __init__(self, archive: zipfile.ZipFile, limits: Limits) -> None:
        self._archive, self._limits = archive, limits
        self.runs: dict[str, dict[str, zipfile.ZipInfo]] = {}
        members = archive.infolist()
        if len(members) > limits.members:
            raise BadBundle(f"it has {len(members)} members, more than {limits.members}")
        seen: set[str] = set()
        unpacked = 0
        session = None
        for member in members:
            name = _checked_name(member, seen)
            _check_size(member, limits)
            unpacked += member.file_size
            if unpacked > limits.unpacked:
                raise BadBundle(f"it unpacks to more than {limits.unpacked} bytes")
            if name.endswith("/"):
                continue
            if name == "session.json":
                session = member
            elif found := _RUN.fullmatch(name):
                self.runs.setdefault(found[1], {})[found[2]] = member
            else:
                raise BadBundle(f"{name!r} does not belong in a bundle")
        if session is None:
            raise BadBundle("it has no session.json")
        self.session = self._session(session)

    def _session(self, member: zipfile.ZipInfo) -> dict[str, Any]:
        try:
            data = json.loads(self.text(member))
        except (ValueError, RecursionError) as error:
            raise BadBundle(f"session.json is not JSON: {str(error)[:200]}") from None
        if not isinstance(data, dict) or not isinstance(data.get("results"), list):
            raise BadBundle("session.json has no list of results")
        schema = data.get("schema")
        if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
            raise BadBundle("session.json states no schema")
        if schema > SCHEMA:
            raise BadBundle(f"session.json has schema {schema}; this server reads up to {SCHEMA}")
        return data

    @contextmanager
    def reading(self, member: zipfile.ZipInfo) -> Iterator[BinaryIO]:
        """A member's bytes; whatever is wrong with them is a `BadBundle`."""
        try:
            with self._archive.open(member) as file:
                yield file  # pyright: ignore[reportReturnType]
        except UsageError:
            raise
        except BAD_ARCHIVE as error:
            raise BadBundle(f"{member.filename!r} is damaged: {str(error)[:200]}") from None

    def text(self, member: zipfile.ZipInfo) -> bytes:
        """All bytes of a member that is a text of limited size."""
        if member.file_size > self._limits.text:
            raise BadBundle(f"{member.filename!r} is larger than {self._limits.text} bytes")
        with self.reading(member) as file:
            data = file.read(self._limits.text + 1)
        if len(data) > self._limits.text:
            raise BadBundle(f"{member.filename!r} is larger than {self._limits.text} bytes")
        return data


@contextmanager
def open_bundle(path: Path, limits: Limits) -> Iterator[Opened]:
    """Open an uploaded file; anything but a well-made bundle is a `BadBundle`."""
    try:
        archive = zipfile.ZipFile(path)
    except BAD_ARCHIVE as error:
        raise BadBundle(f"it is not a zip file: {str(error)[:200]}") from None
    with archive:
        yield Opened(archive, limits)


def _checked_name(member: zipfile.ZipInfo, seen: set[str]) -> str:
    name = member.filename
    # zipfile itself cuts a name at a NUL and turns backslashes around on some systems: neither is ours.
    raw = getattr(member, "orig_filename", name)
    parts = name.rstrip("/").split("/")
    if (
        raw != name
        or not name
        or len(name) > 500
        or name.startswith("/")
        or "\\" in name
        or (len(parts[0]) == 2 and parts[0][1] == ":")
        or any(part in ("", ".", "..") for part in parts)
        or any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) < 0xE000 for char in name)
    ):
        raise BadBundle(f"{raw[:200]!r} is not an allowed file name")
    key = name.rstrip("/").casefold()
    if key in seen:
        raise BadBundle(f"{name!r} appears twice")
    seen.add(key)
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise BadBundle(f"{name!r} is a link or a device")
    if member.flag_bits & 0x1:
        raise BadBundle(f"{name!r} is encrypted")
    return name


def _check_size(member: zipfile.ZipInfo, limits: Limits) -> None:
    if member.file_size > limits.member:
        raise BadBundle(f"{member.filename!r} is larger than {limits.member} bytes")
    if member.file_size > max(_SMALL, member.compress_size * limits.ratio):
        raise BadBundle(f"{member.filename!r} unpacks to more than {limits.ratio} times its size")
