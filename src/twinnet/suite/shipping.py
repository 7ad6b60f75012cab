"""A project on its way to other machines, and the runs on their way back, through any store that fsspec knows."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from twinnet.cache import cached_folder, content_key
from twinnet.errors import EngineError, UsageError, foreign
from twinnet.files import BAD_ARCHIVE
from twinnet.suite.config import Config
from twinnet.suite.models import file_hash

__all__ = ["Store", "pack_run", "put_project", "take_project", "unpack_run"]

_MOST = 1 << 34
"""Bytes of a run that are accepted."""


@dataclass(frozen=True)
class Store:
    """A folder of files under a URL, such as `s3://bucket/twinnet` or a path that all machines see."""

    url: str

    def _open(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        with foreign("open the store", "fsspec"):
            fs, root = url_to_fs(self.url)
        return fs, str(root).rstrip("/")

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        fs, root = self._open()
        with foreign("look into the store", "fsspec"):
            return bool(fs.exists(f"{root}/{name}"))

    def put(self, name: str, data: bytes) -> None:
        """Write a file; one of an incomplete copy is never seen under its name where the store can rename."""
        fs, root = self._open()
        part = f"{root}/{name}.{os.getpid()}-{os.urandom(6).hex()}"
        with foreign("write to the store", "fsspec"):
            fs.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
            fs.pipe_file(part, data)
            fs.mv(part, f"{root}/{name}")

    def get(self, name: str) -> bytes:
        """Read a file."""
        fs, root = self._open()
        with foreign("read from the store", "fsspec"):
            return bytes(fs.cat_file(f"{root}/{name}"))

    def drop(self, name: str) -> None:
        """Remove a file."""
        fs, root = self._open()
        with foreign("clear the store", "fsspec"):
            fs.rm_file(f"{root}/{name}")


def put_project(config: Config, store: Store) -> str:
    """Put what the cases of a project need into a store, each file once, by its content; returns the list of files."""
    listed = []
    for path in sorted(set(_needed(config))):
        try:
            inside = path.resolve().relative_to(config.root.resolve()).as_posix()
        except ValueError:
            raise UsageError(
                f"{path} is not in the project {config.root}",
                hint="a cluster gets the files of the project only",
            ) from None
        digest = file_hash(path)
        if not store.has(f"files/{digest}"):
            store.put(f"files/{digest}", path.read_bytes())
        listed.append([inside, digest, hashlib.sha256(path.read_bytes()).hexdigest()])
    return json.dumps(listed)


def take_project(listed: str, store: Store) -> Path:
    """The project on this machine, made once for equal content."""

    def build(folder: Path) -> None:
        for inside, name, digest in json.loads(listed):
            place = PurePosixPath(inside)
            if place.is_absolute() or ".." in place.parts:
                raise EngineError(f"{inside} leads out of the project", stage="load")
            data = store.get(f"files/{name}")
            if hashlib.sha256(data).hexdigest() != digest:
                raise EngineError(f"{inside} arrived damaged", stage="load")
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    return cached_folder(content_key("cluster-project", listed), build)


def _needed(config: Config) -> Iterator[Path]:
    from twinnet.engines import parse_spec

    named: list[str] = [config.tolerance] if config.tolerance else []
    for settings in config.settings.values():
        sources = [settings.inputs] if isinstance(settings.inputs, str) else settings.inputs or []
        named += [*sources, *filter(None, (settings.preprocess, settings.tolerance))]
    named += [file for engine in config.engines if (file := parse_spec(engine.spec).file)]
    paths = [config.root / "pyproject.toml", *config.models]
    for text in named:
        file = text.partition("=")[2] or text
        paths += [config.root / file, config.root / file.rpartition(":")[0]]
    for path in paths:
        if path != config.root:
            yield from _files(path)


def _files(path: Path) -> Iterable[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for place, inner, files in os.walk(path):
            inner[:] = sorted(d for d in inner if not d.startswith((".", "__pycache__")))
            yield from (Path(place, name) for name in sorted(files) if not name.startswith("."))


def pack_run(folder: Path) -> bytes:
    """A run folder as one file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(folder):
            archive.write(path, path.relative_to(folder).as_posix())
    return made.getvalue()


def unpack_run(data: bytes, folder: Path) -> None:
    """The files of a run, each inside its folder, and not more than a machine can bear."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except BAD_ARCHIVE as error:
        raise _damaged(error) from None
    with archive:
        members = archive.infolist()
        if sum(one.file_size for one in members) > _MOST:
            raise EngineError("a run from the cluster is too large", stage="run")
        for one in members:
            place = PurePosixPath(one.filename)
            named = one.filename and one.filename.isprintable() and not one.is_dir()
            if not named or place.is_absolute() or ".." in place.parts:
                raise EngineError(f"a run from the cluster holds a file {one.filename!r}", stage="run")
            try:
                content = archive.read(one)
            except BAD_ARCHIVE as error:
                raise _damaged(error) from None
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def _damaged(error: Exception) -> EngineError:
    return EngineError(f"a run from the cluster arrived damaged: {str(error)[:200]}", stage="run")
