"""A fault to find: an exported file in which one convolution pads on the wrong sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["plant_padding_fault"]


def plant_padding_fault(network: Any, sample: Any, path: Path) -> str:
    """Export `network` to `path` with one depthwise convolution padded (0, 2) instead of (1, 1); returns its module.

    That is what a converter does that takes TensorFlow's SAME for symmetric padding: shapes agree, and on most of the
    picture the values nearly do.
    """
    import onnx

    from twinnet.job import Job
    from twinnet.onnx.export import onnx_artefact

    artefact = onnx_artefact(network, None, Job(sample))
    model = onnx.ModelProto()
    model.CopyFrom(artefact.model)
    for node in model.graph.node:
        attributes = {a.name: a for a in node.attribute}
        pads = attributes.get("pads")
        group = attributes.get("group")
        origin = artefact.origin.get(node.output[0])
        wanted = origin is not None and origin.module.startswith("blocks.4.depthwise")
        if node.op_type == "Conv" and wanted and pads is not None and group is not None and group.i > 1:
            del pads.ints[:]
            pads.ints.extend([0, 0, 2, 2])
            path.parent.mkdir(parents=True, exist_ok=True)
            onnx.save(model, str(path))
            return "blocks.4.depthwise"
    raise AssertionError("the demo network has no such convolution")
