"""Networks on every installed engine: verdict, error over floor, milliseconds, what watching costs.

A network on an engine is one row. The small networks must pass; real ones are reported, since engines do disagree
on some of them (docs/engines.md). Engines are those of the
registry that run an ONNX file by themselves and are installed, and the ways in which ONNX Runtime is quantised.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bar import Bar

__all__ = ["bars", "twins"]

# Seven bits where products are added up in 16: processors without VNNI lose parts of larger ones.
WAYS = ("static&reduce_range=1", "dynamic&reduce_range=1", "weights", "float16")
_REPEATS = 5


def twins() -> tuple[str, ...]:
    """Specs of what is installed here."""
    from twinnet.engines import all_engines
    from twinnet.errors import MissingExtra

    found: list[str] = []
    for engine in all_engines():
        if engine.takes != "onnx" or not engine.file_is_network:  # a toolchain needs its description
            continue
        try:
            engine().version()
        except MissingExtra:
            continue
        found.append(engine.name)
    if "onnxruntime" in found:
        found += [f"onnxruntime?quantize={way}" for way in WAYS]
    return tuple(found)


def networks() -> Iterator[tuple[str, Any, Any]]:
    """Three small networks in PyTorch, and real ones as ONNX files."""
    from tests.models import MODELS, model_path
    from tests.nets import NETS

    for name in ("mbconv", "transformer", "unet"):
        module, args, _ = NETS[name]()
        yield name, module, args
    for name in ("ppocr-cls", "magika"):
        yield name, str(model_path(name)), MODELS[name].inputs()


def bars() -> list[Bar]:
    """The worst error over its floor of each network on each engine; it must stay within the limit."""
    rows: list[Bar] = []
    for name, network, inputs in networks():
        for spec in twins():
            rows.append(_row(name, network, inputs, spec))
    return rows


def _row(name: str, network: Any, inputs: Any, spec: str) -> Bar:
    import twinnet
    from twinnet.result import Result

    found = twinnet.check(network, inputs, spec, keep="none", limits=twinnet.Limits(threads=1))
    assert isinstance(found, Result)
    what = f"{name} on {spec}"
    real = isinstance(network, str)
    if found.verdict == "ERROR":
        return Bar(what, math.inf, None if real else 0.0, note=f"ERROR {found.error.splitlines()[0][:60]}")
    worst = max((p.ratio or 0.0 for p in found.pairs), default=0.0)
    plain, watched = _times(network, inputs, spec)
    note = f"{found.verdict} {plain:.2f} ms, watched {watched / plain:.1f} x, {found.coverage.judged} sites"
    limit = max((p.limit for p in found.pairs), default=4.0)
    return Bar(what, worst, None if real else limit, note=note)


def _times(network: Any, inputs: Any, spec: str) -> tuple[float, float]:
    """Milliseconds of a run as deployed, and of one with every site watched; the best of a few."""
    from twinnet.engines import find_engine, parse_spec
    from twinnet.inputs import load_inputs, python_sample
    from twinnet.job import Job
    from twinnet.network import load_network
    from twinnet.trace import TraceBuilder

    loaded = load_network(network).with_example(python_sample(inputs))
    feed = load_inputs(loaded.signature, inputs)
    sample: dict[str, np.ndarray] = dict(feed.samples[0])
    parsed = parse_spec(spec)
    session = find_engine(parsed.engine).open(loaded, parsed.options, None, Job(sample, threads=1))
    watch = {s.tensor for s in session.sites}

    def best(call: Any) -> float:
        call()
        taken = []
        for _ in range(_REPEATS):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
        return 1000 * min(taken)

    try:
        return best(lambda: session.run(sample)), best(
            lambda: session.trace(sample, watch, TraceBuilder()).close()
        )
    finally:
        session.close()


if __name__ == "__main__":
    from benchmarks.bar import print_bars, write_json

    table = bars()
    print_bars("engines", table)
    write_json(Path("bench-results") / "engines.json", table)
