"""LUT networks, one small file each: `srlut`, `mulut` (and cascades), `spf`, `auto`.

Every module has `build(...)`, which returns a `twinnet.lut.LutNet`.
"""

from __future__ import annotations

from twinnet.restore.nets import auto, mulut, spf, srlut

__all__ = ["auto", "mulut", "spf", "srlut"]
