"""The one list of causes: `Cause.kind` is always a key of `KINDS`."""

from __future__ import annotations

__all__ = ["KINDS"]

KINDS: dict[str, str] = {
    "padding": "other pads, split of pads, pad mode or pad value",
    "stride": "other strides, dilations or groups of a convolution or a window",
    "layout": "axes permuted, transposed, flipped or laid out in another order",
    "channel order": "the same channels in another order",
    "operand order": "operands swapped",
    "operator": "another operator, or one left out or added",
    "constant": "another constant, bound or exponent",
    "activation": "an activation left out, added, of another kind, approximation or bound",
    "scale": "a factor on the whole tensor, on some channels or on one",
    "bias": "an offset on the whole tensor, on some channels or on one",
    "eps": "another epsilon in a normalisation",
    "statistics": "other folded statistics in a normalisation",
    "normalisation": "a normalisation of another kind, axis or grouping",
    "precision": "computed or stored in a narrower float format",
    "quantisation": "other scale, zero point, range or rounding of quantised values",
    "weights": "other weights: transposed, flipped, one of them, another layer's, or another checkpoint",
    "pooling": "another kind, window or counting of a pooling",
    "resize": "another mode, coordinate rule or rounding of a resize",
    "axis": "another axis of a reduction, softmax, concatenation or selection",
    "rounding": "another rounding to whole numbers",
    "index": "other positions read: shifted, clamped or in another order",
    "recurrent": "other gate order, direction or variant of a recurrent layer",
    "attention": "other scale or mask of an attention",
    "nan": "NaN or infinity handled differently",
    "preprocessing": "the input itself prepared differently",
    "table": "another lookup: bin, node value, rotation, interpolation or entry",
    "nondeterminism": "the twin does not repeat itself",
}
"""Every kind of cause and its meaning. A finding without a cause is of unknown cause; its reason holds
the evidence.
"""
