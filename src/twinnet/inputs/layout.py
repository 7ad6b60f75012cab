"""Axes of height, width and channels in inputs that take pictures."""

from __future__ import annotations

from dataclasses import dataclass

from twinnet.signature import TensorSpec

__all__ = ["Layout", "image_layout"]

_CHANNELS = (1, 3, 4)


@dataclass(frozen=True, slots=True)
class Layout:
    """Axes of a picture tensor: `plane` is (height, width)."""

    name: str
    plane: tuple[int, int]
    channel: int
    batch: int | None


_NCHW = Layout("NCHW", (2, 3), 1, 0)
_NHWC = Layout("NHWC", (1, 2), 3, 0)
_CHW = Layout("CHW", (1, 2), 0, None)
_HWC = Layout("HWC", (0, 1), 2, None)


def image_layout(spec: TensorSpec) -> Layout | None:
    """The layout, or None when the input cannot be a picture.

    A tensor of four axes (or three, without a batch) is a picture when one end holds 1, 3 or 4 channels.
    Where both could be, the smaller axis is taken, channels first on a tie.

    >>> image_layout(TensorSpec("x", "float32", ("n", "h", "w", 3))).name
    'NHWC'
    """
    if spec.shape is None or len(spec.shape) not in (3, 4):
        return None
    first, last = (_NCHW, _NHWC) if len(spec.shape) == 4 else (_CHW, _HWC)
    front, back = spec.shape[first.channel], spec.shape[last.channel]
    if isinstance(front, str) and isinstance(back, str):
        # All unknown: with a batch axis assume channels first, as PyTorch exporters write.
        return first if len(spec.shape) == 4 and all(isinstance(d, str) for d in spec.shape) else None
    front_fits, back_fits = front in _CHANNELS, back in _CHANNELS
    if front_fits and back_fits:
        found = last if back < front else first  # type: ignore[operator]
    else:
        found = first if front_fits else last if back_fits else None
    return None if found is None or (len(spec.shape) == 3 and not _wide(spec, found)) else found


def _wide(spec: TensorSpec, layout: Layout) -> bool:
    """Three axes are a picture only if two of them are wide: (1, steps, features) is a sequence."""
    assert spec.shape is not None
    sizes = [spec.shape[axis] for axis in layout.plane]
    return spec.shape[layout.channel] == 3 and all(isinstance(s, str) or s >= 16 for s in sizes)
