"""Engine specs: `ENGINE[?key=value&key=value][:FILE]`, the one way to name a twin."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from twinnet.engines.registry import (
    all_engines,
    engine_for_file,
    engine_for_format,
    engine_names,
    find_engine,
    has_engine,
)
from twinnet.errors import UsageError

if TYPE_CHECKING:
    from twinnet.engines.base import Session
    from twinnet.job import Job
    from twinnet.network import Network

__all__ = [
    "Spec",
    "Twin",
    "board_word",
    "file_name",
    "parse_spec",
    "parse_specs",
    "place_name",
    "reference_spec",
]

Twin: TypeAlias = "Spec | Session | Network | Callable[..., Any]"
"""What can be a twin."""


@dataclass(frozen=True, slots=True)
class Spec:
    """An engine, its options and, if given, the file it loads.

    >>> str(Spec("onnxruntime", {"opt": "off"}, "net.onnx"))
    'onnxruntime?opt=off:net.onnx'
    """

    engine: str
    options: Mapping[str, str] = field(default_factory=dict)
    file: str | None = None
    on: str = ""
    """The board it runs on, `ssh://...`; empty for this machine."""

    def __str__(self) -> str:
        query = "&".join(f"{k}={v}" for k, v in self.options.items())
        file, place = f":{self.file}" if self.file else "", f"@{self.on}" if self.on else ""
        return self.engine + (f"?{query}" if query else "") + file + place

    @property
    def slug(self) -> str:
        """A name for folders.

        >>> Spec("onnxruntime", {"opt": "off"}).slug
        'onnxruntime-opt-off'
        """
        words = [self.engine, *(w for pair in self.options.items() for w in pair)]
        if self.file:
            words.append(Path(self.file.split(":")[0]).stem)
        if self.on:
            words.append(board_word(self.on))
        return file_name("-".join(words), 80)

    def open(self, network: Network | None, job: Job) -> Session:
        """A session of the network, or of the spec's own file, at the place that the spec names."""
        engine = find_engine(self.engine)
        if not self.on:
            return engine.open(network, self.options, self.file, job)
        if engine.board is None:
            able = ", ".join(e.name for e in all_engines() if e.board is not None)
            raise UsageError(
                f"engine {self.engine} has no runner for boards", hint=f"engines that have one: {able}"
            )
        from twinnet.remote.board import board_at

        place = board_at(self.on, job.report)
        with place.kept():
            return engine.open(network, self.options, self.file, replace(job, place=place))


def board_word(place: str) -> str:
    """A board in the name of a folder: its host.

    >>> board_word("ssh://pi@board:22/data?wait=5")
    'pi@board:22'
    """
    return re.sub(r"[/?].*", "", place.partition("//")[2])


def file_name(text: str, most: int | None = None) -> str:
    """Turn a text into a file or folder name of at most `most` characters.

    >>> file_name("nets/a.onnx?opt=off", 16)
    'nets-a.onnx-opt-'
    """
    made = "".join(c if c.isalnum() or c in "-_." else "-" for c in text)[:most]
    return made if made.strip(".") else "-"


def parse_spec(text: str) -> Spec:
    """Read one spec. A prefix counts only if it is the name of an engine, so that paths with a colon work.

    >>> spec = parse_spec("onnxruntime?opt=off:a.onnx")
    >>> spec.engine, spec.options, spec.file
    ('onnxruntime', {'opt': 'off'}, 'a.onnx')
    >>> str(parse_spec("executorch:a.pte?etdump=a.etdp&buffer=a.bin"))
    'executorch?etdump=a.etdp&buffer=a.bin:a.pte'
    >>> parse_spec("C:/nets/a.onnx").file
    'C:/nets/a.onnx'
    >>> parse_spec("onnxruntime:a.onnx@ssh://pi@board:2222").on
    'ssh://pi@board:2222'
    """
    text, place = _placed(text.strip())
    # Option values hold no colon, so the first colon starts the file.
    head, _, file = text.partition(":")
    name, question, query = head.partition("?")
    if has_engine(name):
        options = _options(query, text) if question else {}
        before, also, tail = file.rpartition("?")
        if also and "=" in tail and not Path(file).exists():  # options may follow the file, too
            file, options = before, _options(f"{query}&{tail}", text)
        return Spec(name, options, file or None, place)
    engine = engine_for_file(text)
    if engine is not None:
        return Spec(engine, {}, text, place)
    raise UsageError(f"{text!r} names neither an engine nor a file of a known kind", hint=_meant(text, name))


def _meant(text: str, name: str) -> str:
    """What a spec that names nothing may have meant."""
    if text and Path(text).is_dir():
        return f"it is a folder; the arrays or the recording in it are a twin as recording:{text}"
    if close := difflib.get_close_matches(name, engine_names(), n=2):
        return f"did you mean {' or '.join(close)}?"
    return f"engines: {', '.join(sorted(engine_names()))}; form: ENGINE[?key=value&key=value][:FILE]"


def parse_specs(text: str) -> tuple[Spec, ...]:
    """Read `SPEC[,SPEC...]`; a comma separates only where an engine or a file follows.

    >>> [str(spec) for spec in parse_specs("torch,onnxruntime?opt=off,net.onnx")]
    ['torch', 'onnxruntime?opt=off', 'onnxruntime:net.onnx']
    """
    parts: list[str] = []
    for piece in text.split(","):
        alone = re.split(_PLACE, piece.strip(), maxsplit=1)[0]
        head = alone.partition(":")[0].partition("?")[0]
        if parts and not has_engine(head) and not Path(alone).suffix:
            parts[-1] += "," + piece
        else:
            parts.append(piece)
    return tuple(parse_spec(p) for p in parts)


def reference_spec(network: Network, twin: Twin | None = None) -> Spec:
    """The default spec that runs the network: what the twin's engine asks for, else the engine of its format.

    The network runs as written, without optimisation.
    """
    from twinnet.network import Network  # specs are read without it

    beside = None
    if isinstance(twin, Spec):
        beside = find_engine(twin.engine).reference(network)
    elif isinstance(twin, Network):
        beside = engine_for_format(twin.format)().reference(network)
    if beside is not None:
        return parse_spec(beside)
    engine = engine_for_format(network.format)()
    return Spec(engine.name, engine.writing(network))


_PLACE = re.compile(r"@(?=ssh://)")


def _placed(text: str) -> tuple[str, str]:
    """A spec without its place, and the board that it names."""
    spec, *rest = re.split(_PLACE, text, maxsplit=1)
    return spec, place_name(rest[0]) if rest else ""


def place_name(text: str | None) -> str:
    """What `--on` names: the address of a board, or empty for this machine.

    >>> place_name("local"), place_name("ssh://pi@board")
    ('', 'ssh://pi@board')
    """
    if not text or text == "local":
        return ""
    from twinnet.remote.address import read_address

    return read_address(text).text


def _options(query: str, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for item in filter(None, query.split("&")):
        key, equals, value = item.partition("=")
        if not equals or not key or not value:
            raise UsageError(f"option {item!r} in {text!r} is not of the form key=value")
        if key in options:
            raise UsageError(f"option {key!r} is given twice in {text!r}")
        options[key] = value
    return options
