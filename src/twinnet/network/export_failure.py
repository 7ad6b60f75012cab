"""Why a module could not be exported: the submodule, the line, torch's reason in short, and what to try first."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

import torch

__all__ = ["ExportFailure", "export_failure"]

_TORCH = Path(torch.__file__).resolve().parent

_ADVICE = {
    "data-dependent": "write the branch with torch.where or torch.cond, which trace both sides",
    "item": "keep the value a tensor: .item(), int() and float() end the trace",
    "numpy": "replace the NumPy call by its torch counterpart",
    "in-place": "make the assignment functional: torch.where, torch.cat or index_put of a clone",
    "fake tensor": "register constants in __init__ (register_buffer), do not create or change them through .data",
}
"""What to try, by a word of torch's message or of the line."""


@dataclass(frozen=True)
class ExportFailure:
    """`what` is one line for a message, `hint` the smallest change to try, `log` torch's whole text."""

    what: str
    hint: str
    log: str


def export_failure(module: torch.nn.Module, error: BaseException) -> ExportFailure:
    """Find the innermost line of the user's code, and the submodule it belongs to.

    >>> class Branch(torch.nn.Module):
    ...     def forward(self, x):
    ...         raise ValueError("no")
    >>> net = torch.nn.Sequential(Branch())
    >>> try:
    ...     net(torch.ones(1))
    ... except ValueError as error:
    ...     print(export_failure(net, error).what.partition(",")[0])
    in 0 (Branch)
    """
    names = {id(child): path for path, child in module.named_modules()}
    path, kind, line, code, inside = "", type(module).__name__, "", "", False
    for frame, number in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get(next(iter(frame.f_code.co_varnames), ""))
        if id(owner) in names:
            path, kind = names[id(owner)], type(owner).__name__
            inside = True
        file = Path(frame.f_code.co_filename)
        if inside and not file.resolve().is_relative_to(_TORCH):
            line = f"{'/'.join(file.parts[-2:])}:{number}"
            code = traceback.FrameSummary(str(file), number, "").line or ""
    text = str(error).strip()
    reason = next((part.strip() for part in text.splitlines() if part.strip()), "no reason given")
    said = f"{reason} {code}".lower()
    advice = [told for word, told in _ADVICE.items() if word in said]
    where = f"in {f'{path} ({kind})' if path else kind}{f', {line}' if line else ''}{f' `{code}`' if code else ''}"
    alone = f"try {path} alone: torch.export.export(net.get_submodule({path!r}), ...)" if path else ""
    return ExportFailure(
        f"{where}: {type(error).__name__}: {reason[:200]}",
        (advice or [alone or "try torch.export.export on its submodules, one by one"])[0],
        f"{type(error).__name__}: {text}",
    )
