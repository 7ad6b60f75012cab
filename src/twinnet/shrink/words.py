"""Texts and data that all kinds of repro share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinnet.pairing import Transform
from twinnet.report.quoting import code_span, prose
from twinnet.shrink.seed import Runner, Seed

__all__ = ["form_of", "hidden_words", "origin_words", "side_spec"]


def side_spec(
    file: str,
    side: Runner,
    inputs: Mapping[str, str],
    output: str,
    input_form: Mapping[str, Any],
    output_form: Mapping[str, Any],
) -> dict[str, Any]:
    """One side as `repro.py` needs it: its file, engine and options, and which input goes where."""
    return {
        "file": file,
        "engine": side.engine,
        "options": dict(side.options),
        "inputs": dict(inputs),
        "output": output,
        "input_form": dict(input_form),
        "output_form": dict(output_form),
    }


def form_of(transform: Transform, *, to_twin: bool) -> tuple[Any, Any, Any]:
    """A transform as (permutation, shape, steps): what `turned` takes."""
    steps = None
    if transform.scale is not None:
        dtype = transform.dtype if to_twin else None
        steps = {"scale": transform.scale, "zero": transform.zero, "axis": transform.axis, "integers": dtype}
    if not to_twin:
        return transform.perm, transform.shape, steps
    perm = None if transform.perm is None else tuple(int(i) for i in np.argsort(transform.perm))
    return perm, transform.twin_shape, steps


def origin_words(seed: Seed) -> str:
    """Where in the user's network it was found, and why it differs, as far as that is known."""
    source = f" ({prose(seed.place.source)})" if seed.place.source else ""
    said = f"It was found at {code_span(seed.place.label or seed.place.tensor)}{source}"
    layers = "\n".join(f"- {prose(layer)}" for layer in seed.place.layers[:8])
    said += f", in a part made of:\n\n{layers}" if layers else "."
    return f"{said}\n\nCause: {prose(seed.cause)}." if seed.cause else said


def hidden_words(kept: tuple[str, ...], *sides: Runner) -> str:
    """What `--confidential` removed and kept; the options of `sides` may hold paths and commands of the user."""
    said = (
        "Names and metadata were removed; weights and inputs are random, of the same shape, type and spread"
    )
    if kept:
        said += f", except {', '.join(kept)}, which had to keep their values for the fault to show."
    else:
        said += ". Operators, attributes, shapes and the way in which the two files differ are as they were."
    if any({"python", "description"} & set(side.options) for side in sides):
        said += " The way each side is started was kept: look at the paths and commands in `repro.py`."
    return said
