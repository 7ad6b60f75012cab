"""Compare two recordings made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.checking.case import Case
from twinnet.checking.options import Keep, Options
from twinnet.checking.run import check_case
from twinnet.engines import reference_spec
from twinnet.engines.recording import RecordedSession
from twinnet.errors import UsageError
from twinnet.inputs import Inputs
from twinnet.job import Job
from twinnet.judge.inputs import input_cause, inputs_differ
from twinnet.judge.tolerance import Tolerance, Tolerances
from twinnet.network import Network, load_network
from twinnet.progress import Report, silent
from twinnet.recording import Recording, Sample, load_recording, read_name_map
from twinnet.result import Result
from twinnet.signature import Signature, TensorSpec

if TYPE_CHECKING:
    from twinnet.layers import Graph

__all__ = ["compare"]


def compare(
    first: str | Path,
    second: str | Path,
    *,
    network: Any = None,
    names: Mapping[str, str] | str | Path | None = None,
    tolerance: Tolerance | Tolerances | str | Path | None = None,
    baseline: str | Path | None = None,
    keep: Keep = "worst",
    out: str | Path | None = None,
    trust: bool = False,
    argv: Sequence[str] = (),
    progress: Report = silent,
) -> Result:
    """Compare two recordings; `first` is the reference.

    With `network`, its layers judge every site by the born test. Without it, outputs are judged by the size of their
    difference, or by `tolerance`. `names` maps tensors of the first recording to those of the second, or is a file
    with such a map. The other keywords are as in `twinnet.check`.
    """
    if isinstance(names, str | Path):
        names = read_name_map(names)
    options = Options(names=names, tolerance=tolerance, baseline=baseline, keep=keep, progress=progress)
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
    case = Case.of(loaded, _feed(ours), twin, options, reference=reference, given=network or "")
    return check_case(case, folder=Path(out) if out is not None else None, argv=argv)


def _same_inputs(ours: Recording, theirs: Recording) -> None:
    """Refuse recordings of different data; the same data prepared differently is a finding."""
    for index in range(len(ours.samples)):
        a, b = ours.sample(index), theirs.sample(index)
        mine, yours = list(a.values()), list(b.values())
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
