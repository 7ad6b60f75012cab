"""Refuse sides whose numbers cannot be compared: random, of other shapes, or another network; hints on inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from twinnet.engines.base import Session
from twinnet.errors import EngineError, UsageError
from twinnet.inputs.layout import image_layout
from twinnet.layers.graph import Graph
from twinnet.network.base import Network
from twinnet.pairing.transforms import candidates
from twinnet.signature import TensorSpec, dims

__all__ = ["inputs_hinted", "refuse_empty", "refuse_inputs", "refuse_other", "refuse_random", "refuse_untold"]


_DTYPE = re.compile(r"scalar type|\bdtype\b|\bLong\b|FloatTensor|[Ii]nput type .* should be the same")
"""What PyTorch writes about tensors of another type than expected."""


@contextmanager
def inputs_hinted(network: Network, sample: Mapping[str, np.ndarray]) -> Iterator[None]:
    """If the network refuses an input, say what may be wrong with it: channels last, or another type."""
    try:
        yield
    except EngineError as error:
        for name, array in sample.items():
            layout = image_layout(TensorSpec(name, "float32", np.shape(array)))
            if error.hint is None and network.format == "PyTorch" and layout and layout.name == "NHWC":
                error.hint = (
                    f"input {name} is {dims(np.shape(array))}, channels last (NHWC), and most modules take NCHW: "
                    "array.transpose(0, 3, 1, 2)"
                )
        if error.hint is None and network.format == "PyTorch" and _DTYPE.search(error.what):
            told = ", ".join(f"{name} is {np.asarray(array).dtype}" for name, array in sample.items())
            error.hint = (
                f"{told}: give arrays of the type that the network takes, or let its factory return "
                "(module, example inputs)"
            )
        raise


def refuse_empty(sample: Mapping[str, np.ndarray]) -> None:
    """Raise UsageError for inputs without a single number. One of several may be empty: a cache of past values is."""
    if sample and not any(np.size(array) for array in sample.values()):
        shapes = ", ".join(f"{name} is {dims(np.shape(array))}" for name, array in sample.items())
        raise UsageError(f"the inputs hold no numbers: {shapes}", hint="give at least one sample")


def refuse_random(side: str, session: Session, graph: Graph | None) -> None:
    """Raise EngineError for a side that draws random numbers."""
    place = session.random
    for layer in graph or ():
        if not place and layer.attrs.get("random"):
            where = f" ({layer.source})" if layer.source else ""
            place = f"{layer.module or layer.node} {layer.op}{where}"
    if place:
        raise EngineError(
            f"the {side} draws random numbers in {place}",
            stage="run",
            hint="seed it, or make it deterministic: two runs of it cannot be compared",
        )


def refuse_untold(twin: Session, stated: bool) -> None:
    """Raise EngineError for a twin that counts in steps nobody tells, unless a tolerance is stated.

    By rounding of floats alone any such twin would fail, the right ones too.
    """
    if twin.untold and not stated:
        raise EngineError(
            f"{twin.untold}, but which layers they belong to is not known",
            stage="judge",
            hint=f"{twin.untold_hint}, or state what may differ (--snr 30, --cosine 0.999)",
        )


def refuse_inputs(twin: Session, sample: Mapping[str, np.ndarray]) -> None:
    """Raise EngineError if a file takes inputs of other shapes than the sample's."""
    if twin.artefact is None:
        return
    declared = {spec.name: spec for spec in twin.signature.inputs}
    said = []
    for name, array in sample.items():
        spec = declared.get(twin.inputs.get(name, ""))
        if spec is None or spec.shape is None:
            continue
        have = np.shape(array)
        fits = len(have) == len(spec.shape) and all(
            want == n for want, n in zip(spec.shape, have, strict=True) if isinstance(want, int)
        )
        if not fits:
            said.append(f"input {spec.name} is {dims(have)}, the twin takes {dims(spec.shape)}")
    if said:
        raise EngineError(
            f"the twin does not fit the network: {'; '.join(said)}",
            stage="pair",
            hint="if it is the same network, give its shapes (--shape); twinnet diff NETWORK TWIN compares the two",
        )


def refuse_other(
    net: Session,
    twin: Session,
    graph: Graph | None,
    plain: Mapping[str, np.ndarray],
    twin_plain: Mapping[str, np.ndarray],
) -> None:
    """Raise EngineError if outputs or weights show that the twin is a different network.

    `graph` holds the network's layers; None for a twin made from this very network. A different output shape alone is
    not enough: a wrong stride causes that too, and is better found where it is born.
    """
    said: list[str] = []
    loose = not twin.output_tensors or twin.loose_outputs or net.loose_outputs
    counts = len(net.output_tensors), len(twin.output_tensors)
    hint = "twinnet diff NETWORK TWIN lists everything that differs"
    if counts[0] != counts[1] and not loose:
        said.append(
            f"the network has {counts[0]} output{'s' * (counts[0] != 1)} ({_some([*plain])}), "
            f"the twin {counts[1]} ({_some([*twin_plain])})"
        )
        if set(twin_plain) < set(plain):
            hint = f"to check these alone, let the factory return a module whose forward returns {_some([*twin_plain])}"
    twin_graph = twin.graph() if graph is not None else None
    if graph is not None and twin_graph is not None:
        outputs = zip(plain.values(), twin_plain.values(), strict=False)
        apart = [(a.shape, b.shape) for a, b in outputs if not candidates(a.shape, b.shape)]
        if said or apart or _sizes_differ(graph, twin_graph):
            from twinnet.structure import not_the_same

            reason = not_the_same(graph, twin_graph)
            if reason is not None:
                said += [f"output {dims(b)} where the network has {dims(a)}" for a, b in apart[:1]]
                said.append(f"{reason} (A is the network, B the twin)")
    if said:
        raise EngineError(
            f"they are not the same network: {'; '.join(said)}",
            stage="pair",
            hint=hint,
        )


def _some(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _sizes_differ(graph: Graph, twin: Graph) -> bool:
    """Whether the sizes of all weights differ clearly; folding changes only a few."""
    ours, theirs = (
        sum(t.numel() for t in g.constants.values() if hasattr(t, "numel")) for g in (graph, twin)
    )
    return abs(ours - theirs) > 0.05 * max(ours, theirs)
