"""Clean pairs: networks and twins without any fault, where every FAIL is a false alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.faults.networks import Subject
from benchmarks.faults.trial import judged, twin_of
from twinnet.engines import parse_spec
from twinnet.errors import EngineError
from twinnet.judge.tolerance import Tolerance
from twinnet.result import Result

__all__ = ["Clean", "clean_pair", "clean_pairs"]

_TWINS = {
    "optimisation off": "onnxruntime?opt=off:{}",
    "optimisation basic": "onnxruntime?opt=basic:{}",
    "optimisation extended": "onnxruntime?opt=extended:{}",
    "optimisation all": "onnxruntime:{}",
    "one thread": "onnxruntime?threads=1:{}",
    "two threads": "onnxruntime?threads=2:{}",
    "OpenVINO": "openvino:{}",
}
_FLOAT16 = Tolerance(snr=30.0)
"""The tolerance stated for float16, whose rounding is 8192 times as coarse."""


@dataclass(frozen=True)
class Clean:
    """One pair. `state` is "agrees", "alarm" or "does not run"."""

    network: str
    what: str
    state: str
    said: str = ""


def clean_pairs(known: Sequence[Subject]) -> Iterator[Clean]:
    """Every network with every kind of twin that it can have."""
    for subject in known:
        for what, pattern in _TWINS.items():
            spec = parse_spec(pattern.format(subject.path))
            yield clean_pair(subject.name, what, lambda s=subject, t=spec: judged(s, t))
        opaque = twin_of(subject.path, "opaque", subject)
        yield clean_pair(subject.name, "a function", lambda s=subject, t=opaque: judged(s, t))
        if subject.module is not None:
            yield clean_pair(
                subject.name, "PyTorch and ONNX Runtime", lambda s=subject: _torch(s, "onnxruntime")
            )
            yield clean_pair(
                subject.name,
                "float16 with a stated tolerance",
                lambda s=subject: _torch(s, "torch?dtype=float16", _FLOAT16),
            )


def _torch(subject: Subject, twin: str, tolerance: Tolerance | None = None) -> Result:
    """The module itself as the network."""
    from twinnet import check

    result = check(subject.module, None, twin, samples=1, keep="none", tolerance=tolerance)
    assert isinstance(result, Result)
    return result


def clean_pair(network: str, what: str, run: Callable[[], Result]) -> Clean:
    """Check one pair and see what it says."""
    try:
        result = run()
    except EngineError as error:
        return Clean(network, what, "does not run", error.what)
    if result.verdict == "ERROR":
        return Clean(network, what, "does not run", result.error)
    if result.verdict == "PASS" and not result.findings:
        return Clean(network, what, "agrees")
    places = ", ".join(f.site.label for f in result.findings[:3])
    return Clean(network, what, "alarm", places or "the output")
