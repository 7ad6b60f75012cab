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

__all__ = ["assumed", "fed_arrays", "read_beside", "turned_pairs"]


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
    pairs = [(outputs[n], a) for n, a in found.items()] + [(np.asarray(sample[n]), a) for n, a in fed.items()]
    turns = {name: turn.to_network for ours, name in pairs if (turn := _turn(ours, arrays[name]))}
    return twin.read_as(Reading(found, fed, turns))


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


def assumed(net: Session, twin: Session, pairing: Pairing, outputs: Arrays) -> list[Guard]:
    """What was assumed about arrays that somebody else wrote, and which outputs are not among them."""
    if not isinstance(twin, RecordedSession) or not twin.by_hand:
        return []
    found: list[Guard] = []
    turned = [p.twin_site.tensor for p in pairing.pairs if p.transform.perm is not None]
    turned = list(dict.fromkeys([*twin.reading.turns, *turned]))
    if turned:
        found.append(Guard("note", fact("recording.channels_last", count=len(turned), name=turned[0])))
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
