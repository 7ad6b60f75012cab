"""Is a fault in conversion or in execution? The same cut is run in simpler ways: in float, without optimisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from twinnet.engines import Spec, find_engine
from twinnet.errors import UsageError
from twinnet.result import Fault, Result, Rung, Verdict

__all__ = ["tell_fault"]

_RUNNING = ("load", "run", "start")


def tell_fault(rung: Rung, twin: Spec, run: Callable[[Spec], Result]) -> Fault:
    """Where the fault of a bad rung is; `run` checks the same cut under another twin."""
    if rung.verdict == "ERROR":
        running = rung.stage.startswith(_RUNNING)
        doing = "it is converted, but does not run" if running else "it cannot be converted"
        return Fault("execution" if running else "conversion", f"{doing} (stage '{rung.stage}')")
    tried: list[tuple[str, Verdict]] = []
    for spec, kind, passes in _calmer(twin):
        try:
            verdict = run(spec).verdict
        except UsageError:  # an engine that is not installed
            continue
        tried.append((str(spec), verdict))
        if verdict == "PASS":
            return Fault(kind, passes, tuple(tried))  # pyright: ignore[reportArgumentType]
    failed = [spec for spec, verdict in tried if verdict == "FAIL"]
    if failed:
        return Fault("conversion", f"it is wrong under {' and '.join(failed)} too", tuple(tried))
    return Fault("unknown", f"{twin.engine} has no simpler way to run it", tuple(tried))


def _calmer(twin: Spec) -> Iterator[tuple[Spec, str, str]]:
    """Other specs of the same network: what their PASS means, and its sentence."""
    engine = find_engine(twin.engine)
    making = ("quantize", "precision", "dtype", *engine.making)
    narrow = [key for key in twin.options if key in making]
    plain = {k: v for k, v in twin.options.items() if k not in making and k not in _QUANTISING}
    if narrow:
        spec = replace(twin, options=plain)
        yield spec, "quantisation", f"it is right in float ({spec}): the fault comes with {', '.join(narrow)}"
    for options in engine.calmer:
        if options.items() <= twin.options.items():
            continue
        spec = replace(twin, options={**twin.options, **options})
        yield spec, "execution", f"the same network is right under {spec}: the fault is in how it is executed"
    spec = Spec("onnxruntime", {"opt": "off"})
    if engine.takes == "onnx" and twin.engine != spec.engine:
        words = f"the ONNX file is right under {spec}: the fault is in {twin.engine}"
        yield spec, "execution", words


_QUANTISING = ("per_channel", "activations", "weights", "calibrate", "reduce_range")
"""Options that have no effect without those that make a twin narrow."""
