"""A convolution and a product in another precision: some machines announce instructions that end the process.

Run as a program of its own: `_torch_trial.py PRECISION`. It imports nothing of twinnet.
"""

from __future__ import annotations

import sys

__all__: list[str] = []


def _run(precision: str) -> None:
    import torch

    dtype = getattr(torch, precision)
    x = torch.zeros(1, 32, 16, 16, dtype=dtype)
    rows = torch.nn.functional.conv2d(x, torch.ones(32, 32, 3, 3, dtype=dtype)).flatten(2)
    torch.matmul(rows, torch.ones(rows.shape[-1], 64, dtype=dtype))


if __name__ == "__main__":
    _run(sys.argv[1])
