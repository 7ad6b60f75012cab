"""Arrays that somebody else wrote, beside a network: which are its inputs and outputs, and in which order of axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from twinnet.engines.base import Session
from twinnet.engines.recording import Reading, RecordedSession
from twinnet.job import Arrays
from twinnet.pairing import Pair, Pairing
from twinnet.pairing.labels import bare, known_as, naming
from twinnet.pairing.transforms import IDENTITY, Transform, channels_first, nearest
from twinnet.result import Guard, fact
from twinnet.trace import DEFAULT_MEMORY, TraceBuilder

__all__ = ["assumed", "fed_arrays", "read_beside", "turned_pairs", "without_lone_guesses"]


def read_beside(
    twin: Session, net: Session, sample: Arrays, outputs: Arrays, names: Mapping[str, str]
) -> Session:
    """The twin with its arrays matched to the network's inputs and outputs, if somebody else named them.

    `outputs` are the network's on the sample, `names` the user's own pairs.
    """
    if not isinstance(twin, RecordedSession) or not twin.by_hand:
        return twin
    arrays = twin.recording.trace(0)
    known = known_as(arrays)
    modules = {tensor: name for name, tensor in naming(net.sites)["module"].items()}
    found: dict[str, str] = {}
    tensors = dict(zip(outputs, net.output_tensors, strict=False))
    for number, (name, tensor) in enumerate(tensors.items()):
        stated = names.get(name, names.get(tensor))
        if stated is None:
            wanted = (name, tensor, modules.get(tensor, ""), *_usual("output", number, len(outputs)))
            stated = next((known[bare(w)] for w in wanted if bare(w) in known), "")
        if stated in arrays and stated not in found.values():
            found[name] = stated
    fed = {} if twin.recording.sample(0) else fed_arrays(arrays, list(sample), set(found.values()))
    guessed = _by_shape(
        net, sample, outputs, found, {n: a for n, a in arrays.items() if n not in fed.values()}
    )
    found |= guessed
    pairs = [(outputs[n], a) for n, a in found.items()] + [(np.asarray(sample[n]), a) for n, a in fed.items()]
    turns = {name: turn.to_network for ours, name in pairs if (turn := _turn(ours, arrays[name]))}
    return twin.read_as(Reading(found, fed, turns, frozenset(guessed)))


def _by_shape(
    net: Session, sample: Arrays, outputs: Arrays, found: Mapping[str, str], arrays: Arrays
) -> dict[str, str]:
    """Outputs that no name finds, each with the one array that can be nothing else: no layer of the network is called
    like it, no other array has the shape of this output, and nothing else in the network has it."""
    if net.by_hand or len(found) == len(outputs):
        return {}
    named = {bare(name) for kind in naming(net.sites).values() for name in kind}
    free = {
        name: array.shape
        for name, array in arrays.items()
        if name not in found.values() and not any(short in named for short in known_as([name]))
    }
    guessed: dict[str, tuple[str, str]] = {}
    for (name, array), tensor in zip(outputs.items(), net.output_tensors, strict=False):
        fitting = [
            other
            for other, shape in free.items()
            if shape == array.shape or channels_first(array.shape, shape) is not None
        ]
        if name not in found and array.ndim and len(fitting) == 1:
            guessed[name] = (tensor, fitting[0])
    if not guessed:
        return {}
    trace = net.trace(sample, {site.tensor for site in net.sites}, TraceBuilder(DEFAULT_MEMORY))
    shapes = [(tensor, np.shape(trace[tensor])) for tensor in trace]
    return {
        name: array
        for name, (tensor, array) in guessed.items()
        if all(shape != outputs[name].shape for other, shape in shapes if other != tensor)
    }


def _usual(role: str, number: int, count: int) -> Iterator[str]:
    """Names that people give the inputs and outputs of any network."""
    short = role.removesuffix("put")
    if count == 1:
        yield from (role, f"{role}s", short)
    yield from (f"{role}_{number}", f"{role}{number}", f"{short}_{number}", f"{short}{number}")


def fed_arrays(arrays: Iterable[str], inputs: Sequence[str], taken: set[str]) -> dict[str, str]:
    """Which arrays are the inputs: called like them, or as inputs usually are."""
    known = known_as(name for name in arrays if name not in taken)
    found: dict[str, str] = {}
    for number, name in enumerate(inputs):
        wanted = (name, *_usual("input", number, len(inputs)))
        match = next((known[bare(w)] for w in wanted if bare(w) in known), None)
        if match is not None:
            found[name] = match
    return found


def _turn(ours: np.ndarray, theirs: np.ndarray) -> Transform | None:
    """How to put channels first; None if they are, as far as shapes and values tell."""
    turn = channels_first(ours.shape, theirs.shape)
    if turn is None or ours.shape != theirs.shape:
        return turn
    if ours.ndim < 4:
        return None  # a matrix may be transposed by mistake; pictures come with channels last on purpose
    best = nearest(ours, theirs, (IDENTITY, turn))
    return turn if best is turn else None


def turned_pairs(
    pairing: Pairing, trace: Mapping[str, np.ndarray], twin_trace: Mapping[str, np.ndarray]
) -> Pairing:
    """Pairs of arrays with channels last, also where the shape does not show it."""
    kept: list[Pair] = []
    for pair in pairing.pairs:
        if pair.transform.is_identity and pair.site.tensor in trace and pair.twin_site.tensor in twin_trace:
            turn = _turn(trace[pair.site.tensor], twin_trace[pair.twin_site.tensor])
            pair = pair if turn is None else replace(pair, transform=turn)
        kept.append(pair)
    return replace(pairing, pairs=tuple(kept))


def without_lone_guesses(net: Session, twin: Session, pairing: Pairing, outputs: Arrays) -> Pairing:
    """Without outputs known by their shape only, if no other array pairs: it may be another network's dump."""
    if not isinstance(twin, RecordedSession) or not twin.reading.guessed or not pairing.unmatched_twin:
        return pairing
    tensors = dict(zip(outputs, net.output_tensors, strict=False))
    guessed = {tensors[name] for name in twin.reading.guessed}
    alone = all(pair.site.tensor in guessed for pair in pairing.pairs)
    return pairing.without(guessed) if alone else pairing


