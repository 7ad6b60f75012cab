"""Where sums are rounded: the three semantics that exist for this family of networks, by name.

A  "network"   every lookup is rounded to an integer, the integers are added: how networks are trained.
B  "finetune"  the running sum is rounded after every lookup: how tables are usually fine-tuned.
C  "deploy"    nothing is rounded before the requantisation; the sum is exact: what is published and deployed.

They agree on most pixels and differ by one on some, so a comparison must know which one it looks at.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from twinnet.errors import UsageError
from twinnet.lut.plan import Requant

__all__ = ["ROUNDINGS", "Rounding", "requantise", "rounding", "ste_round"]

Rounding = Literal["A", "B", "C"]

ROUNDINGS: dict[Rounding, str] = {"A": "network", "B": "finetune", "C": "deploy"}


def rounding(name: str) -> Rounding:
    """The letter of a semantics given by letter or by name.

    >>> rounding("deploy"), rounding("b")
    ('C', 'B')
    """
    for letter, word in ROUNDINGS.items():
        if name.upper() == letter or name.lower() == word:
            return letter
    raise UsageError(f"no rounding semantics {name!r}", hint="use A (network), B (finetune) or C (deploy)")


def ste_round(x: Tensor) -> Tensor:
    """Round half to even; the gradient passes straight through.

    >>> x = torch.tensor([0.5, 1.5, 2.4], requires_grad=True)
    >>> ste_round(x).sum().backward(); x.grad.tolist()
    [1.0, 1.0, 1.0]
    >>> ste_round(x).tolist()
    [0.0, 2.0, 2.0]
    """
    return x + (torch.round(x) - x).detach()


def requantise(x: Tensor, requant: Requant, *, clip: bool = True, round_: bool = True) -> Tensor:
    """The steps of a requantisation on pixel units, differentiable; clips and rounding can be left out."""
    for step in requant.steps:
        match step:
            case ("div", c):
                x = x / c
            case ("mul", c):
                x = x * c
            case ("add", c):
                x = x + c
            case ("clip", lo, hi):
                x = x.clamp(lo, hi) if clip else x
            case ("round",):
                x = ste_round(x) if round_ else x
            case _:
                raise UsageError(f"requantisation {requant.name!r}: unknown step {step!r}")
    return x
