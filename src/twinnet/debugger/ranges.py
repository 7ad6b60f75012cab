"""Parse and format index ranges."""

from __future__ import annotations

from typing import Any

from twinnet.errors import UsageError

__all__ = ["Index", "read_ranges", "spell"]

Index = tuple[Any, ...]


def read_ranges(where: tuple[Any, ...], shape: tuple[int, ...]) -> Index:
    """Parse text, numbers, slices and tuples into one index or slice per axis; missing axes are whole.

    >>> read_ranges(("0, :, 10:20",), (1, 3, 40, 50))
    (0, slice(None, None, None), slice(10, 20, None), slice(None, None, None))
    >>> read_ranges((0, slice(2, 4)), (5, 6))
    (0, slice(2, 4, None))
    """
    parts: list[Any] = []
    for item in where:
        if isinstance(item, str):
            parts += [_part(text) for text in item.strip("[] ").split(",") if text.strip()]
        elif isinstance(item, tuple | list):
            parts += list(read_ranges(tuple(item), (1 << 62,) * 32)[: len(item)])
        elif item is Ellipsis or isinstance(item, int | slice):
            parts.append(item)
        else:
            raise UsageError(f"{item!r} is not an index range", hint='for example "0, :, 10:20, 5:15"')
    if parts.count(Ellipsis) > 1:
        raise UsageError("more than one ... in an index range")
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
    if len(parts) > len(shape):
        raise UsageError(f"{len(parts)} ranges for a tensor of {len(shape)} axes {list(shape)}")
    for axis, part in enumerate(parts):
        if isinstance(part, int) and not -shape[axis] <= part < shape[axis]:
            raise UsageError(f"index {part} is out of range for axis {axis} of size {shape[axis]}")
    return (*parts, *[slice(None)] * (len(shape) - len(parts)))


def _part(text: str) -> Any:
    text = text.strip()
    if text == "...":
        return Ellipsis
    try:
        if ":" not in text:
            return int(text)
        return slice(*(int(p) if p.strip() else None for p in text.split(":")))
    except (ValueError, TypeError):
        raise UsageError(
            f"{text!r} is not an index range", hint='an axis is 3, 10:20, : or ..., as in "0, :, 10:20"'
        ) from None


def spell(index: Index) -> str:
    """Format an index.

    >>> spell((0, slice(None), slice(0, 8)))
    '[0, :, :8]'
    """

    def one(part: Any) -> str:
        if not isinstance(part, slice):
            return str(part)
        start = "" if part.start in (None, 0) else str(part.start)
        stop = "" if part.stop is None else str(part.stop)
        return f"{start}:{stop}" + ("" if part.step in (None, 1) else f":{part.step}")

    return f"[{', '.join(map(one, index))}]"
