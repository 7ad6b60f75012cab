"""Results as checks of real networks leave them, for the tests of every way of showing them."""

from __future__ import annotations

import math

import numpy as np

from twinnet.result import (
    Cause,
    Coverage,
    Difference,
    Finding,
    Guard,
    InputsInfo,
    PairResult,
    Result,
    ResultSet,
    SideInfo,
    TaskMetric,
    said,
)
from twinnet.site import Site

HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\n=cmd|' /C calc'!A0"

NETWORK = SideInfo("detector.build", "torch", "torch", "2.13.0", "PyTorch", 3_760_000, "", 321)
TWIN = SideInfo("onnxruntime", "onnxruntime", "onnxruntime", "1.31.1", "ONNX", None, "CPU", 318)
INPUTS = InputsInfo(12, "photos/", False, {"image": "1x3x360x640"}, "RGB [0,1]", "12 real images")
ENVIRONMENT = {
    "python": "3.11.7",
    "torch": "2.13.0",
    "onnxruntime": "1.31.1",
    "os": "Linux 6.1 x86_64",
    "cpu": "2 cores",
}
OPS = ("Conv2d", "BatchNorm2d", "SiLU", "Conv2d", "Sigmoid", "Mul", "Add")


def pairs(
    number: int = 318, culprit: int | None = 170, untested: int = 0, seed: int = 0
) -> tuple[PairResult, ...]:
    """`number` pairs along a network; from `culprit` on they differ, but only that one creates it."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(number):
        op = OPS[i % len(OPS)]
        block = i // len(OPS)
        site = Site(
            f"{op.lower()}_{i}",
            f"{op.lower()}_{i}",
            op,
            f"features.{block // 6}.block.{block % 6}.{i % len(OPS)}",
            source=f"model.py:{20 + i % 90}",
            role="output" if i == number - 1 else "inner",
            shape=(1, 16, 45, 80),
            dtype="float32",
        )
        twin = Site(
            f"/features.{block // 6}/{op}_{i}_output_0",
            f"/features.{block // 6}/{op}_{i}",
            op,
            dtype="float32",
        )
        ratio = float(rng.lognormal(-1.2, 0.6))
        floor = float(rng.uniform(0.5, 4)) * 1e-6
        status, reason = "pass", None
        if i == culprit:
            ratio, status, reason = 9412.0, "fail", said("born error exceeds its budget")
        elif i < untested:
            status, reason = "untested", said("the tensor is constant")
        inherited = culprit is not None and i >= culprit
        size = 2.1e-2 * math.exp(-0.002 * (i - (culprit or 0))) if inherited else ratio * floor
        found.append(
            PairResult(
                site,
                twin,
                status,
                order=i,
                born=ratio * floor,
                floor=floor,
                ratio=min(ratio, 3.9) if status != "fail" else ratio,
                reason=reason,
                segment=(site.tensor,),
                difference=Difference(
                    elements=57_600,
                    max_abs=size,
                    mean_abs=size / 9,
                    relative=size / 6.2,
                    mse=(size / 7) ** 2,
                    snr=-20 * math.log10(size / 3),
                    psnr=-20 * math.log10(size / 6.2),
                    cosine=1 - size**2,
                    ulp=int(size / 1e-7),
                    differing=41_000,
                    channel=3,
                    channel_max_abs=size,
                    index=(0, 3, 11, 42),
                    value_reference=1.25,
                    value_twin=1.25 + size,
                    range_reference=(-2.9, 3.3),
                    hull=((0.0, size / 2), (3.3, size)),
                ),
            )
        )
    return tuple(found)


def coverage(paired: int = 318, sites: int = 321) -> Coverage:
    missing = ("head.0.bn", "head.1.bn", "head.anchor_grid")[: sites - paired]
    return Coverage(sites, paired, paired + 1, paired, missing, ("/head/Constant_3_output_0",))


def finding(
    pair: PairResult, cause: Cause | None = None, share: float | None = 0.98, inherited: int = 76
) -> Finding:
    assert pair.born is not None and pair.floor is not None and pair.ratio is not None
    return Finding(
        pair.site,
        pair.twin_site,
        pair.difference.max_abs,
        pair.floor,
        pair.ratio,
        pair.born,
        None,
        share,
        cause,
        pair.segment,
        inherited,
    )


PADDING = Cause(
    "padding",
    said(
        'the twin pads (1,1) where the network pads (1,2): TF "SAME" exported as symmetric',
        network=(1, 2),
        twin=(1, 1),
    ),
    0.99993,
)


def output(pair: PairResult, ratio: float, size: float, status: str = "pass") -> PairResult:
    from dataclasses import replace

    difference = replace(pair.difference, max_abs=size)
    return replace(pair, ratio=ratio, status=status, difference=difference)  # type: ignore[arg-type]


def passing() -> Result:
    found = pairs(culprit=None)
    return Result(
        "PASS",
        NETWORK,
        TWIN,
        INPUTS,
        coverage(),
        outputs=(output(found[-1], 0.42, 3.1e-7),),
        pairs=found,
        timings={"export": 4.21, "network": 0.8, "twin": 0.3, "judge": 1.9, "total": 7.4},
        environment=ENVIRONMENT,
        command="twinnet check detector.py:build --twin onnxruntime --inputs photos/",
        folder="runs/detector-onnxruntime",
    )


def failing(number: int = 318) -> Result:
    """The design's own example: one padding fault in the middle."""
    at = number * 170 // 318
    found = pairs(number, at)
    return Result(
        "FAIL",
        NETWORK,
        TWIN,
        INPUTS,
        coverage(number, number + 3),
        guards=(Guard("training mode", said("the network was in training mode and was set to eval")),),
        outputs=(output(found[-1], 9412.0, 2.1e-2, "fail"),),
        pairs=found,
        failing=number - at,
        first_failing=found[at].site,
        findings=(finding(found[at], PADDING, inherited=number - at - 1),),
        contributors=(finding(found[3], None, 0.01, 0), finding(found[9], None, None, 0)),
        metrics=(TaskMetric("mAP50", 0.4127, 0.3388, 0.912),),
        timings={"export": 4.21, "network": 0.8, "twin": 0.3, "judge": 1.9, "total": 7.4},
        environment=ENVIRONMENT,
        command="twinnet check detector.py:build --twin onnxruntime --inputs photos/",
        folder="runs/detector-onnxruntime",
    )


