"""What a reader is to the fuzzer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Reader", "small_net", "text"]


@dataclass(frozen=True)
class Reader:
    """A way into twinnet: how to make good files in a folder, and how to read one damaged file there."""

    make: Callable[[Path], Any]
    read: Callable[[Path], Any]
    files: str
    """Which files of the folder get damaged (a glob)."""


def text(name: str, content: str) -> Callable[[Path], Any]:
    """Makes one file of a given text."""
    return lambda folder: (folder / name).write_text(content)


def small_net() -> Any:
    """A network and an input for it."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)
    )
    return net.eval(), torch.rand(1, 3, 4, 4)
