"""What a result depends on besides the model, as hashes: twinnet itself, the machine, inputs and engines."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

import twinnet
from twinnet.cache import content_key
from twinnet.suite.config import Config, ModelSettings
from twinnet.suite.models import file_hash

__all__ = ["code_stamp", "engine_stamp", "here_stamp", "inputs_stamp"]


@cache
def code_stamp() -> str:
    """A hash of twinnet's own code: another version may judge otherwise."""
    root = Path(str(twinnet.__file__)).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def here_stamp() -> str:
    """Versions of all that is installed, the processor, and what steers numerics."""
    from twinnet.environment import environment

    return content_key(code_stamp(), json.dumps(environment(), sort_keys=True))


def inputs_stamp(settings: ModelSettings, config: Config) -> str:
    """The inputs of a model: the bytes of the files that it names, shapes and seed."""
    sources = [settings.inputs] if isinstance(settings.inputs, str) else settings.inputs or []
    words = [
        repr((sources, sorted(settings.shape.items()), settings.preprocess, settings.samples, config.seed))
    ]
    named = [*sources, *filter(None, [settings.preprocess])]
    words += _files(config.root / path for text in named for path in _paths(text))
    return content_key(*words)


def _paths(text: str) -> tuple[str, ...]:
    """What may be a path in `NAME=FILE`, `FILE` or `FILE.py:FN`."""
    file = text.partition("=")[2] or text
    return tuple(dict.fromkeys((text, file, file.rpartition(":")[0] or file)))


def _files(paths: Iterable[Path]) -> list[str]:
    return [file_hash(path) for path in paths if path.exists()]


def engine_stamp(spec: str, config: Config) -> str | None:
    """An engine's spec with the files and programs that it names; None if its results may depend on more."""
    from twinnet.engines import find_engine, parse_spec

    parsed = parse_spec(spec)
    engine = find_engine(parsed.engine)
    if not engine.repeatable:
        return None
    words = [spec, *_files(_with_weights(config.root / parsed.file) if parsed.file else [])]
    for value in parsed.options.values():
        for path in (Path(value), config.root / value):
            if path.is_file():
                words.append(_program(path) if os.access(path, os.X_OK) else file_hash(path))
    words += engine.depends_on(parsed.options, parsed.file)
    return content_key(*words)


def _with_weights(path: Path) -> Iterable[Path]:
    """A file and those that hold its weights."""
    from twinnet.errors import TwinnetError
    from twinnet.network import load_network

    yield path
    if path.suffix == ".onnx" and path.is_file():
        with suppress(TwinnetError):  # opening it says so
            yield from getattr(load_network(path), "external", ())


def _program(path: Path) -> str:
    """A program by size and time; a Python by what is installed for it, too."""
    state = path.resolve().stat()
    installed = sorted(path.absolute().parent.parent.glob("lib/python*/site-packages"))
    return f"{path} {state.st_size} {state.st_mtime_ns} {[p.stat().st_mtime_ns for p in installed]}"