def assumed(net: Session, twin: Session, pairing: Pairing, outputs: Arrays) -> list[Guard]:
    """What was assumed about arrays that somebody else wrote, and which outputs are not among them."""
    if not isinstance(twin, RecordedSession) or not twin.by_hand:
        return []
    found: list[Guard] = []
    turned = [p.twin_site.tensor for p in pairing.pairs if p.transform.perm is not None]
    turned = list(dict.fromkeys([*twin.reading.turns, *turned]))
    if turned:
        found.append(Guard("note", fact("recording.channels_last", count=len(turned), name=turned[0])))
    if twin.reading.guessed:
        pairs = tuple((twin.reading.outputs[name], name) for name in sorted(twin.reading.guessed))
        found.append(Guard("note", fact("recording.output_by_shape", pairs=pairs)))
    if left := [site.tensor for site in pairing.unmatched_twin]:
        # Beside a network its layers say what must be there; two heaps of arrays say nothing.
        weak = net.by_hand and bool(pairing.unmatched)
        found.append(Guard("coverage", fact("recording.unpaired", names=tuple(left)), weakens=weak))
    paired = {p.site.tensor for p in pairing.pairs}
    tensors = zip(outputs, net.output_tensors, strict=False)
    missing = [name for name, tensor in tensors if name not in twin.reading.outputs and tensor not in paired]
    if missing:
        weak = len(missing) == len(outputs)
        found.append(Guard("coverage", fact("recording.no_outputs", names=tuple(missing)), weakens=weak))
    return found
