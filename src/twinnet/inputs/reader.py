"""Turn the user's inputs into sources: split off names, sort files by kind, interpret Python objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.files import close_file
from twinnet.inputs.fit import as_array
from twinnet.inputs.images import ImageSource, is_image_name
from twinnet.inputs.layout import image_layout
from twinnet.inputs.sources import (
    ARRAY_SUFFIXES,
    ArraySource,
    Chain,
    FunctionSource,
    ItemSource,
    Source,
    literal,
    only_input,
    read_arrays,
    take_items,
)
from twinnet.network.shapes import unknown_input
from twinnet.pyfile import call_user, is_reference, load_attribute
from twinnet.signature import Signature, TensorSpec

__all__ = ["Reader", "python_sample"]


class Reader:
    """Turns the user's inputs into sources."""

    def __init__(
        self,
        signature: Signature,
        function: Callable[[Any], Any] | None,
        limit: int | None,
        notes: dict[str, None],
    ) -> None:
        self.signature = signature
        self.function = function
        self.limit = limit
        self.notes = notes

    def read(self, sources: Any) -> list[Source]:
        texts = _texts(sources)
        if texts is None:
            return [self._object(sources, "the given inputs")]
        named: dict[str, list[str]] = {}
        for text in texts:
            name, place = self._split(text)
            named.setdefault(name, []).append(place)
        return [self._several(name, places, set(named) - {""}) for name, places in named.items()]

    def _split(self, text: str) -> tuple[str, str]:
        """`NAME=PLACE`, unless the whole text is a file."""
        if Path(text).exists() or "=" not in text:
            return "", text
        names = sorted((s.name for s in self.signature.inputs), key=len, reverse=True)
        for name in names:
            if text.startswith(f"{name}="):
                return name, text[len(name) + 1 :]
        raise unknown_input(text.partition("=")[0], self.signature, where="--inputs")

    def _several(self, name: str, places: list[str], named: set[str]) -> Source:
        if name:
            spec = next(s for s in self.signature.inputs if s.name == name)
            scope = replace(self.signature, inputs=(spec,))
        else:
            scope = replace(
                self.signature, inputs=tuple(s for s in self.signature.inputs if s.name not in named)
            )
            if not scope.inputs:
                raise UsageError(f"{places[0]}: every input is already given by name")
        sources = [self._place(scope, place, bool(name)) for place in places]
        return sources[0] if len(sources) == 1 else Chain(sources)

    def _place(self, scope: Signature, place: str, named: bool) -> Source:
        path = Path(place)
        if path.is_dir():
            return self._folder(scope, path)
        if path.is_file():
            return self._files(scope, [path], str(path))
        if named and (value := literal(place)) is not None:
            spec = scope.inputs[0]
            dtype = (
                spec.dtype if value.dtype.kind in "iu" and spec.dtype.startswith(("int", "uint")) else None
            )
            if value.dtype.kind in "if" and "float" in spec.dtype:
                dtype = "float64" if spec.dtype == "bfloat16" else spec.dtype
            array = value.astype(dtype) if dtype else value
            shape = spec.shape or ()
            if array.ndim == 0 and shape and all(d == 1 for d in shape):
                array = array.reshape((1,) * len(shape))
            return ItemSource(f"{spec.name}={place}", [{spec.name: array}], scope, constant=True)
        if is_reference(place):
            return self._object(load_attribute(place, what="samples"), place, scope)
        raise UsageError(
            f"no such inputs: {place}",
            hint=close_file(place)
            or "give a folder of images, an image, .npy, .npz, .safetensors or file.py:samples",
        )

    def _folder(self, scope: Signature, folder: Path) -> Source:
        files = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
        images = [p for p in files if is_image_name(p)]
        arrays = [p for p in files if p.suffix.lower() in ARRAY_SUFFIXES]
        if images and arrays:
            raise UsageError(
                f"{folder} holds both images ({images[0].name}) and arrays ({arrays[0].name})",
                hint="keep them in two folders",
            )
        if not images and not arrays:
            inner = any(p.is_dir() for p in folder.iterdir())
            if not files and not inner:
                raise UsageError(f"{folder} is empty", hint="give a folder of images or arrays")
            held = "only folders" if not files else f"it holds {files[0].name}"
            raise UsageError(
                f"{folder} holds no images and no arrays ({held})",
                hint="arrays are .npy, .npz and .safetensors",
            )
        return self._files(scope, images or arrays, str(folder))

    def _files(self, scope: Signature, paths: list[Path], label: str) -> Source:
        """Files of one kind: pictures together, arrays one after the other."""
        if (
            self.limit is not None
            and len(paths) > self.limit
            and paths[0].suffix.lower() not in ARRAY_SUFFIXES
        ):
            paths = paths[: self.limit * self._batch(scope)]
        arrays = paths[0].suffix.lower() in ARRAY_SUFFIXES
        if not arrays and paths[0].suffix == ".py":
            raise UsageError(
                f"{paths[0]} is Python code: name the function that gives samples", hint=f"{paths[0]}:NAME"
            )
        if self.function is not None:
            items = [(str(p), _opener(p, arrays)) for p in paths]
            return FunctionSource(label, self.function, items, scope)
        if not arrays:
            return ImageSource(paths, _image_input(scope, label), label)
        sources: list[Source] = [ArraySource(str(p), _named(scope, read_arrays(p), p), scope) for p in paths]
        return sources[0] if len(sources) == 1 else Chain(sources, label)

    @staticmethod
    def _batch(scope: Signature) -> int:
        shape = scope.inputs[0].shape if scope.inputs else None
        return shape[0] if shape and len(shape) == 4 and isinstance(shape[0], int) else 1

    def _object(self, value: Any, label: str, scope: Signature | None = None) -> Source:
        scope = scope or self.signature
        if callable(value) and not hasattr(value, "__len__") and not hasattr(value, "shape"):
            value = call_user(value, what="samples", name=label.rpartition(":")[2])
        if (
            isinstance(value, (Mapping, tuple))
            or hasattr(value, "shape")
            or isinstance(value, (int, float, bool))
        ):
            items: Sequence[Any] = [value]
        elif _is_numbers(value):
            items = [value]
        else:
            items, note = take_items(value, self.limit, label)
            if note:
                self.notes[note] = None
        if not items:
            raise UsageError(f"{label} gave no samples")
        if self.function is not None:
            return FunctionSource(
                label, self.function, [(f"{label}[{i}]", lambda x=x: x) for i, x in enumerate(items)], scope
            )
        if len(items) == 1 and hasattr(items[0], "shape"):
            array = as_array(items[0], label)
            return ArraySource(label, {only_input(scope, label).name: array}, scope)
        return ItemSource(label, items, scope)


