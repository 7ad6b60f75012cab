"""What the network leaves open and its twin states: shapes, and the inputs that a recording was made on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twinnet.checking.by_hand import fed_arrays
from twinnet.engines import Spec, find_engine
from twinnet.engines.spec import Twin
from twinnet.errors import UsageError
from twinnet.inputs.layout import image_layout
from twinnet.pairing.transforms import Transform, channels_first
from twinnet.recording import Recording, load_recording
from twinnet.signature import Signature, TensorSpec, by_position, dims

if TYPE_CHECKING:
    from twinnet.network import Network

__all__ = ["Recorded", "inputs_of", "recorded_inputs", "with_shapes_of"]


def with_shapes_of(twins: Iterable[Twin], network: Network) -> tuple[Signature, tuple[str, ...]]:
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


def _networks(twins: Iterable[Twin]) -> Iterator[tuple[Network, str]]:
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


# -- recordings ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recorded:
    """The inputs that a recording was made on, and what was changed to fit them to the network."""

    place: str
    samples: list[dict[str, np.ndarray]]
    notes: tuple[str, ...]


def recorded_inputs(twins: Iterable[Twin], network: Network) -> Recorded | None:
    """The inputs of the first recording among the twins; None if there is no recording.

    Raises UsageError for a recording without inputs: it cannot be compared on any others.
    """
    specs = (twin for twin in twins if isinstance(twin, Spec))
    place = next((spec.file for spec in specs if spec.file and find_engine(spec.engine).replays), None)
    if place is None:
        return None
    recording = load_recording(place)
    names = [spec.name for spec in network.signature.required]
    notes: dict[str, None] = {}
    samples = [
        _fitted(inputs_of(recording, index, names), network, notes) for index in range(len(recording.samples))
    ]
    if not all(samples):
        held = sorted(recording.trace(0)) if recording.samples else []
        told = f": it has {', '.join(held[:6])}{' ...' if len(held) > 6 else ''}" if held else ""
        raise UsageError(
            f"{place} does not hold the inputs it was recorded on{told}",
            hint=f"give them with --inputs, or put them beside the arrays: {names[0] if names else 'input'}.npy",
        )
    return Recorded(place, samples, tuple(notes))


def inputs_of(recording: Recording, index: int, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The inputs of one sample, by the names of the network's where they tell which is which."""
    own = recording.sample(index)
    if own and not set(own) <= set(names) and len(own) == len(names):
        return dict(zip(names, own.values(), strict=True))  # called differently on the side that was recorded
    if own or not recording.by_hand:
        return dict(own)
    arrays = recording.trace(index)
    return {name: np.asarray(arrays[array]) for name, array in fed_arrays(arrays, names, set()).items()}


def _fitted(sample: dict[str, np.ndarray], network: Network, notes: dict[str, None]) -> dict[str, np.ndarray]:
    """The inputs in the network's order of axes."""
    known = {spec.name: spec for spec in network.signature.inputs}
    found: dict[str, np.ndarray] = {}
    for name, array in sample.items():
        turn = _turn(known.get(name), array, network.format)
        found[name] = array if turn is None else np.ascontiguousarray(turn.to_network(array))
        if turn is not None:
            notes[f"{name} is recorded as {dims(array.shape)}: its channels are put first"] = None
    return found


def _turn(spec: TensorSpec | None, array: np.ndarray, form: str) -> Transform | None:
    """How to put the channels of an input first; None if that is not needed."""
    if spec is not None and spec.shape is not None:
        sizes = list(zip(spec.shape, array.shape))
        fits = len(spec.shape) == array.ndim and all(isinstance(d, str) or d == n for d, n in sizes)
        return None if fits else channels_first(spec.shape, array.shape)
    # Modules seldom say what they take; pictures go in with channels first.
    layout = image_layout(TensorSpec("", "float32", array.shape)) if form == "PyTorch" else None
    return channels_first(("n", "c", "h", "w"), array.shape) if layout and layout.name == "NHWC" else None
