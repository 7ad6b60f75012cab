"""Export the network of model.py to ONNX twice: as it is, and with one convolution padded wrongly.

python examples/faulty.py [FOLDER]      writes model.onnx and faulty.onnx
"""

import logging
import sys
from pathlib import Path

import onnx
import torch

from model import build


def export(folder: Path) -> tuple[Path, Path]:
    """Both files: the good one and the faulty one."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    network, example = build()
    good, bad = folder / "model.onnx", folder / "faulty.onnx"
    torch.onnx.export(network, (example,), good, dynamo=True, external_data=False, verbose=False)
    model = onnx.load(good)
    convolution = [node for node in model.graph.node if node.op_type == "Conv"][1]
    pads = next(attribute for attribute in convolution.attribute if attribute.name == "pads")
    pads.ints[:] = [0, 0, 2, 2]  # the network pads 1 on each side
    onnx.save(model, bad)
    return good, bad


if __name__ == "__main__":
    for path in export(Path(sys.argv[1] if len(sys.argv) > 1 else ".")):
        print(path)
