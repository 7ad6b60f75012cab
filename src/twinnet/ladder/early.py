"""A module cut short: it returns what one of its submodules returns, and computes nothing after that."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch

from twinnet.errors import EngineError
from twinnet.torch_versions import module_stack_kept

__all__ = ["cut_short"]


class _Left(BaseException):
    """Raised where the cut is; not an Exception, which the module's own code may catch."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


def cut_short(module: torch.nn.Module, path: str, call: int = 0) -> torch.nn.Module:
    """A module that runs until the submodule `path` returns from its call number `call`, and returns the same.

    It shares weights and submodules with `module`, keeps their names, and can be exported, whatever comes after the
    cut.

    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    >>> cut_short(net, "1")(torch.ones(1, 4)).shape
    torch.Size([1, 3])
    """
    kind = type(module)
    made = copy.copy(module)
    # Libraries that wrap modules put a function into the object, in front of the one of its class.
    wrapped: Callable[..., Any] | None = made.__dict__.pop("forward", None)

    @functools.wraps(kind.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen = 0

        def leave(part: Any, given: Any, result: Any) -> None:
            nonlocal seen
            if seen == call:
                raise _Left(result)
            seen += 1

        hook = self.get_submodule(path).register_forward_hook(leave)
        try:
            with module_stack_kept():
                wrapped(*args, **kwargs) if wrapped is not None else kind.forward(self, *args, **kwargs)
        except _Left as left:
            return left.result
        finally:
            hook.remove()
        raise EngineError(f"the network does not call {path} {call + 1} times", stage="cut")

    made.__class__ = type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
    return made
