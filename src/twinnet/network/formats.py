"""Which class reads which file or folder. Readers are imported when needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from twinnet.errors import MissingExtra
from twinnet.network.sniff import sniff

__all__ = ["FORMATS", "Format", "reader_of"]


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file or folder that holds a network.

    `reader` is "module:class", a `Network` with a class method `load(path, name=...)`; `fits` checks name and content.
    `packages` are imported by the reader, `extra` installs them.
    """

    reader: str
    fits: Callable[[Path], bool]
    packages: tuple[str, ...] = ()
    extra: str = ""

    def load_reader(self) -> Any:
        """The class, imported now."""
        module, _, name = self.reader.partition(":")
        try:
            return getattr(import_module(module), name)
        except ImportError as error:
            if error.name and error.name.partition(".")[0] in self.packages:
                raise MissingExtra(self.packages[0], self.extra) from error
            raise


FORMATS: dict[str, Format] = {
    "experiment": Format(
        "twinnet.restore.network:ExperimentNetwork", lambda path: (path / "config.toml").is_file()
    ),
    "pt2": Format("twinnet.network.exported:ExportedNetwork", lambda path: sniff(path) == "pt2"),
    "tflite": Format(
        "twinnet.tflite.network:TfliteNetwork",
        lambda path: path.is_file() and (sniff(path) == "tflite" or path.suffix.lower() == ".tflite"),
    ),
    "onnx": Format(
        "twinnet.onnx.network:OnnxNetwork",
        lambda path: path.is_file() and (sniff(path) == "onnx" or path.suffix.lower() == ".onnx"),
        packages=("onnx", "google"),
        extra="onnx",
    ),
    "lookup tables": Format(
        "twinnet.tables.network:TableNetwork", lambda path: path.name.endswith(".lut.safetensors")
    ),
}
"""Formats, in the order in which they are tried. To add one, write a class and add a line here."""


def reader_of(path: Path) -> Any:
    """The class that reads a file or folder; None if there is none."""
    return next((f.load_reader() for f in FORMATS.values() if f.fits(path)), None)
