"""`ISSUE.md`: what is wrong, how to see it, observed against expected, ready to paste."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np
import onnx

from twinnet.report.quoting import code_block, prose
from twinnet.shrink.folder import describe, packages
from twinnet.shrink.script import beyond
from twinnet.shrink.seed import Runner
from twinnet.signature import dims

__all__ = ["numbers", "versions", "write_issue"]

_ROWS = 5


def write_issue(title: str, what: str, sides: Sequence[Runner], sections: Sequence[tuple[str, str]]) -> str:
    """The text of the issue: what happens, how to run it, the given sections, versions."""
    wanted = packages(sides)
    install = " ".join(f"{name}=={version}" if version else name for name, version in wanted.items())
    parts = [
        f"# {prose(title)}",
        f"## What happens\n{what}",
        "## How to see it\n"
        + code_block(f"pip install {install}\npython repro.py", "sh")
        + "\nThe exit code is 1 while the fault exists, 0 when it is gone, 3 if a side cannot run.",
        *(f"## {head}\n{body}" for head, body in sections if body),
        f"## Versions\n{versions(sides)}",
    ]
    return "\n\n".join(parts) + "\n"


def versions(sides: Sequence[Runner]) -> str:
    """One line per package and one for the machine."""
    found = packages(sides) | {"onnx": onnx.__version__, "Python": platform.python_version()}
    rows = [f"- {name} {prose(version)}" for name, version in found.items()]
    return "\n".join([*rows, f"- {platform.system()} {platform.machine()}"])


def numbers(observed: np.ndarray, expected: np.ndarray, allowed: np.ndarray) -> str:
    """The worst elements side by side."""
    if observed.shape != expected.shape:
        return f"The shape is {dims(observed.shape)}; it should be {dims(expected.shape)}."
    wrong = beyond(observed, expected, allowed)
    with np.errstate(invalid="ignore"):
        off = np.abs(observed.astype(np.float64) - expected.astype(np.float64))
    order = np.argsort(np.where(wrong, np.where(np.isnan(off), np.inf, off), -1.0), axis=None)[::-1][:_ROWS]
    rows = ["| element | expected | observed | rounding may change it by |", "|---|---|---|---|"]
    for flat in order:
        at = np.unravel_index(int(flat), off.shape)
        if wrong[at]:
            index = ",".join(str(int(i)) for i in at) or "0"
            rows.append(f"| {index} | {expected[at]:.9g} | {observed[at]:.9g} | {allowed[at]:.2g} |")
    return f"{int(wrong.sum())} of {off.size} elements differ. The worst:\n\n" + "\n".join(rows)


def networks(network: onnx.ModelProto | None, twin: onnx.ModelProto | None) -> str:
    """The network as text, and the twin if it is another file."""
    parts = []
    if network is not None:
        parts.append("`network.onnx`:\n" + code_block(describe(network)))
    if twin is not None:
        parts.append("`twin.onnx`:\n" + code_block(describe(twin)))
    return "\n\n".join(parts)
