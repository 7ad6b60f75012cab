"""Run the demo and show it on one screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from twinnet.result import Result, ResultSet

__all__ = ["run_demo"]

NETWORK = "twinnet.demo.network:build"
UPSCALER = "twinnet.demo.upscaler:build"
TWINS = ("onnxruntime", "onnxruntime?opt=off", "torch?dtype=float64")


def run_demo(out: Path, progress: Callable[[str, float | None], None]) -> tuple[str, int]:
    """Check the demo network against its twins and against a faulty one; returns the screen and an exit code."""
    from twinnet.check import check
    from twinnet.demo.fault import plant_padding_fault
    from twinnet.inputs import load_inputs
    from twinnet.lut.native import find_library
    from twinnet.network import load_network

    network = load_network(NETWORK)
    progress("checking the network against its twins", None)
    healthy = check(NETWORK, twin=",".join(TWINS), out=out / "healthy", progress=progress)
    progress("planting a fault", None)
    sample = load_inputs(network.signature).samples[0]
    file = out / "faulty.onnx"
    planted = plant_padding_fault(network, sample, file)
    faulty = check(NETWORK, twin=f"onnxruntime:{file}", out=out / "faulty", progress=progress)
    progress("upscaling a picture by its tables", None)
    second = (
        "lut-native" if find_library() is not None else "lut?executor=numpy"
    )  # where no compiler was found
    tables = check(UPSCALER, twin=f"lut,{second}", out=out / "tables", progress=progress)
    assert isinstance(healthy, ResultSet)
    assert isinstance(faulty, Result)
    assert isinstance(tables, ResultSet)
    first = faulty.findings[0] if faulty.findings else None
    cause = first.cause if first is not None and first.site.module.startswith(planted) else None
    found = cause is not None and cause.kind == "padding"
    lines = [
        "1. The network against its twins",
        *_twins(healthy),
        "",
        f"2. A twin in which {planted} pads (0,2) where the network pads (1,1)",
        *_indented(repr(faulty)),
        "   Found where it was planted, and named."
        if found
        else "   NOT found where it was planted, or not named.",
        "",
        "3. A picture upscaled by the tables of a network",
        *_twins(tables),
        f"   {_upscale(out)}",
        "",
        f"reports  {out}/healthy, {out}/faulty, {out}/tables",
    ]
    good = found and healthy.verdict == "PASS" and tables.verdict == "PASS"
    return "\n".join(lines), 0 if good else 1


def _upscale(out: Path) -> str:
    """Write a sample picture and the same twice as large, by the native engine."""
    import time

    import numpy as np
    from PIL import Image

    from twinnet import lut
    from twinnet.demo.upscaler import build
    from twinnet.inputs import synthesise
    from twinnet.signature import Signature, TensorSpec

    net, _ = build()
    path = lut.save(lut.export(net), out / "upscaler.lut.safetensors")
    spec = Signature((TensorSpec("image", "float32", (1, 3, 180, 320)),))
    image = np.rint(synthesise(spec, seed=1)["image"][0].transpose(1, 2, 0) * 255).astype(np.uint8)
    model = lut.load(path)
    model(image)
    start = time.perf_counter()
    large = model(image)
    seconds = time.perf_counter() - start
    Image.fromarray(image).save(out / "sample.png")
    Image.fromarray(large).save(out / "upscaled.png")
    size = f"{image.shape[1]}x{image.shape[0]} to {large.shape[1]}x{large.shape[0]}"
    return f"{size} in {1000 * seconds:.1f} ms ({model.executor.name} engine): {out}/upscaled.png"


def _twins(results: ResultSet) -> list[str]:
    rows = []
    for one in results:
        ratios = [p.ratio for p in one.pairs if p.ratio is not None]
        worst = f"worst born error {max(ratios):.2f} x its noise floor" if ratios else one.error
        if one.judged_by == "tables" and one.verdict == "PASS":
            worst = "each holds exactly what the tables give"
        rows.append(f"   {one.verdict:<6} {one.twin.spec:<28} {one.coverage.paired:>3} sites paired, {worst}")
    return rows


def _indented(text: str) -> list[str]:
    return [f"   {line}".rstrip() for line in text.splitlines()]
