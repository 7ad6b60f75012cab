"""Export the detector to ONNX, with a weight of its score head changed, as by a bad bit or a wrong checkpoint.

python examples/detector/export.py [FILE]      (default: detector.onnx)
"""

import logging
import sys

import torch

from detector import build


def main(file: str) -> None:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    net = build()
    with torch.no_grad():
        net.scores.weight[2] *= 1.5
    image = torch.zeros(1, 3, 64, 48)
    torch.onnx.export(
        net, (image,), file, input_names=["image"], output_names=["boxes", "scores"],
        dynamo=True, external_data=False, verbose=False,
    )  # fmt: skip
    print(file)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "detector.onnx")
