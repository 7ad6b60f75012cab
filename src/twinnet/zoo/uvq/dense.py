"""Write grouped convolutions as dense ones, for runtimes that have no others."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import nn

__all__ = ["depthwise_to_dense"]

N = TypeVar("N", bound=nn.Module)


def depthwise_to_dense(net: N) -> N:
    """A copy of the network in which no convolution is grouped. It computes the same: the new weights are zeros.

    The kernel of each group becomes one block on the diagonal of a dense kernel.

    >>> import torch
    >>> conv = nn.Conv2d(4, 4, 3, groups=4)
    >>> dense = depthwise_to_dense(conv)
    >>> x = torch.ones(1, 4, 5, 5)
    >>> dense.groups, tuple(dense.weight.shape), bool(torch.allclose(conv(x), dense(x)))
    (1, (4, 4, 3, 3), True)
    """
    made = copy.deepcopy(net)
    for module in made.modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) and module.groups > 1:
            _make_dense(module)
    return made


def _make_dense(conv: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> None:
    narrow = conv.weight.detach()
    outputs, inputs = conv.out_channels // conv.groups, conv.in_channels // conv.groups
    wide = narrow.new_zeros(conv.out_channels, conv.in_channels, *narrow.shape[2:])
    for group in range(conv.groups):
        rows = slice(group * outputs, (group + 1) * outputs)
        wide[rows, group * inputs : (group + 1) * inputs] = narrow[rows]
    conv.weight = nn.Parameter(wide, requires_grad=conv.weight.requires_grad)
    conv.groups = 1
