"""What layers are called where two networks are compared."""

from __future__ import annotations

from twinnet.layers.graph import Layer

__all__ = ["op_of", "place_of"]


def place_of(layer: Layer) -> str:
    """The place of a layer: its module, else its node."""
    return layer.module or layer.node or layer.outputs[0]


def op_of(layer: Layer) -> str:
    """The kind of a layer, in one word."""
    return layer.kind if layer.kind != "opaque" else layer.op or layer.kind
