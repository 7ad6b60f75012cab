"""Sources of samples: how many there are, the n-th, and its name in errors."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from twinnet.errors import UsageError, foreign_as
from twinnet.files import parse_json
from twinnet.inputs.fit import as_array
from twinnet.pyfile import call_user
from twinnet.signature import Signature, TensorSpec, dims
from twinnet.store import read_npz

__all__ = [
    "ARRAY_SUFFIXES",
    "ArraySource",
    "Chain",
    "FunctionSource",
    "ItemSource",
    "Source",
    "describe_shapes",
    "literal",
    "name_values",
    "only_input",
    "read_arrays",
    "take_items",
]

ARRAY_SUFFIXES = (".npy", ".npz", ".safetensors")
MANY = 100
"""Samples to take from a generator by default."""


class Source(Protocol):
    """Samples of some or all inputs; `get` gives arrays by input name, not yet checked."""

    label: str
    constant: bool

    def __len__(self) -> int: ...

    def where(self, index: int) -> str: ...

    def get(self, index: int) -> dict[str, Any]: ...


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npy (under the name ""), .npz or .safetensors file; nothing in it is unpickled."""
    from safetensors import safe_open

    def refused(error: BaseException) -> UsageError:
        text = str(error)
        if isinstance(error, FileNotFoundError):
            return UsageError(f"no such file: {path}")
        if "pickle" in text.lower() or "Python objects" in text:
            return UsageError(
                f"{path} holds Python objects; only arrays of numbers are read", hint="save plain arrays"
            )
        return UsageError(f"{path} cannot be read as {path.suffix} data: {text or type(error).__name__}")

    # These libraries raise almost anything for a damaged file.
    with foreign_as(refused):
        if path.suffix == ".npy":
            return {"": np.load(path, mmap_mode="r", allow_pickle=False)}
        if path.suffix == ".npz":
            return read_npz(path)
        with safe_open(path, framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict


@dataclass
class ArraySource:
    """Arrays that hold one sample, or several along their first axis."""

    label: str
    arrays: Mapping[str, np.ndarray]
    signature: Signature
    constant = False

    def __post_init__(self) -> None:
        specs = {spec.name: spec for spec in self.signature.inputs}
        self._parts = {n: _parts(specs[n], a.shape) if n in specs else None for n, a in self.arrays.items()}
        counts = {n: p[0] for n, p in self._parts.items() if p is not None}
        if 0 in counts.values():
            raise UsageError(f"{self.label} holds no samples (an axis of length 0)")
        if len(set(counts.values())) > 1:
            given = ", ".join(f"{n}: {c}" for n, c in counts.items())
            raise UsageError(f"{self.label} holds different numbers of samples per input ({given})")
        self._count = next(iter(counts.values()), 1)

    def __len__(self) -> int:
        return self._count

    def where(self, index: int) -> str:
        return self.label if self._count == 1 else f"{self.label}[{index}]"

    def get(self, index: int) -> dict[str, Any]:
        sample: dict[str, Any] = {}
        for name, array in self.arrays.items():
            parts = self._parts[name]
            if parts is None:
                sample[name] = array
            elif parts[1] == 0:
                sample[name] = array[index]
            else:
                sample[name] = array[index * parts[1] : (index + 1) * parts[1]]
        return sample


def _parts(spec: TensorSpec, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """(samples, length of the first axis in each; 0 when it is to be dropped), or None for one sample."""
    if spec.shape is None or _agrees(spec.shape, shape):
        return None
    if len(shape) == len(spec.shape) + 1 and _agrees(spec.shape, shape[1:]):
        return shape[0], 0
    if len(shape) == len(spec.shape) and shape and _agrees(spec.shape[1:], shape[1:]):
        batch = spec.shape[0]
        if isinstance(batch, int) and batch > 0 and shape[0] % batch == 0:
            return shape[0] // batch, batch
    return None


def _agrees(wanted: Sequence[int | str], shape: Sequence[int]) -> bool:
    return len(wanted) == len(shape) and all(isinstance(w, str) or w == s for w, s in zip(wanted, shape))


@dataclass
class ItemSource:
    """A list of samples from Python, each a dict, a tuple or an array."""

    label: str
    items: Sequence[Any]
    signature: Signature
    constant: bool = False

    def __len__(self) -> int:
        return len(self.items)

    def where(self, index: int) -> str:
        return f"{self.label}[{index}]" if len(self.items) > 1 else self.label

    def get(self, index: int) -> dict[str, Any]:
        return name_values(self.signature, self.items[index], self.where(index))


@dataclass
class FunctionSource:
    """Items that the user's `--preprocess` function turns into samples."""

    label: str
    function: Callable[[Any], Any]
    items: Sequence[tuple[str, Callable[[], Any]]]
    signature: Signature
    constant = False

    def __len__(self) -> int:
        return len(self.items)

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def where(self, index: int) -> str:
        return f"{self.items[index][0]} after {self.name}"

    def get(self, index: int) -> dict[str, Any]:
        result = call_user(self.function, self.items[index][1](), what="preprocessing function")
        if result is None:
            raise UsageError(f"{self.where(index)}: the function returned nothing")
        return name_values(self.signature, result, self.where(index))


class Chain:
    """Several sources of the same inputs, one after the other."""

    constant = False

    def __init__(self, sources: Sequence[Source], label: str = "") -> None:
        self.sources = sources
        self.label = label or ", ".join(s.label for s in sources[:3]) + (", ..." if len(sources) > 3 else "")
        self._index = [(source, i) for source in sources for i in range(len(source))]

    def __len__(self) -> int:
        return len(self._index)

    def where(self, index: int) -> str:
        source, i = self._index[index]
        return source.where(i)

    def get(self, index: int) -> dict[str, Any]:
        source, i = self._index[index]
        return source.get(i)


def name_values(signature: Signature, item: Any, where: str) -> dict[str, Any]:
    """Turn one sample of any form into arrays by input name.

    A dict goes by name (nested ones joined by dots), a tuple by position, `(args, kwargs)` as in a call, anything else
    is the only input.

    >>> name_values(Signature((TensorSpec("a.h"), TensorSpec("b"))), ({"h": 1}, 2), "sample")
    {'a.h': 1, 'b': 2}
    """
    if isinstance(item, Mapping):
        return dict(_flatten(item, "", signature))
    if isinstance(item, tuple):
        tops = list(dict.fromkeys(_top(spec.name) for spec in signature.inputs))
        if len(item) == 2 and isinstance(item[0], tuple | list) and isinstance(item[1], Mapping):
            args, named = item
            if len(args) + len(named) == len(tops) and set(named) <= set(tops):
                return dict(_flatten({**dict(zip(tops, args)), **named}, "", signature))
        if len(item) == 1 and len(tops) != 1:
            item = item[0]
        else:
            if len(item) > len(tops):
                raise UsageError(f"{where}: {len(item)} values for {len(tops)} inputs ({', '.join(tops)})")
            return dict(_flatten(dict(zip(tops, item)), "", signature))
    return {only_input(signature, where).name: item}


def only_input(signature: Signature, where: str) -> TensorSpec:
    """The input that an unnamed value belongs to."""
    needed = signature.required
    if len(needed) != 1:
        names = [spec.name for spec in needed]
        raise UsageError(
            f"{where}: one array for {len(names)} inputs ({', '.join(names)})",
            hint=f"give them by name: --inputs {names[0] if names else 'x'}=FILE for each, or one .npz",
        )
    return needed[0]


def _top(name: str) -> str:
    return name.partition(".")[0]


def _flatten(value: Any, path: str, signature: Signature) -> Iterator[tuple[str, Any]]:
    names = {spec.name for spec in signature.inputs}
    if path in names:
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flatten(inner, f"{path}.{key}" if path else str(key), signature)
    elif isinstance(value, (tuple, list)) and any(name.startswith(f"{path}.") for name in names):
        for i, inner in enumerate(value):
            yield from _flatten(inner, f"{path}.{i}", signature)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _flatten(getattr(value, field.name), f"{path}.{field.name}", signature)
    elif value is not None:
        yield path, value


def take_items(value: Any, limit: int | None, label: str) -> tuple[Sequence[Any], str]:
    """The samples of an iterable, at most `limit`, and a note when it was cut off."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value, ""
    if hasattr(value, "__len__") and hasattr(value, "__getitem__") and not hasattr(value, "shape"):
        return [value[i] for i in range(min(len(value), limit or MANY))], ""
    iterator = call_user(iter, value, what="samples", name=label) if isinstance(value, Iterable) else None
    if iterator is None:
        raise UsageError(
            f"{label} gave {type(value).__name__}, not samples", hint="yield dicts, tuples or arrays"
        )
    wanted = limit if limit is not None else MANY
    items = call_user(lambda: list(itertools.islice(iterator, wanted + 1)), what="samples", name=label)
    cut = len(items) > wanted and limit is None
    return items[
        :wanted
    ], f"{label}: the first {MANY} samples were taken; --samples takes more" if cut else ""


def literal(text: str) -> np.ndarray | None:
    """A number or a JSON list written in place of a file: `sr=16000`."""
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return as_array(value, text) if isinstance(value, (bool, int, float, list)) else None


def describe_shapes(sample: Mapping[str, np.ndarray]) -> str:
    """`x 1x3x8x8, h 2x1x4`; the name is left out for a single input.

    >>> describe_shapes({"x": np.zeros((1, 3))})
    '1x3'
    """
    if len(sample) == 1:
        return dims(next(iter(sample.values())).shape)
    return ", ".join(f"{name} {dims(array.shape)}" for name, array in sample.items())
