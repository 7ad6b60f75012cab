"""Run the demo and put it on one screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from twinnet.result import Result, ResultSet

__all__ = ["run_demo"]

NETWORK = "twinnet.demo.network:build"
TWINS = ("onnxruntime", "onnxruntime?opt=off", "torch?dtype=float64")


def run_demo(out: Path, progress: Callable[[str, float | None], None]) -> tuple[str, int]:
    """Check the demo network against its twins and against a faulty one; returns the screen and an exit code."""
    from twinnet.check import check
    from twinnet.demo.fault import plant_padding_fault
    from twinnet.inputs import load_inputs
    from twinnet.network import load_network

    network = load_network(NETWORK)
    progress("checking the network against its twins", None)
    healthy = check(NETWORK, twin=",".join(TWINS), out=out / "healthy", progress=progress)
    progress("planting a fault", None)
    sample = load_inputs(network.signature).samples[0]
    file = out / "faulty.onnx"
    planted = plant_padding_fault(network, sample, file)
    faulty = check(NETWORK, twin=f"onnxruntime:{file}", out=out / "faulty", progress=progress)
    assert isinstance(healthy, ResultSet)
    assert isinstance(faulty, Result)
    found = bool(faulty.findings) and faulty.findings[0].site.module.startswith(planted)
    lines = [
        "1. The network against its twins",
        *_twins(healthy),
        "",
        f"2. A twin in which {planted} pads (0,2) where the network pads (1,1)",
        *_indented(repr(faulty)),
        "",
        "The fault was found where it was planted." if found else "The fault was NOT found where it was planted.",
        f"reports  {out}/healthy, {out}/faulty",
    ]
    return "\n".join(lines), 0 if found and healthy.verdict == "PASS" else 1


def _twins(results: ResultSet) -> list[str]:
    rows = []
    for one in results:
        ratios = [p.ratio for p in one.pairs if p.ratio is not None]
        worst = f"worst born error {max(ratios):.2f} x its noise floor" if ratios else one.error
        rows.append(f"   {one.verdict:<6} {one.twin.spec:<28} {one.coverage.paired:>3} sites paired, {worst}")
    return rows


def _indented(text: str) -> list[str]:
    return [f"   {line}".rstrip() for line in text.splitlines()]
