"""Sites: the places of a graph where a tensor can be observed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Role", "Site", "short_name"]

Role = Literal["input", "inner", "output"]


@dataclass(frozen=True, slots=True)
class Site:
    """One place where a tensor can be observed, under the names of its graph.

    `tensor` is unique within a session. `module`, `call` and `index` (module path, which call of it, which output)
    give its place in the user's code, `source` the line that made it.

    >>> Site("silu_1", node="silu_1", op="silu", module="features.4.act", source="model.py:71").label
    'features.4.act silu'
    """

    tensor: str
    node: str = ""
    op: str = ""
    module: str = ""
    call: int = 0
    index: int = 0
    source: str = ""
    role: Role = "inner"
    shape: tuple[int | str, ...] | None = field(default=None, compare=False)
    dtype: str = field(default="", compare=False)
    output: str = field(default="", compare=False)
    """What the user calls it, if it is an output: a key of the module's dict, an output of the file."""

    @property
    def own_name(self) -> str:
        """The user's name of an output, else the tensor's."""
        return self.output or self.tensor

    @property
    def label(self) -> str:
        """The name shown to users: module path (or tensor name) and operator."""
        place = self.module or short_name(self.tensor)
        return f"{place} {self.op}".strip()


def short_name(tensor: str) -> str:
    """The name of a tensor without most of the names that a converter joins by `;` for the operators it fused.

    The first is the operator that made the value; the last is kept, too, because it ends in what tells tensors apart.

    >>> short_name("net/relu/Relu;net/bn/FusedBatchNorm;net/conv/BiasAdd;net/conv/Conv2D1")
    'net/relu/Relu;...;net/conv/Conv2D1'
    >>> short_name("net/pad;net/pad1"), short_name("net/relu;net/conv"), short_name("x")
    ('net/pad1', 'net/relu;net/conv', 'x')
    """
    parts = list(dict.fromkeys(part for part in tensor.split(";") if part))
    if len(parts) < 2:
        return parts[0] if parts else tensor
    first, *between, last = parts
    if not between:
        return last if last.rstrip("0123456789") == first else f"{first};{last}"
    return f"{first};...;{last}"