def inner() -> Result:
    """Five inner faults that the output does not show; two of them without a known cause."""
    found = pairs(culprit=None)
    faulty = [finding(output(found[i], 40.0 * i, 1e-4, "fail"), None, None, 3) for i in (20, 44, 60, 90, 120)]
    return Result(
        "FAIL",
        NETWORK,
        TWIN,
        INPUTS,
        coverage(),
        outputs=(output(found[-1], 0.9, 4.4e-7),),
        pairs=found,
        failing=5,
        first_failing=found[20].site,
        findings=tuple(faulty),
        folder="runs/detector onnxruntime",
    )


def error() -> Result:
    log = "\n".join(f"[info] step {i}" for i in range(20)) + "\n[error] Unsupported data type: bfloat16\n"
    return Result(
        "ERROR",
        NETWORK,
        TWIN,
        INPUTS,
        error="NOT_IMPLEMENTED: Could not find an implementation for Gelu(20) node with name "
        "'/blocks.0/act/Gelu'\nin the execution provider CPUExecutionProvider",
        stage="load",
        log=log,
        environment=ENVIRONMENT,
        command="twinnet check vit.py:build --twin onnxruntime",
        folder="runs/vit-onnxruntime",
    )


def weak() -> Result:
    found = pairs(40, None, untested=35)
    return Result(
        "PASS",
        NETWORK,
        TWIN,
        InputsInfo(1, "synthetic", True, {"x": "1x3x64x64", "mask": "1x64"}),
        coverage(40, 40),
        guards=(
            Guard("degenerate data", said("35 of 40 compared tensors are constant on this data"), True),
            Guard(
                "null baseline",
                said("a different input moves the output by 2.0e-9 only: agreement proves nothing"),
                True,
            ),
        ),
        evidence="weak",
        outputs=(output(found[-1], 0.1, 1e-9),),
        pairs=found,
        folder="runs/detector-onnxruntime",
    )


def several() -> ResultSet:
    from dataclasses import replace

    basic = SideInfo("onnxruntime", "onnxruntime", "onnxruntime?opt=off", "1.31.1", "ONNX", None, "CPU", 318)
    vino = SideInfo("openvino", "openvino", "openvino?device=CPU&precision=f32", "2026.4", "IR", None, "", 0)
    return ResultSet(
        (
            replace(passing(), twin=basic, folder="runs/detector/onnxruntime-opt-off"),
            failing(),
            replace(error(), twin=vino, folder="runs/detector/openvino"),
        )
    )


def hostile() -> Result:
    """Every text that comes from a network, a file or an engine tries to break out."""
    from dataclasses import replace

    base = failing(12)
    at = base.pairs[6]
    site = Site(HOSTILE, HOSTILE, HOSTILE, HOSTILE, source=HOSTILE)
    bad = replace(at, site=site, twin_site=site, reason=said(HOSTILE), segment=(HOSTILE,))
    return replace(
        base,
        network=SideInfo(HOSTILE, HOSTILE, HOSTILE),
        inputs=InputsInfo(1, HOSTILE, False, {HOSTILE: HOSTILE}),
        coverage=Coverage(2, 1, 2, 1, (HOSTILE,), (HOSTILE,), said(HOSTILE)),
        guards=(Guard("note", said(HOSTILE), True),),
        pairs=(*base.pairs[:6], bad, *base.pairs[7:]),
        first_failing=site,
        findings=(finding(bad, Cause("padding", said(HOSTILE, network=HOSTILE, twin=HOSTILE), 1.0)),),
        metrics=(TaskMetric(HOSTILE, 1.0, 2.0),),
        environment={HOSTILE: HOSTILE},
        command=HOSTILE,
        log=HOSTILE,
    )


def tensors() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The tensors of the failing example's culprit and of its output: a padded border gone wrong."""
    rng = np.random.default_rng(3)
    y, x = np.mgrid[0:45, 0:80]
    reference = np.stack([np.sin(x / (3 + c)) * np.cos(y / (5 + c)) for c in range(16)])[None].astype(
        np.float32
    )
    reference += rng.normal(0, 0.05, reference.shape).astype(np.float32)
    twin = reference.copy()
    twin[:, 3, :, -2:] += 2.1e-2
    twin[:, 3:6, -1, :] -= 1.1e-2
    twin += rng.normal(0, 1e-6, twin.shape).astype(np.float32)
    bump = np.exp(-((x - 60) ** 2 + (y - 20) ** 2) / 300)
    spread = twin + (rng.normal(0, 4e-3, twin.shape) * bump).astype(np.float32)
    return {
        failing().findings[0].site.tensor: (reference, twin),
        failing().pairs[-1].site.tensor: (reference, spread),
    }
