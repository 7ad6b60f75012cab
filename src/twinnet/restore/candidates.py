"""The candidates of an evaluation: no restoration, the network, its tables, and models of other projects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinnet.errors import UsageError
from twinnet.restore.experiment import Experiment
from twinnet.restore.tasks import Image, Task, pixels

__all__ = ["TABLES", "Candidate", "candidates", "compared", "tables_candidate", "unable"]

TABLES = {
    "exported": "tables",
    "compressed": "compressed tables",
    "finetuned": "fine-tuned tables",
    "finetuned-compressed": "fine-tuned compressed tables",
    "fitted": "fitted tables",
    "finetuned-fitted": "fine-tuned fitted tables",
}
"""Kinds of tables an experiment can hold, and what they are called."""


@dataclass(frozen=True)
class Candidate:
    """Something that restores images: its name, what it does to a bad image, and what it costs."""

    name: str
    restore: Callable[[Image], np.ndarray]
    bytes: int | None = None
    """On disk; of a network that has no file of its own, of its parameters."""
    lookups: int | None = None
    """Of tables: per input pixel and plane."""
    parameters: int | None = None
    """Of networks."""
    unit: bool = False
    """Whether the running times of all others are divided by its own."""
    why_not: str = ""
    """Why it cannot run; empty if it can."""


def unable(name: str, why: str) -> Candidate:
    """A candidate that cannot run here; it stays in the results with the reason.

    >>> unable("IMDN", "onnxruntime is not installed").why_not
    'onnxruntime is not installed'
    """
    return Candidate(name, pixels, why_not=why)


def candidates(experiment: Experiment, task: Task, *, network: bool = True) -> Iterator[Candidate]:
    """The baselines without a network, then everything the experiment has made so far."""
    from twinnet.restore.filters import classical

    yield Candidate(task.plain_name, task.plain)
    yield from classical(task)
    if network and any((experiment.folder / "checkpoints").glob("iter_*.pt")):
        yield network_candidate(experiment)
    for kind, name in TABLES.items():
        if experiment.tables(kind).is_file():
            yield tables_candidate(experiment.tables(kind), name, task)


def network_candidate(experiment: Experiment) -> Candidate:
    """The network of the chosen checkpoint."""
    from functools import partial

    from twinnet.restore.checkpoints import trained_network
    from twinnet.restore.predict import predict

    net, found = trained_network(experiment)
    count = sum(p.numel() for p in net.parameters())
    size = sum(p.numel() * p.element_size() for p in net.parameters())
    name = f"network, iteration {found.iteration}"
    return Candidate(name, partial(predict, net), size, parameters=count)


def tables_candidate(path: Path, name: str, task: Task) -> Candidate:
    """Tables of ours or published ones, run as they deploy, on one thread."""
    from twinnet.lut.describe import lookups
    from twinnet.lut.model import load

    model = load(path, threads=1)
    if model.scale != task.scale:
        raise UsageError(f"{path} enlarges x{model.scale}, but this experiment x{task.scale}")
    files = [path] if path.is_file() else [p for p in path.iterdir() if p.suffix == ".npy"]
    size = sum(file.stat().st_size for file in files)
    return Candidate(name, lambda low: model(pixels(low)), size, lookups(model.plan))


def compared(spec: str, task: Task) -> Candidate:
    """A file named with `--compare`: tables, an ONNX model or a TensorFlow graph for OpenCV."""
    from twinnet.restore.peers import open_peer

    path = Path(spec.partition("?")[0])
    if not path.exists():
        raise UsageError(f"--compare: no such file or folder: {path}")
    name = path.name.removesuffix(".lut.safetensors").removesuffix(".safetensors")
    if path.is_dir() or path.name.endswith((".safetensors", ".npy")):
        return tables_candidate(path, name, task)
    if path.suffix in (".onnx", ".pb"):
        return open_peer(spec, task)
    raise UsageError(
        f"--compare: {path} is not a model that can be compared",
        hint="tables (.safetensors, .npy, a folder), .onnx or .pb",
    )
