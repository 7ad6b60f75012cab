"""Synthetic inputs that resemble real ones: pictures, sound, token ids, states.

White noise hides faults that only structured data shows (borders, saturation, long correlations), so pictures have a
falling spectrum, edges and correlated colours. Everything is computed from the raw bits of PCG64 by additions and
multiplications, then rounded to a grid, so that a seed gives the same sample on every machine.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Literal

import numpy as np

from twinnet.errors import UsageError
from twinnet.inputs.layout import image_layout
from twinnet.signature import Signature, TensorSpec, dims
from twinnet.store import numpy_dtype

__all__ = ["Bounds", "kind_of", "require_shapes", "suggest_shape", "synthesise"]

Bounds = Mapping[str, tuple[int, int]]
Kind = Literal["image", "audio", "tokens", "mask", "rate", "state", "features"]

_RATES = ("sr", "sample_rate", "sampling_rate", "samplerate")
_STATES = ("state", "hidden", "cell", "cache", "past", "memory", "h0", "c0", "hx", "cx", "h", "c")
_LARGEST = 1 << 31
_LONG = 1000  # a last axis of this length on a tensor of one or two axes is taken for sound


def synthesise(
    signature: Signature, index: int = 0, *, seed: int = 0, bounds: Bounds | None = None
) -> dict[str, np.ndarray]:
    """Sample number `index`: one array for every input that is not optional.

    `bounds` gives inclusive ranges of integer inputs. Each sample of a seed is different.

    >>> spec = TensorSpec("x", "float32", (1, 3, 8, 8))
    >>> a = synthesise(Signature((spec,)))["x"]
    >>> a.shape, bool((a >= 0).all() and (a <= 1).all())
    ((1, 3, 8, 8), True)
    """
    require_shapes(signature)
    wanted = [spec for spec in signature.inputs if not spec.optional]
    return {
        spec.name: _array(spec, _Bits(seed, index, spec.name), (bounds or {}).get(spec.name))
        for spec in wanted
    }


def kind_of(spec: TensorSpec) -> Kind:
    """Guess the kind of data of an input from its name, dtype and shape.

    >>> kind_of(TensorSpec("image", "float32", (1, 3, 64, 64))), kind_of(TensorSpec("ids", "int64", (1, 12)))
    ('image', 'tokens')
    """
    words = spec.name.lower().replace(".", "_").split("_")
    shape = spec.shape or ()
    if spec.dtype == "bool" or "mask" in spec.name.lower():
        return "mask"
    if spec.name.lower() in _RATES and spec.dtype not in ("int8", "uint8"):
        return "rate"
    if image_layout(spec) is not None and spec.dtype in _PIXELS:
        return "image"
    if spec.dtype.startswith(("int", "uint")):
        return "tokens"
    if any(word.rstrip("0123456789") in _STATES or word in _STATES for word in words):
        return "state"
    return "audio" if _is_sound(shape) else "features"


def _is_sound(shape: tuple[int | str, ...]) -> bool:
    """batch x samples, batch x channels x samples, or batch x samples x 1, with many samples."""
    if len(shape) == 3 and shape[-1] == 1:
        shape = shape[:-1]
    if not 1 <= len(shape) <= 3 or any(d not in (1, 2) for d in shape[1:-1]):
        return False
    return isinstance(shape[-1], int) and shape[-1] >= _LONG


_PIXELS = ("float16", "float32", "float64", "bfloat16", "uint8")


def require_shapes(signature: Signature) -> None:
    """Raise a `UsageError` for shapes to make that are dynamic, or too large."""
    for spec in signature.inputs:
        if not spec.optional and not spec.dynamic and math.prod(map(int, spec.shape or ())) > _LARGEST:
            raise UsageError(
                f"input {spec.name} ({dims(spec.shape)}) has more than {_LARGEST} elements",
                hint="state a smaller shape with --shape, or give --inputs",
            )
        if spec.optional or not spec.dynamic:
            continue
        flag = f"--shape {spec.name}={dims(suggest_shape(spec))}"
        if spec.shape is None:
            raise UsageError(
                f"the shape of input {spec.name} is unknown",
                hint=f"state it, for example {flag} (in Python shapes={{...}}), or give inputs",
            )
        axis, dim = next((i, d) for i, d in enumerate(spec.shape) if not isinstance(d, int))
        raise UsageError(
            f"dimension {axis} ({dim}) of input {spec.name} ({dims(spec.shape)}) is dynamic and has no value",
            hint=f"state it, for example {flag} (in Python shapes={{...}}), or give inputs",
        )


def suggest_shape(spec: TensorSpec) -> tuple[int, ...]:
    """A plausible shape for a dynamic input: one sample, a usual size.

    >>> suggest_shape(TensorSpec("x", "float32", ("n", 3, "h", "w")))
    (1, 3, 640, 640)
    """
    if spec.shape is None:
        return (1, 128) if spec.dtype.startswith("int") else (1, 3, 224, 224)
    layout = image_layout(spec)
    guess: list[int] = []
    for axis, dim in enumerate(spec.shape):
        if isinstance(dim, int):
            guess.append(dim)
        elif layout is not None:
            guess.append(640 if axis in layout.plane else 3 if axis == layout.channel else 1)
        elif axis == 0 or "batch" in str(dim).lower() or kind_of(spec) == "state":
            guess.append(1)
        else:
            guess.append(16000 if len(spec.shape) == 2 and not spec.dtype.startswith("int") else 128)
    return tuple(guess)


class _Bits:
    """Numbers from the raw stream of PCG64, which numpy keeps stable (its distributions may change)."""

    def __init__(self, seed: int, index: int, name: str) -> None:
        self._source = np.random.PCG64(np.random.SeedSequence([seed, index, zlib.crc32(name.encode())]))

    def uniform(self, *shape: int) -> np.ndarray:
        """float64 in [0, 1)."""
        raw = self._source.random_raw(math.prod(shape))
        return (np.asarray(raw, np.uint64) >> np.uint64(11)).astype(np.float64).reshape(shape) * 2.0**-53

    def number(self, low: float, high: float) -> float:
        return low + (high - low) * float(self.uniform(1)[0])

    def normal(self, *shape: int) -> np.ndarray:
        """Nearly normal: twelve uniforms summed in a fixed order, which needs no library function."""
        total = self.uniform(*shape)
        for _ in range(11):
            total = total + self.uniform(*shape)
        return total - 6.0

    def integers(self, low: int, high: int, *shape: int) -> np.ndarray:
        """Integers in [low, high]."""
        span = high - low + 1
        return low + np.minimum((self.uniform(*shape) * span).astype(np.int64), span - 1)


def _array(spec: TensorSpec, bits: _Bits, bound: tuple[int, int] | None) -> np.ndarray:
    shape = tuple(int(d) for d in spec.shape or ())
    if spec.dtype == "str":
        raise UsageError(f"input {spec.name} takes text, which cannot be synthesised", hint="give --inputs")
    dtype = numpy_dtype(spec.dtype)
    if 0 in shape:
        return np.zeros(shape, dtype)
    if bound is not None:
        return bits.integers(*bound, *shape).astype(dtype)
    kind = kind_of(spec)
    if kind == "image":
        return _image(spec, shape, bits, dtype)
    if kind == "mask":
        return (bits.uniform(*shape) < 0.9).astype(dtype)
    if kind == "rate":
        return np.full(shape, 16000, dtype)
    if kind == "tokens":
        high = 255 if "byte" in spec.name.lower() and dtype != np.int8 else 15
        return bits.integers(0, high, *shape).astype(dtype)
    if kind == "audio":
        long = shape[:-1] if shape[-1] == 1 else shape
        return _grid(_sound(long, bits), 15).astype(dtype).reshape(shape)
    scale = 0.1 if kind == "state" else 1.0
    values = _grid(bits.normal(*shape) * scale, 20)
    if dtype.kind == "c":
        values = values + 1j * _grid(bits.normal(*shape) * scale, 20)
    return values.astype(dtype)


def _grid(values: np.ndarray, fraction_bits: int) -> np.ndarray:
    """Round to multiples of a power of two: the last bits of library functions differ between machines."""
    return np.rint(values * 2.0**fraction_bits) * 2.0**-fraction_bits


def _image(spec: TensorSpec, shape: tuple[int, ...], bits: _Bits, dtype: np.dtype) -> np.ndarray:
    layout = image_layout(spec)
    assert layout is not None
    height, width = (shape[axis] for axis in layout.plane)
    channels = shape[layout.channel]
    pictures = np.stack(
        [_picture(height, width, channels, bits) for _ in range(shape[0] if len(shape) == 4 else 1)]
    )
    levels = np.rint(pictures * 255)  # as a camera gives it: 8 bits
    values = levels if dtype == np.uint8 else levels / 255.0
    if layout.channel != len(shape) - 1:
        values = np.moveaxis(values, -1, 1)
    return np.ascontiguousarray(values.reshape(shape).astype(dtype))


def _picture(height: int, width: int, channels: int, bits: _Bits) -> np.ndarray:
    """Height x width x channels in [0, 1]: brightness with objects in it, and weaker colour fields."""
    light = _field(height, width, bits)
    colour = (
        np.stack([_field(height, width, bits) for _ in range(channels)], axis=-1) if channels > 1 else None
    )
    rows, columns = np.arange(height)[:, None] / max(height, 1), np.arange(width)[None, :] / max(width, 1)
    for _ in range(6):
        size, y, x = bits.number(0.05, 0.3), bits.number(0, 1), bits.number(0, 1)
        lean, tone = bits.number(-1, 1), bits.number(-1.2, 1.2)
        across, along = rows - y, columns - x + lean * (rows - y)
        inside = across * across + along * along < size * size
        if bits.number(0, 1) < 0.5:
            inside = (np.abs(across) < size) & (np.abs(along) < size)
        light = np.where(inside, 0.4 * light + tone, light)
    image = light[..., None] if colour is None else light[..., None] + 0.35 * colour
    return np.clip(0.5 + 0.22 * image, 0.0, 1.0)


def _field(height: int, width: int, bits: _Bits) -> np.ndarray:
    """Smooth noise summed over octaves, each half as strong as the next coarser: amplitude falls as 1/f."""
    total = np.zeros((height, width))
    cells, strength = 2, 1.0
    while True:
        total = total + strength * _octave(height, width, cells, bits)
        if cells >= max(height, width):
            return total
        cells, strength = cells * 2, strength * 0.5


def _octave(height: int, width: int, cells: int, bits: _Bits) -> np.ndarray:
    rows, columns = min(cells, max(height, 1)) + 1, min(cells, max(width, 1)) + 1
    knots = bits.uniform(rows + 1, columns + 1) * 4.0 - 2.0
    y, x = (
        np.arange(height) * ((rows - 1) / max(height, 1)),
        np.arange(width) * ((columns - 1) / max(width, 1)),
    )
    top, left = y.astype(np.int64), x.astype(np.int64)
    v, u = (y - top)[:, None], (x - left)[None, :]
    v, u = v * v * (3 - 2 * v), u * u * (3 - 2 * u)
    first = knots[top][:, left] * (1 - u) + knots[top][:, left + 1] * u
    second = knots[top + 1][:, left] * (1 - u) + knots[top + 1][:, left + 1] * u
    return first * (1 - v) + second * v


def _sound(shape: tuple[int, ...], bits: _Bits) -> np.ndarray:
    """Plucked notes: harmonics that decay, over a little noise."""
    length = shape[-1]
    time = np.arange(length) / 16000.0
    rows = []
    for _ in range(math.prod(shape[:-1])):
        wave = 0.005 * bits.normal(length)
        start = 0.0
        while start < time[-1] or start == 0.0:
            since = np.maximum(time - start, 0.0)
            pitch, decay, loudness = bits.number(90, 400), bits.number(3, 12), bits.number(0.1, 0.4)
            begun = time >= start
            for harmonic in range(1, 7):
                tone = np.sin(2 * math.pi * pitch * harmonic * since) * np.exp(-decay * harmonic**0.5 * since)
                wave = wave + np.where(begun, loudness / harmonic * tone, 0.0)
            start += bits.number(0.15, 0.5)
        rows.append(np.clip(wave, -1.0, 1.0))
    return np.stack(rows).reshape(shape)
