"""Compare two recordings made elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from twinnet.checking.borrowed import inputs_of
from twinnet.checking.case import Case
from twinnet.checking.options import CompareKeywords, options_of, spelt
from twinnet.checking.run import check_case
from twinnet.engines import reference_spec
from twinnet.engines.recording import RecordedSession
from twinnet.errors import UsageError
from twinnet.inputs import Inputs
from twinnet.job import Job
from twinnet.judge.inputs import input_cause, inputs_differ
from twinnet.name_map import read_name_map
from twinnet.network import Network, load_network
from twinnet.pairing.transforms import channels_first
from twinnet.recording import Recording, Sample, load_recording
from twinnet.result import Result
from twinnet.signature import Signature, TensorSpec

if TYPE_CHECKING:
    from twinnet.layers import Graph

__all__ = ["compare"]


@spelt(CompareKeywords)
def compare(
    first: str | Path,
    second: str | Path,
    *,
    network: Any = None,
    out: str | Path | None = None,
    trust: bool = False,
    argv: Sequence[str] = (),
    **keywords: Unpack[CompareKeywords],
) -> Result:
    """Compare two recordings; `first` is the reference.

    With `network`, its layers judge every site by the born test. Without it, outputs are judged by the size of their
    difference, or by `tolerance`. `names` maps tensors of the first recording to those of the second, or is a file
    with such a map; `names_out` is a file to write one to. The other keywords are as in `twinnet.check`.
    """
    names = keywords.get("names")
    if isinstance(names, str | Path):
        keywords["names"] = read_name_map(names)
    ours, theirs = load_recording(first), load_recording(second)
    if len(ours.samples) != len(theirs.samples):
        raise UsageError(
            f"{first} has {len(ours.samples)} samples, {second} has {len(theirs.samples)}",
            hint="record both on the same inputs",
        )
    _same_inputs(ours, theirs)
    loaded, graph = _network(ours, network, trust)
    reference = RecordedSession(ours, graph=graph)
    twin = RecordedSession(theirs, second=True)
    with options_of(CompareKeywords, keywords) as options:
        case = Case.of(loaded, _feed(ours), twin, options, reference=reference, given=network or "")
        return check_case(case, folder=Path(out) if out is not None else None, argv=argv)


def _same_inputs(ours: Recording, theirs: Recording) -> None:
    """Refuse recordings of different data; the same data prepared differently is a finding."""
    for index in range(len(ours.samples)):
        a = ours.sample(index)
        b = inputs_of(theirs, index, list(a))
        mine = list(a.values())
        yours = [_laid_out(x, b[name]) if name in b else y for (name, x), y in zip(a.items(), b.values())]
        if len(mine) != len(yours):
            continue
        for name, x, y in zip(a, mine, yours, strict=True):
            if not inputs_differ(x, y):
                continue
            cause, reason = input_cause(name, x, y)
            if cause is None and not (reason is not None and reason.params.get("alike")):
                raise UsageError(
                    f"sample {index}: input {name} is not the same in both recordings",
                    hint="record both sides on the same inputs (the same --inputs, --shape and --seed)",
                )


def _laid_out(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """An input in the order of axes of the other side."""
    turn = channels_first(ours.shape, theirs.shape) if ours.shape != theirs.shape else None
    return theirs if turn is None else turn.to_network(theirs)


def _feed(recording: Recording) -> Inputs:
    """Turn the samples of a recording into inputs for a check."""
    samples: list[Any] = [recording.sample(i) for i in range(len(recording.samples))]
    return Inputs(samples, recording.info, Signature(tuple(TensorSpec(n) for n in recording.inputs)))


def _network(recording: Recording, network: Any, trust: bool) -> tuple[Network, Graph | None]:
    """The recorded network, with its canonical layers if the network itself is given."""
    signature = Signature(tuple(TensorSpec(n) for n in recording.inputs))
    if network is None:
        plain = Network(recording.side.name, signature, parameters=recording.side.parameters or 0)
        plain.format = recording.side.format  # type: ignore[misc]
        return plain, None
    loaded = load_network(network, trust=trust)
    sample: Sample = recording.sample(0)
    job = Job({n: np.asarray(v) for n, v in sample.items()})
    spec = reference_spec(loaded)
    session = spec.open(loaded, job)
    graph = session.graph()
    session.close()
    known = set(graph.producer) if graph is not None else set()
    if graph is not None and not known & {s.tensor for s in recording.sites}:
        raise UsageError(f"the recording {recording.folder} was not made from the network {loaded.name}")
    return loaded, graph
