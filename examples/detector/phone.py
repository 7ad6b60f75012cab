"""Stands in for an app on a phone: runs the detector there, and dumps every layer as the phone lays it out.

python examples/detector/phone.py [FOLDER]     writes FOLDER/0000/*.npy, FOLDER/0001/*.npy (default: phone)

Like many mobile runtimes it keeps channels last (NHWC) and names files after layers. It also has a bug: one of its
activations has another slope.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from detector import build


def nhwc(tensor: Tensor) -> np.ndarray:
    return np.ascontiguousarray(tensor.detach().numpy().transpose(0, 2, 3, 1))


def dump(net: nn.Module, image: Tensor, folder: Path) -> None:
    """Run one image and write what every layer returns, and the image itself."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "image.npy", nhwc(image))
    for name, layer in net.named_modules():
        if not list(layer.children()):
            file = folder / f"{name.replace('.', '_')}.npy"
            layer.register_forward_hook(lambda _, __, out, file=file: np.save(file, nhwc(out)))
    np.save(folder / "scores.npy", nhwc(net(image)["scores"]))


def main(root: Path) -> None:
    for number, image in enumerate(torch.rand(2, 1, 3, 64, 48, generator=torch.manual_seed(0))):
        net = build()
        net.backbone[1].act.negative_slope = 0.2  # the bug: 0.1 in the network
        dump(net, image, root / f"{number:04d}")
        print(root / f"{number:04d}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "phone"))
