"""Shapes that the network leaves open and its twin states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twinnet.engines import Spec
from twinnet.errors import UsageError
from twinnet.signature import Signature, TensorSpec, by_position, dims

if TYPE_CHECKING:
    from twinnet.network import Network

__all__ = ["with_shapes_of"]


def with_shapes_of(twins: Iterable[Any], network: Network) -> tuple[Signature, tuple[str, ...]]:
    """The signature with open shapes of required inputs taken from the first twin that states them, and notes on it.

    A signature that states everything is not changed, and no file is read for it.
    """
    signature = network.signature
    if not any(spec.dynamic for spec in signature.required):
        return signature, ()
    for other, label in _networks(twins):
        stated = {spec.name: spec for spec in other.signature.inputs if not spec.dynamic}
        names = by_position([s.name for s in signature.required], [s.name for s in other.signature.inputs])
        taken = {
            spec.name: _taken(spec, stated[theirs], first=other.format == "TFLite" != network.format)
            for spec in signature.required
            if spec.dynamic and (theirs := names.get(spec.name, spec.name)) in stated
        }
        if taken:
            told = ", ".join(f"{name} {dims(spec.shape)}" for name, spec in taken.items())
            inputs = tuple(taken.get(spec.name, spec) for spec in signature.inputs)
            return replace(signature, inputs=inputs), (f"shapes are those of {label}: {told}",)
    return signature, ()


def _taken(ours: TensorSpec, theirs: TensorSpec, *, first: bool) -> TensorSpec:
    """Our input with the shape of theirs; its dtype too, where ours is only assumed."""
    from twinnet.inputs.layout import image_layout

    assert theirs.shape is not None
    shape = theirs.shape
    layout = image_layout(theirs)
    if first and layout is not None and layout.name == "NHWC":
        shape = tuple(shape[axis] for axis in (0, 3, 1, 2))
    fits = ours.shape is None or (
        len(ours.shape) == len(shape) and all(isinstance(a, str) or a == b for a, b in zip(ours.shape, shape))
    )
    if not fits:
        return ours
    return replace(ours, shape=shape, dtype=theirs.dtype if ours.shape is None else ours.dtype)


def _networks(twins: Iterable[Any]) -> Iterator[tuple[Network, str]]:
    """Twins that are networks, or files of them. One that cannot be read is reported when it is opened."""
    from twinnet.network import is_network, load_network

    for twin in twins:
        if isinstance(twin, Spec) and twin.file is not None and ":" not in twin.file:
            try:
                yield load_network(twin.file), twin.file
            except (UsageError, OSError):
                continue
        elif not isinstance(twin, Spec) and is_network(twin):
            yield load_network(twin), "the twin"
