"""`where`: the source lines of a site."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from twinnet.debugger.answer import Answer
from twinnet.debugger.commands.registry import command
from twinnet.debugger.stopped import Stopped
from twinnet.network import ModuleNetwork
from twinnet.report.source import excerpt_at
from twinnet.site import Site

if TYPE_CHECKING:
    import torch

__all__ = ["where"]


@command()
def where(stopped: Stopped, site: str, around: int = 3) -> Answer:
    """Where a site is: module, operator, the twin's node, and source lines."""
    row = stopped.row(site)
    ours, theirs = row.site, row.twin_site
    lines = [f"network  {_words(ours)}", f"twin     {_words(theirs)}"]
    excerpt = excerpt_at(ours.source, around) if ours.source else None
    module = _module(stopped, ours.module)
    if excerpt is not None:
        lines.append(f"\n{excerpt.file}:{excerpt.line}")
        lines += [f"{'->' if n == excerpt.line else '  '} {n:>5}  {text}" for n, text in excerpt.lines]
    elif module is not None:
        lines += ["", *_forward(module)]
    lines += [] if stopped.meaning is None else stopped.meaning.place(stopped, row)
    data = {
        "site": ours.tensor,
        "module": ours.module,
        "op": ours.op,
        "source": ours.source,
        "twin_site": theirs.tensor,
        "lines": [] if excerpt is None else [list(line) for line in excerpt.lines],
    }
    return Answer("\n".join(lines), data)


def _words(site: Site) -> str:
    words = [site.tensor]
    if site.module:
        words.append(f"module {site.module}" + (f" (call {site.call + 1})" if site.call else ""))
    words += [word for word in (site.op, site.source) if word]
    return "   ".join(words)


def _module(stopped: Stopped, path: str) -> torch.nn.Module | None:
    """The module at this path, or its nearest parent."""
    network = None if stopped.held is None else stopped.held.case.network
    if not isinstance(network, ModuleNetwork):
        return None
    parts = path.split(".") if path else []
    for length in range(len(parts), -1, -1):
        try:
            return network.module.get_submodule(".".join(parts[:length]))
        except AttributeError:
            continue
    return None


def _forward(module: torch.nn.Module) -> list[str]:
    """Where the module is defined, if no line of the user's own code is known."""
    kind = type(module)
    target = kind.__dict__.get("forward", kind)
    try:
        file, (_, line) = inspect.getsourcefile(target) or "", inspect.getsourcelines(target)
    except (OSError, TypeError):
        return [kind.__name__]
    return [f"{kind.__name__}{'.forward' if target is not kind else ''}   {file}:{line}"]
