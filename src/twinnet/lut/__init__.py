"""Lookup-table networks: defined once, trained as networks, exported to tables, run by integer executors.

>>> from twinnet import lut
>>> from twinnet.restore.nets import srlut
>>> net = lut.export(srlut.build("V", scale=2, width=4))
>>> plan = lut.lower(net)
>>> plan.scale
2
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinnet.importing import names_from

if TYPE_CHECKING:
    from twinnet.lut.cells import diff
    from twinnet.lut.dfc import compress
    from twinnet.lut.exporter import export, network_hash, tabulate, units, use
    from twinnet.lut.file import save
    from twinnet.lut.grid import Grid
    from twinnet.lut.lowering import lower, raise_plan
    from twinnet.lut.model import LutModel, load
    from twinnet.lut.net import LutNet
    from twinnet.lut.onnx import to_onnx
    from twinnet.lut.plan import Plan, sites
    from twinnet.lut.query import find_sites
    from twinnet.lut.rounding import ROUNDINGS
    from twinnet.lut.unit import Unit

_HOMES = {
    "compress": "dfc", "diff": "cells", "export": "exporter", "network_hash": "exporter",
    "tabulate": "exporter",
    "units": "exporter", "use": "exporter", "save": "file", "Grid": "grid", "lower": "lowering",
    "raise_plan": "lowering",
    "LutModel": "model", "load": "model", "LutNet": "net", "to_onnx": "onnx", "Plan": "plan", "sites": "plan",
    "ROUNDINGS": "rounding", "Unit": "unit", "find_sites": "query",
}  # fmt: skip

__all__ = [
    "ROUNDINGS", "Grid", "LutModel", "LutNet", "Plan", "Unit", "compress", "diff", "export", "find_sites",
    "load", "lower", "network_hash", "raise_plan", "save", "sites", "tabulate", "to_onnx", "units", "use",
]  # fmt: skip


# Names load on first use: running tables needs no torch, and `import twinnet` stays light.
__getattr__ = names_from(__name__, _HOMES)
