"""All known engines: those of twinnet, those of plugins, and those registered in this process.

Everything else about an engine is declared by its class (`twinnet.engines.base.Engine`), imported on first use.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from twinnet.errors import TwinnetError, UsageError
from twinnet.plugins import plugins

if TYPE_CHECKING:
    from twinnet.engines.base import Engine, Standalone

__all__ = [
    "BUILT_IN",
    "all_engines",
    "engine_for_file",
    "engine_for_format",
    "engine_names",
    "find_engine",
    "has_engine",
    "known_engine",
    "origin_of",
    "register",
    "standalone_of",
]

BUILT_IN: dict[str, str] = {
    "torch": "twinnet.engines.torch:TorchEngine",
    "onnxruntime": "twinnet.engines.onnxruntime:OnnxRuntimeEngine",
    "openvino": "twinnet.engines.openvino:OpenVinoEngine",
    "onnx-reference": "twinnet.engines.onnx_reference:OnnxReferenceEngine",
    "iree": "twinnet.engines.iree:IreeEngine",
    "litert": "twinnet.engines.litert:LiteRtEngine",
    "executorch": "twinnet.engines.executorch:ExecuTorchEngine",
    "lut": "twinnet.tables.engine:LutEngine",
    "lut-native": "twinnet.tables.engine:LutNativeEngine",
    "command": "twinnet.engines.command:CommandEngine",
    "callable": "twinnet.engines.callable:CallableEngine",
    "recording": "twinnet.engines.recording:RecordingEngine",
}
"""twinnet's own engines, "module:class" by name. Where several fit, the first is used."""

_REGISTERED: dict[str, type[Engine]] = {}
_NAME = re.compile(r"[\w-]+")


def register(engine: type[Engine]) -> type[Engine]:
    """Register an engine under its name in this process. Packages declare an entry point instead."""
    if engine.name in BUILT_IN:
        raise UsageError(f"twinnet already has an engine {engine.name!r}", hint="choose another name")
    _REGISTERED[engine.name] = engine
    return engine


def has_engine(name: str) -> bool:
    """Whether there is an engine of that name; none is imported.

    >>> has_engine("onnxruntime"), has_engine("net.onnx")
    (True, False)
    """
    if name in BUILT_IN or name in _REGISTERED:
        return True
    return _NAME.fullmatch(name) is not None and name in plugins("engine", BUILT_IN)


def engine_names() -> tuple[str, ...]:
    """All names: twinnet's own engines first."""
    return tuple(dict.fromkeys((*BUILT_IN, *_REGISTERED, *plugins("engine", BUILT_IN))))


def find_engine(name: str) -> Engine:
    """The engine of that name.

    >>> find_engine("onnxruntime").extra
    'onnx'
    """
    return _class_of(name)()


def known_engine(name: str) -> type[Engine] | None:
    """The class of an engine; None if it is not installed, as for results from another machine."""
    try:
        return _class_of(name)
    except TwinnetError:
        return None


def all_engines() -> Iterator[type[Engine]]:
    """The classes of all engines that can be imported."""
    return (found for name in engine_names() if (found := known_engine(name)) is not None)


def origin_of(name: str) -> str:
    """Where an engine comes from: "twinnet", or a package with its version.

    >>> origin_of("torch")
    'twinnet'
    """
    if name in BUILT_IN:
        return "twinnet"
    if name in _REGISTERED:
        return _REGISTERED[name].__module__
    return plugins("engine", BUILT_IN)[name].origin


def standalone_of(name: str) -> Standalone | None:
    """How a part of a network runs alone under the engine of that name; None if it cannot.

    >>> standalone_of("onnxruntime").packages, standalone_of("callable")
    (('onnxruntime',), None)
    """
    found = known_engine(name)
    return None if found is None else found().standalone()


def engine_for_file(path: str) -> str | None:
    """The engine for a bare file name: the first that claims its suffix. `file.py:function` counts as `.py`.

    >>> engine_for_file("nets/net.onnx"), engine_for_file("twin.py:run"), engine_for_file("weights.bin")
    ('onnxruntime', 'callable', None)
    """
    found = re.search(r"(\.\w+)(?::[^/\\]*)?$", path)
    suffix = found[1].lower() if found else ""
    return next((engine.name for engine in all_engines() if suffix in engine.suffixes), None)


def engine_for_format(form: str) -> type[Engine]:
    """The engine that runs networks of a format (`Network.format`) unless another is named.

    >>> engine_for_format("ONNX").name, engine_for_format("exported program").name
    ('onnxruntime', 'torch')
    """
    claimed = (engine for engine in all_engines() if form in engine.formats)
    return next(claimed, None) or _class_of(next(iter(BUILT_IN)))


def _class_of(name: str) -> type[Engine]:
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return getattr(import_module(module), attribute)
    if not has_engine(name):
        close = difflib.get_close_matches(name, engine_names(), n=2)
        hint = f"did you mean {' or '.join(close)}?" if close else f"engines: {', '.join(engine_names())}"
        raise UsageError(f"there is no engine {name!r}", hint=hint)
    return _plugin_class(name)


@cache
def _plugin_class(name: str) -> type[Engine]:
    from twinnet.engines.base import Engine

    plugin = plugins("engine", BUILT_IN)[name]
    found = plugin.load()
    if not isinstance(found, type) or not issubclass(found, Engine):
        raise plugin.broken("is not a subclass of twinnet.engines.base.Engine")
    if missing := sorted(found.__abstractmethods__):
        raise plugin.broken(f"lacks {', '.join(missing)}")
    if getattr(found, "name", None) != name:
        raise plugin.broken(f"calls itself {getattr(found, 'name', None)!r}: the two names must be equal")
    return found
