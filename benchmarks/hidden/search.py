"""Wrong twins by search: networks with a random fault as functions that show outputs only; which of them pass?

A mutant counts as wrong if it is more than 100 floors from the network on inputs that the check did not see. A floor is
the network's own rounding there, or one unit of rounding of the output's range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.faults import INJECTORS
from benchmarks.faults.networks import Subject, subjects
from benchmarks.faults.trial import plant
from benchmarks.hidden.attack import Told, checked
from twinnet.errors import TwinnetError
from twinnet.inputs import load_inputs
from twinnet.layers import evaluate
from twinnet.network.arrays import to_tensor

__all__ = ["search"]

_FLOORS = 100.0
_FRESH = 3


def search(mutants: int, seed: int, folder: Path) -> Iterator[Told]:
    """So many mutants that run; each with what was said of it."""
    rng = np.random.default_rng(seed)
    known, names = list(subjects(folder)), list(INJECTORS)
    made = 0
    for _ in range(4 * mutants):
        if made == mutants:
            return
        subject, name = known[rng.integers(len(known))], names[rng.integers(len(names))]
        planted = plant(subject, name, rng)
        if planted is None:
            continue
        told = _tried(subject, f"{name} in {subject.name}", planted[0])
        if told is not None:
            made += 1
            yield told


def _tried(subject: Subject, name: str, model: onnx.ModelProto) -> Told | None:
    """What twinnet says of one mutant; None if it does not run."""
    try:
        twin = _function(model.SerializeToString())
        result = checked(str(subject.path), subject.sample, twin)
    except TwinnetError:
        return None
    except Exception as error:
        if type(error).__module__.startswith("onnxruntime"):
            return None
        raise
    if result.verdict == "ERROR":
        return None
    silent = result.verdict == "PASS" and result.evidence == "strong"
    named = any(guard.fact.code == "exercise.missing" for guard in result.guards)
    floors = _floors(subject, twin) if silent and not named else 0.0
    return Told(
        name, f"{result.verdict} ({result.evidence}), {floors:.3g} floors elsewhere", floors > _FLOORS
    )


def _function(model: bytes) -> Callable[..., Any]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names, outputs = [i.name for i in session.get_inputs()], [o.name for o in session.get_outputs()]

    def run(*given: np.ndarray) -> dict[str, np.ndarray]:
        found = session.run(outputs, dict(zip(names, given, strict=True)))
        return dict(zip(outputs, found, strict=True))

    return run


def _floors(subject: Subject, twin: Callable[..., Any]) -> float:
    """How far the two are apart on fresh inputs, in floors."""
    shapes = {name: array.shape for name, array in subject.sample.items()}
    feed = load_inputs(subject.network.signature, (), shapes=shapes, seed=9000, samples=_FRESH)
    right, graph, most = _function(subject.path.read_bytes()), subject.session.graph(), 0.0
    assert graph is not None
    for sample in feed.samples:
        ours, theirs = right(*sample.values()), twin(*sample.values())
        exact = evaluate(graph, {n: to_tensor(a) for n, a in sample.items()}, keep=list(ours))
        for name, value in ours.items():
            if value.shape != theirs[name].shape:
                return float("inf")
            wide = value.astype(np.float64)
            noise = np.abs(wide - exact[name].numpy()).max(initial=0.0)
            floor = max(float(noise), 2.0**-24 * float(np.abs(wide).max(initial=0.0)), 1e-30)
            most = max(most, float(np.abs(theirs[name] - wide).max(initial=0.0)) / floor)
    return most
