"""Run one side and record its tensors, to be compared elsewhere."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from twinnet.checking.case import modes_kept, placed, read_network
from twinnet.checking.options import Options, RecordKeywords, options_of, spelt
from twinnet.engines import Spec, parse_spec, reference_spec
from twinnet.environment import environment
from twinnet.errors import UsageError
from twinnet.extras import optional_packages
from twinnet.files import atomic_write, whole_folder
from twinnet.job import Job
from twinnet.recording import SCHEMA, Recording, load_recording
from twinnet.result import SideInfo
from twinnet.store import write_tensors
from twinnet.trace import DEFAULT_MEMORY, TraceBuilder
from twinnet.trust import trusting

__all__ = ["record", "record_with"]


@spelt(RecordKeywords)
def record(
    network: Any,
    inputs: Any = None,
    *,
    out: str | Path,
    trust: bool = False,
    **keywords: Unpack[RecordKeywords],
) -> Recording:
    """Run one side and write its tensors to the folder `out`, which must be new or a recording already.

    `reference` is the engine that runs the network, `on` the place where it does; the other keywords are as in
    `twinnet.check`.
    """
    with trusting(trust), options_of(RecordKeywords, keywords) as options:
        return record_with(options, network, inputs, out)


@optional_packages()
def record_with(options: Options, network: Any, inputs: Any, out: str | Path) -> Recording:
    """Like `record`, with the keywords in one object."""
    folder = Path(out)
    if folder.is_dir() and not (folder / "recording.json").exists():
        strange = [p for p in folder.iterdir() if not (p.name.isdigit() or p.name.startswith("."))]
        if strange:
            raise UsageError(f"{folder} exists and is not a recording", hint="choose another --out")
    parts = ("recording.json", "[0-9][0-9][0-9][0-9]*")
    with modes_kept(network), whole_folder(folder, last="recording.json", ours=parts) as stage:
        _record(network, inputs, stage, options)
    return load_recording(folder)


def _record(network: Any, inputs: Any, folder: Path, options: Options) -> None:
    loaded, feed = read_network(network, inputs, options)
    spec = parse_spec(options.reference) if options.reference else reference_spec(loaded)
    spec = placed(spec, options.on)
    assert isinstance(spec, Spec)
    limits = options.limits
    job = Job(
        feed.samples[0],
        feed.samples,
        threads=limits.threads,
        time_limit=limits.time_limit,
        memory=limits.memory,
        report=options.progress,
    )
    session = spec.open(loaded, job)
    try:
        # A run tells what the outputs are called, and for some engines which there are.
        outputs = session.run(feed.samples[0])
        called = dict(zip(session.output_tensors, outputs, strict=False))
        inner = options.level == "intermediates"
        sites = tuple(
            replace(s, output=called.get(s.tensor, "")) for s in session.sites if inner or s.role == "output"
        )
        watch = {s.tensor for s in sites} if inner else set(session.output_tensors)
        for number, sample in enumerate(feed.samples):
            options.progress(f"sample {number + 1} of {len(feed.samples)}", number / len(feed.samples))
            target = folder / f"{number:04d}"
            write_tensors(target / "inputs.safetensors", {k: np.asarray(v) for k, v in sample.items()})
            session.trace(sample, watch, TraceBuilder(limits.memory or DEFAULT_MEMORY, target))
            session.keep(target)
        side = SideInfo(
            loaded.name,
            spec.engine,
            str(spec),
            session.version,
            loaded.format,
            loaded.parameters,
            sites=len(sites),
            precision=session.precision,
        )
        index = {
            "schema": SCHEMA,
            "side": asdict(side),
            "level": options.level,
            "inputs": dict(session.inputs),
            "outputs": list(session.output_tensors),
            "samples": len(feed.samples),
            "info": asdict(feed.info),
            "sites": [asdict(s) for s in sites],
            "environment": environment(),
        }
        atomic_write(folder / "recording.json", json.dumps(index, indent=1).encode())
    finally:
        session.close()
