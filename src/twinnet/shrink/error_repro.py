"""A repro of an engine's refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinnet.engines import standalone_of
from twinnet.report.quoting import code_block, prose
from twinnet.report.sentences import counted
from twinnet.shrink import script
from twinnet.shrink.folder import Contents
from twinnet.shrink.issue import networks, write_issue
from twinnet.shrink.refusal import hidden_refusal, names_of, smallest_refusal
from twinnet.shrink.script import normalised
from twinnet.shrink.seed import Seed
from twinnet.shrink.words import hidden_words, side_spec

__all__ = ["refused_network"]

Progress = Callable[[str, float | None], None]


def refused_network(seed: Seed, confidential: bool, progress: Progress) -> tuple[dict[str, Any], Contents]:
    """Make the refused network smaller while the message stays the same, and describe it for its folder."""
    progress("leaving out nodes", None)
    found = smallest_refusal(seed)
    kept: tuple[str, ...] = ()
    if confidential:
        found, kept = hidden_refusal(seed, found)
    model, feeds, message = found.model, found.feeds, found.message
    keys = {name: f"in{i}" for i, name in enumerate(feeds)}
    side = side_spec("network.onnx", seed.twin_side, keys, "", {}, {})
    names = sorted(names_of(model))
    spec = {
        "twin": {
            **side,
            "package": alone.module if (alone := standalone_of(seed.twin_side.engine)) else "",
        },
        "names": names,
        "message": normalised(message, names),
    }
    ops = ", ".join(dict.fromkeys(n.op_type for n in model.graph.node))
    count = len(model.graph.node)
    title = f"{seed.twin_side} refuses {ops}" if count <= 4 else f"{seed.twin_side} refuses a network"
    elements = sum(a.size for a in feeds.values())
    sections = [
        ("The message", code_block(message)),
        ("The network", networks(model, None)),
        ("What was hidden", hidden_words(kept, seed.network_side, seed.twin_side) if confidential else ""),
    ]
    what = f"A network of {counted(count, 'node')} ({prose(ops)}) cannot be loaded or run. It should run."
    contents = Contents(
        title,
        write_issue(title, what, [seed.twin_side], sections),
        spec,
        script.expect_refusal,
        f"network.onnx is loaded and run under {seed.twin_side}, which refuses it.",
        {keys[n]: a for n, a in feeds.items()},
        model,
        engines=[seed.twin_side.engine],
    )
    first = message.splitlines()[0][:160] if message else ""
    made = {
        "sentence": f"{counted(count, 'node')} ({ops}) refused: {first}",
        "nodes": count,
        "elements": elements,
        "trials": found.trials,
        "kept": kept,
    }
    return made, contents
