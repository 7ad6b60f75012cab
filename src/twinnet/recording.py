"""Recordings: run a side here, compare it somewhere else.

A recording is a folder: `recording.json` (what ran, its sites and outputs), and for each sample a folder with
`inputs.safetensors` and the traced tensors. Folders of `.npy` or `.npz` files are accepted in its place, with a map
of names where they differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.result import InputsInfo, Result, SideInfo
from twinnet.site import Site
from twinnet.store import TensorFile, atomic_write, write_tensors
from twinnet.trace import DEFAULT_MEMORY, Trace, TraceBuilder

if TYPE_CHECKING:
    from twinnet.check import CheckOptions

__all__ = ["Recording", "Sample", "compare", "load_recording", "read_name_map", "record"]

SCHEMA = 1


class Sample(dict[str, np.ndarray]):
    """The inputs of one sample, knowing which one it is."""

    def __init__(self, values: Mapping[str, np.ndarray], index: int) -> None:
        super().__init__(values)
        self.index = index


@dataclass(frozen=True)
class Recording:
    """A recording opened for reading; tensors are memory-mapped when asked for."""

    folder: Path
    side: SideInfo
    sites: tuple[Site, ...]
    inputs: Mapping[str, str]
    outputs: tuple[str, ...]
    level: str
    info: InputsInfo
    samples: tuple[Path, ...]

    def sample(self, index: int) -> Sample:
        """The inputs of one sample."""
        path = self.samples[index] / "inputs.safetensors"
        file = TensorFile(path) if path.exists() else None
        return Sample({name: file[name] for name in file} if file else {}, index)

    def trace(self, index: int) -> Trace:
        """The tensors of one sample."""
        folder = self.samples[index]
        files: dict[str, Path] = {}
        arrays: dict[str, np.ndarray] = {}
        for path in sorted(folder.iterdir()):
            if path.name == "inputs.safetensors":
                continue
            if path.suffix == ".safetensors":
                files.update(dict.fromkeys(TensorFile(path).keys(), path))
            else:
                arrays.update(_numpy_file(path))
        return Trace(arrays, files=files)


def record(
    network: Any,
    inputs: Any = None,
    *,
    out: str | Path,
    as_spec: str | None = None,
    level: str = "intermediates",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    preprocess: Any = None,
    seed: int = 0,
    samples: int | None = None,
    threads: int | None = None,
    memory: int | None = None,
    time_limit: float | None = None,
    progress: Callable[[str, float | None], None] = lambda step, share: None,
) -> Recording:
    """Run one side and write what it computes to the folder `out`, which must not exist or be a recording already."""
    from twinnet.check import CheckOptions, modes_kept

    folder = Path(out)
    if folder.exists() and any(folder.iterdir()) and not (folder / "recording.json").exists():
        raise UsageError(f"{folder} exists and is not a recording", hint="choose another --out")
    settings = CheckOptions(
        as_spec=as_spec,
        level=level,
        shapes=shapes,
        preprocess=preprocess,
        seed=seed,
        samples=samples,
        threads=threads,
        memory=memory,
        time_limit=time_limit,
        progress=progress,
    )
    with modes_kept(network):
        _record(network, inputs, folder, settings)
    return load_recording(folder)


def _record(network: Any, inputs: Any, folder: Path, settings: CheckOptions) -> None:
    from twinnet.check import default_spec, read_network
    from twinnet.engines import find_engine, parse_spec
    from twinnet.environment import environment
    from twinnet.job import Job

    loaded, feed = read_network(network, inputs, settings)
    spec = parse_spec(settings.as_spec or default_spec(loaded))
    job = Job(
        feed.samples[0],
        feed.samples,
        threads=settings.threads,
        time_limit=settings.time_limit,
        memory=settings.memory,
        progress=lambda step: settings.progress(step, None),
    )
    session = find_engine(spec.engine).open(loaded, spec.options, spec.file, job)
    try:
        if not session.output_tensors:  # known only after a run
            session.run(feed.samples[0])
        inner = settings.level == "intermediates"
        sites = tuple(s for s in session.sites if inner or s.role == "output")
        watch = {s.tensor for s in sites} if inner else set(session.output_tensors)
        # The old index goes first and the new one comes last: a folder without it is no recording.
        (folder / "recording.json").unlink(missing_ok=True)
        for number, sample in enumerate(feed.samples):
            settings.progress(f"sample {number + 1} of {len(feed.samples)}", number / len(feed.samples))
            target = folder / f"{number:04d}"
            target.mkdir(parents=True, exist_ok=True)
            for stale in target.iterdir():
                stale.unlink()
            write_tensors(target / "inputs.safetensors", {k: np.asarray(v) for k, v in sample.items()})
            session.trace(sample, watch, TraceBuilder(settings.memory or DEFAULT_MEMORY, target))
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
            "level": settings.level,
            "inputs": dict(session.inputs),
            "outputs": list(session.output_tensors),
            "samples": len(feed.samples),
            "info": asdict(feed.info),
            "sites": [asdict(s) for s in sites],
            "environment": environment(),
        }
        atomic_write(folder / "recording.json", [json.dumps(index, indent=1).encode()])
    finally:
        session.close()


def load_recording(folder: str | Path) -> Recording:
    """Open a recording, or a folder of `.npy`/`.npz` files as one sample."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"no such recording: {folder}")
    path = folder / "recording.json"
    if not path.exists():
        return _from_arrays(folder)
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        if index["schema"] > SCHEMA:
            raise UsageError(f"{path} was written by a newer twinnet (schema {index['schema']})")
        sites = tuple(
            _fill(Site, {**s, "shape": tuple(s["shape"]) if s.get("shape") else None}) for s in index["sites"]
        )
        found = Recording(
            folder=folder,
            side=_fill(SideInfo, index["side"]),
            sites=sites,
            inputs=dict(index["inputs"]),
            outputs=tuple(index["outputs"]),
            level=str(index["level"]),
            info=_fill(InputsInfo, index["info"]),
            samples=tuple(folder / f"{i:04d}" for i in range(int(index["samples"]))),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not a readable recording: {error}") from None
    for sample in found.samples:
        if not sample.is_dir():
            raise UsageError(f"the recording {folder} is incomplete: {sample.name} is missing")
    return found


def _fill(kind: Any, values: Mapping[str, Any]) -> Any:
    known = {f.name for f in fields(kind)}
    return kind(**{k: v for k, v in values.items() if k in known})


def _from_arrays(folder: Path) -> Recording:
    names: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.suffix in (".npy", ".npz"):
            names.extend(_numpy_file(path))
        elif path.suffix == ".safetensors" and path.name != "inputs.safetensors":
            names.extend(TensorFile(path).keys())
    if not names:
        raise UsageError(f"{folder} holds neither a recording nor .npy, .npz or .safetensors files")
    # Which of them are outputs nobody says: whoever hands over arrays wants each of them compared.
    sites = tuple(Site(name, name, role="output") for name in names)
    side = SideInfo(folder.name, "recording", f"recording:{folder}", format="tensor files", sites=len(sites))
    return Recording(
        folder, side, sites, {}, (), "intermediates", InputsInfo(1, str(folder), False), (folder,)
    )


def _numpy_file(path: Path) -> dict[str, np.ndarray]:
    try:
        if path.suffix == ".npy":
            return {path.stem: np.load(path, mmap_mode="c", allow_pickle=False)}
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise UsageError(f"{path} is not a readable array file: {error}") from None
    return {}


def read_name_map(path: str | Path) -> dict[str, str]:
    """A JSON object or TOML table, or lines `ours = theirs`: tensor names of the first side to the second's."""
    import tomllib

    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        table = (
            json.loads(text)
            if path.suffix == ".json"
            else tomllib.loads(text)
            if path.suffix == ".toml"
            else None
        )
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a readable name map: {error}") from None
    if table is None:
        pairs = [
            line.partition("=") for line in text.splitlines() if line.strip() and not line.startswith("#")
        ]
        table = {a.strip(): b.strip() for a, equals, b in pairs if equals}
    if not isinstance(table, dict) or not table or not all(isinstance(v, str) for v in table.values()):
        raise UsageError(
            f"{path}: a name map has one text per name", hint='{"network tensor": "twin tensor"}'
        )
    return table


def compare(
    first: str | Path,
    second: str | Path,
    *,
    network: Any = None,
    names: Mapping[str, str] | str | Path | None = None,
    out: str | Path | None = None,
    command: str = "",
    **options: Any,
) -> Result:
    """Compare two recordings; `first` is the reference. With `network` its layers judge every site by the born test.

    Without it only the recorded numbers are known: outputs are judged by the size of their difference, or by the
    tolerances given (`rtol`, `atol`, ... as in `check`).
    """
    from twinnet.check import CheckOptions, run_judgement
    from twinnet.engines.recording import RecordedSession, recorded_feed, recorded_network
    from twinnet.judge.judgement import Judgement

    if isinstance(names, str | Path):
        names = read_name_map(names)
    settings = CheckOptions(names=names, **options)
    ours, theirs = load_recording(first), load_recording(second)
    if len(ours.samples) != len(theirs.samples):
        raise UsageError(
            f"{first} has {len(ours.samples)} samples, {second} has {len(theirs.samples)}",
            hint="record both on the same inputs",
        )
    _same_inputs(ours, theirs)
    loaded, graph = recorded_network(ours, network)
    sides = RecordedSession(ours, graph=graph, names=names), RecordedSession(theirs, names=names, second=True)
    judgement = Judgement(loaded, recorded_feed(ours), sides[0], sides[1], settings)
    return run_judgement(judgement, settings, Path(out) if out is not None else None, command)


def _same_inputs(ours: Recording, theirs: Recording) -> None:
    """Refuse recordings of different data; the same data prepared otherwise is a finding."""
    from twinnet.judge.inputs import input_cause, inputs_differ

    for index in range(len(ours.samples)):
        a, b = ours.sample(index), theirs.sample(index)
        mine, yours = list(a.values()), list(b.values())
        if len(mine) != len(yours):
            continue
        for name, x, y in zip(a, mine, yours, strict=True):
            if not inputs_differ(x, y):
                continue
            cause, reason = input_cause(name, x, y)
            if cause is None and "same picture" not in reason:
                raise UsageError(
                    f"sample {index}: input {name} is not the same in both recordings",
                    hint="record both sides on the same inputs (the same --inputs, --shape and --seed)",
                )
