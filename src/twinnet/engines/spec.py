"""Engine specs: `ENGINE[?key=value&key=value][:FILE]`, the one way to name a twin."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from twinnet.errors import UsageError

__all__ = ["Spec", "file_name", "parse_spec", "parse_specs"]

_BY_SUFFIX = {
    ".onnx": "onnxruntime",
    ".pt2": "torch",
    ".py": "callable",
    ".safetensors": "lut",
    ".toml": "command",
}


@dataclass(frozen=True, slots=True)
class Spec:
    """An engine, its options and, where given, the file it is to load.

    >>> str(Spec("onnxruntime", {"opt": "off"}, "net.onnx"))
    'onnxruntime?opt=off:net.onnx'
    """

    engine: str
    options: Mapping[str, str] = field(default_factory=dict)
    file: str | None = None

    def __str__(self) -> str:
        query = "&".join(f"{k}={v}" for k, v in self.options.items())
        return self.engine + (f"?{query}" if query else "") + (f":{self.file}" if self.file else "")

    @property
    def slug(self) -> str:
        """A name for folders.

        >>> Spec("onnxruntime", {"opt": "off"}).slug
        'onnxruntime-opt-off'
        """
        words = [self.engine, *(w for pair in self.options.items() for w in pair)]
        if self.file:
            words.append(Path(self.file.split(":")[0]).stem)
        return file_name("-".join(words), 80)


def file_name(text: str, most: int | None = None) -> str:
    """A text as the name of a file or folder, at most so long.

    >>> file_name("nets/a.onnx?opt=off", 16)
    'nets-a.onnx-opt-'
    """
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text)[:most]


def parse_spec(text: str, engines: Collection[str]) -> Spec:
    """Read one spec. A prefix counts only if it is a registered engine, so that paths with a colon work.

    >>> parse_spec("onnxruntime?opt=off:a.onnx", ["onnxruntime"])
    Spec(engine='onnxruntime', options={'opt': 'off'}, file='a.onnx')
    >>> parse_spec("C:/nets/a.onnx", ["onnxruntime"]).file
    'C:/nets/a.onnx'
    """
    text = text.strip()
    head, _, file = text.partition(":")
    name, question, query = head.partition("?")
    if name in engines:
        # An option value may itself hold a colon only after the file separator, so the first colon decides.
        return Spec(name, _options(query, text) if question else {}, file or None)
    path = text.split(":")[0] if Path(text).suffix == "" else text
    suffix = Path(text).suffix or Path(path).suffix
    engine = _BY_SUFFIX.get(suffix.split(":")[0].lower())
    if engine is None and ".py:" in text:
        engine = "callable"
    if engine in engines and engine is not None:
        return Spec(engine, {}, text)
    known = ", ".join(sorted(engines))
    raise UsageError(
        f"{text!r} names neither an engine nor a file of a known kind",
        hint=f"engines: {known}; form: ENGINE[?key=value&key=value][:FILE]",
    )


def parse_specs(text: str, engines: Collection[str]) -> tuple[Spec, ...]:
    """Read `SPEC[,SPEC...]`; a comma separates only where an engine or a file follows."""
    parts: list[str] = []
    for piece in text.split(","):
        head = piece.strip().partition(":")[0].partition("?")[0]
        if parts and head not in engines and not Path(piece.strip()).suffix:
            parts[-1] += "," + piece
        else:
            parts.append(piece)
    return tuple(parse_spec(p, engines) for p in parts)


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