def python_sample(sources: Any) -> Any:
    """The first sample of inputs that came as Python objects; None for files, generators and no inputs.

    It gives a module the structure of its inputs: `network.with_example(python_sample(inputs))`.

    >>> python_sample([{"x": 1}, {"x": 2}]), python_sample("photos/")
    ({'x': 1}, None)
    """
    if _texts(sources) is not None or _is_numbers(sources):
        return None
    if isinstance(sources, list):
        return sources[0]
    return sources if isinstance(sources, (Mapping, tuple)) or hasattr(sources, "shape") else None


def _texts(sources: Any) -> list[str] | None:
    """The sources as strings, or None when a Python object was given."""
    if sources is None:
        return []
    if isinstance(sources, (str, Path)):
        return [str(sources)]
    if isinstance(sources, (list, tuple)) and all(isinstance(s, (str, Path)) for s in sources):
        return [str(s) for s in sources]
    return None


def _is_numbers(value: Any) -> bool:
    """Whether a list, nested or not, is an array of numbers rather than a list of samples."""
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, (int, float, bool))


def _opener(path: Path, arrays: bool) -> Callable[[], Any]:
    """A function that returns the argument of the preprocessing function: array, dict of arrays, or image path."""

    def opened() -> Any:
        if not arrays:
            return path
        held = read_arrays(path)
        return held.get("", held)

    return opened


def _named(scope: Signature, arrays: Mapping[str, np.ndarray], path: Path) -> dict[str, np.ndarray]:
    """Arrays of a file by input name; one array goes to the only input, `arr_0, arr_1` by position."""
    if not arrays:
        raise UsageError(f"{path} holds no arrays")
    names = [spec.name for spec in scope.inputs]
    if len(arrays) == 1 and not set(arrays) <= set(names):
        key, array = next(iter(arrays.items()))
        if key and sum(not spec.optional for spec in scope.inputs) > 1:
            raise unknown_input(key, scope, where=str(path))
        return {only_input(scope, str(path)).name: array}
    if all(key == f"arr_{i}" for i, key in enumerate(arrays)) and len(arrays) <= len(names):
        return dict(zip(names, arrays.values()))
    return dict(arrays)


def _image_input(scope: Signature, label: str) -> TensorSpec:
    """The input that pictures go to: the only one, or the only one that can hold a picture."""
    pictures = [spec for spec in scope.required if image_layout(spec) is not None]
    return pictures[0] if len(pictures) == 1 else only_input(scope, label)
