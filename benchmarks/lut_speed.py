"""How fast tables run: ours against reference-style numpy and Pillow's bicubic resize, in one run.

Frame 320x180 RGB to 1280x720, CPU time of the process; thread scaling in wall time, since CPU time cannot
show it. Clocks of shared machines change from second to second, so every promise is a ratio of two things
timed back to back, round after round, and its median is reported. Tables and the natural frame come from
FOLDER (or TWINNET_DATA); without it, random tables and a synthetic frame are used and said so.
"""

from __future__ import annotations

import functools
import io
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise, permutations, product
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.bar import Bar
from twinnet.lut.dfc import compress
from twinnet.lut.executors import NUMPY_SLOWER
from twinnet.lut.executors.native import NativeExecutor
from twinnet.lut.executors.numpy_path import NumpyExecutor
from twinnet.lut.file import read
from twinnet.lut.plan import INPUT, Plan, Plane, Requant, Sample, Stage, Table, Term
from twinnet.lut.png import FAST, write_png
from twinnet.lut.reference import run_reference

__all__ = [
    "Stopwatch",
    "Timing",
    "bars",
    "frames",
    "measure",
    "reference_style",
    "variants",
]

ROWS, COLUMNS, SCALE = 180, 320, 4
PATTERNS = {
    "s": ((0, 0), (0, 1), (1, 0), (1, 1)),
    "d": ((0, 0), (0, 2), (2, 0), (2, 2)),
    "y": ((0, 0), (1, 1), (1, 2), (2, 1)),
}


@dataclass(frozen=True)
class Timing:
    """The least CPU and wall milliseconds of a variant."""

    name: str
    cpu_ms: float
    wall_ms: float


# --- the reference style: all 16 corners gathered, 24 masks


def _case_masks(fracs: list[np.ndarray]) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """A mask for each order of four fractions; ties go to the earlier axis, so masks do not overlap."""
    above = {
        (i, j): fracs[i] >= fracs[j] if i < j else fracs[i] > fracs[j] for i, j in permutations(range(4), 2)
    }
    cases = []
    for order in permutations(range(4)):
        mask = above[order[0], order[1]]
        for i, j in pairwise(order[1:]):
            mask = np.logical_and(mask, above[i, j])
        cases.append((order, mask))
    return cases


def _interpolate(table: np.ndarray, taps: list[np.ndarray], q: int, nodes: int) -> np.ndarray:
    """One rotation the way published testers do it: [sites, payload] in units of the table."""
    bins = [tap // q for tap in taps]
    fracs = [(tap % q).reshape(-1, 1) for tap in taps]
    strides = [nodes**3, nodes**2, nodes, 1]
    corners = {}
    for corner in product((0, 1), repeat=4):
        at = sum((b + up) * stride for b, up, stride in zip(bins, corner, strides))
        corners[corner] = table[at.reshape(-1)].astype(np.float32)
    out = np.zeros((taps[0].size, table.shape[1]), np.float32)
    for order, mask in _case_masks([f[:, 0] for f in fracs]):
        corner = [0, 0, 0, 0]
        before: np.ndarray | int = q
        total: np.ndarray | float = 0.0
        for axis in order:
            frac = fracs[axis][mask]
            total = total + (before - frac) * corners[tuple(corner)][mask]
            before = frac
            corner[axis] = 1
        out[mask] = total + before * corners[tuple(corner)][mask]
    return out / q


def _stage(plane: np.ndarray, tables: dict[str, np.ndarray], upscale: int, mode: str) -> np.ndarray:
    """Sum over patterns and rotations: rotate, pad right and bottom, look up, shuffle, rotate back."""
    total = 0.0
    for name, table in tables.items():
        offsets = PATTERNS[name]
        pad = max(max(offset) for offset in offsets)
        for r in range(4):
            turned = np.pad(np.rot90(plane, r), ((0, pad), (0, pad)), mode=mode)  # type: ignore[call-overload]
            rows, columns = turned.shape[0] - pad, turned.shape[1] - pad
            taps = [turned[dy : dy + rows, dx : dx + columns].astype(np.int64) for dy, dx in offsets]
            found = _interpolate(table, taps, 16, 17).reshape(rows, columns, upscale, upscale)
            image = found.transpose(0, 2, 1, 3).reshape(rows * upscale, columns * upscale)
            total = total + np.rot90(image, 4 - r)
    return np.asarray(total)


def reference_style(stages: list[dict[str, np.ndarray]], rgb: np.ndarray, mode: str) -> np.ndarray:
    """A network in the reference style: SR-LUT is one stage of one pattern, MuLUT two of three."""
    out = []
    for c in range(3):
        plane = rgb[..., c]
        for number, tables in enumerate(stages):
            last = number == len(stages) - 1
            total = _stage(plane, tables, SCALE if last else 1, mode)
            value = total / len(tables) if last else total / (4 * len(tables)) + 127
            plane = np.rint(np.clip(value, 0, 255)).astype(np.uint8)
        out.append(plane)
    return np.stack(out, axis=-1)


# --- the same networks as plans, and the larger ones


def _plan(stages: list[dict[str, np.ndarray]], padding: str) -> Plan:
    tables, built, source = {}, [], INPUT
    for number, patterns in enumerate(stages, start=1):
        last = number == len(stages)
        terms = []
        for name, values in patterns.items():
            tables[f"s{number}_{name}"] = Table(values, 4, 17, 16)
            sample = Sample((Plane(source),), PATTERNS[name], padding)  # type: ignore[arg-type]
            terms.append(Term(sample, f"s{number}_{name}", branch=name))
        steps = (("div", len(patterns)),) if last else (("div", 4 * len(patterns)), ("add", 127))
        requant = Requant("direct" if last else "centred", (*steps, ("clip", 0, 255), ("round",)))
        source = f"stage{number}"
        built.append(Stage(source, tuple(terms), requant, upscale=SCALE if last else 1))
    return Plan.build(built, tables)


def _larger_plans() -> dict[str, Plan]:
    """SPF-LUT with DFC, AutoLUT on both, a cascade: untrained, since only sizes matter here."""
    import torch

    from twinnet.lut import export, lower
    from twinnet.restore.nets import auto, mulut, spf

    torch.manual_seed(0)
    torch.set_num_threads(1)
    quick = {"width": 4}
    plans = {
        "SPF-LUT sdy + DFC": compress(lower(export(spf.build("sdy", scale=SCALE, **quick)))),
        "AutoLUT-MuLUT 3 branches, window 3": lower(export(auto.build_mulut(3, scale=SCALE, **quick))),
        "AutoLUT-SPF 1 branch, window 5, DFC": compress(
            lower(export(auto.build_spf(1, scale=SCALE, **quick)))
        ),
    }
    cascade = mulut.cascade(
        [
            mulut.StageSpec(["P1", "P2", "P3"], upscale=2),
            mulut.StageSpec(["Q1", "Q2", "Q3"], upscale=4, cell=2),
        ],
        **quick,
    )
    plans["cascade P1-P3 x2, Q1-Q3 x4"] = lower(export(cascade))
    return plans


def _shipped_plans() -> dict[str, Plan]:
    """The tables of this package that enlarge four times."""
    import twinnet.models

    folder = Path(twinnet.models.__file__).parent
    names = [f"sr-x4-{kind}" for kind in ("fast", "strong", "best")]
    return {name: read(folder / name / f"{name}.lut.safetensors").plan for name in names}


def frames(
    data: Path | None,
) -> tuple[np.ndarray, np.ndarray, list[dict[str, np.ndarray]], list[dict[str, np.ndarray]]]:
    """Natural frame, white noise, SR-LUT's and MuLUT's tables by stage and pattern."""
    rng = np.random.default_rng(7)
    noise = rng.integers(0, 256, (ROWS, COLUMNS, 3), np.uint8)
    if data is None:
        y, x = np.mgrid[:ROWS, :COLUMNS]
        waves = [
            128 + 90 * np.sin(x / (9 + c)) * np.cos(y / 13) + rng.normal(0, 3, y.shape) for c in range(3)
        ]
        natural = np.stack(waves, axis=-1).clip(0, 255).astype(np.uint8)
        draw = lambda n: rng.integers(-127, 128, (17**4, n)).astype(np.int8)  # noqa: E731
        return natural, noise, [{"s": draw(16)}], [{m: draw(1) for m in "sdy"}, {m: draw(16) for m in "sdy"}]
    image = np.asarray(Image.open(data / "lut-data/DIV2K_sample/0001x4.png").convert("RGB"))
    natural = np.ascontiguousarray(image[:ROWS, :COLUMNS])
    srlut = [{"s": np.load(data / "lut-data/SR-LUT/Model_S_x4_4bit_int8.npy").reshape(17**4, -1)}]
    folder = data / "lut-data/MuLUT/sr_x2sdy"
    mulut = [
        {m: np.load(folder / f"LUT_ft_x4_4bit_int8_s{stage}_{m}.npy").reshape(17**4, -1) for m in "sdy"}
        for stage in (1, 2)
    ]
    return natural, noise, srlut, mulut


def _image_runner(executor: NativeExecutor, rgb: np.ndarray) -> Callable[[], object]:
    """Interleaved image in, a new interleaved image out, as Pillow does it."""

    def call() -> np.ndarray:
        out = np.empty((ROWS * SCALE, COLUMNS * SCALE, 3), np.uint8)
        executor.run(np.moveaxis(rgb, -1, 0), out=np.moveaxis(out, -1, 0)[:, None])
        return out

    return call


def _png(image: np.ndarray, level: int) -> None:
    write_png(io.BytesIO(), *image.shape, [image], level=level)


# --- measuring


def _clock(call: Callable[[], object], inner: int) -> tuple[float, float]:
    """The least CPU and wall milliseconds of a few calls in a row."""
    best_cpu = best_wall = float("inf")
    for _ in range(inner):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        best_cpu = min(best_cpu, (time.process_time() - cpu) * 1e3)
        best_wall = min(best_wall, (time.perf_counter() - wall) * 1e3)
    return best_cpu, best_wall


class Stopwatch:
    """Times things, remembers the least of each, and compares two of them back to back."""

    def __init__(self, calls: dict[str, Callable[[], object]]) -> None:
        self.calls = calls
        self.best: dict[str, Timing] = {}

    def time(self, name: str, inner: int) -> tuple[float, float]:
        """CPU and wall milliseconds of `name`."""
        cpu, wall = _clock(self.calls[name], inner)
        least = self.best.get(name, Timing(name, cpu, wall))
        self.best[name] = Timing(name, min(cpu, least.cpu_ms), min(wall, least.wall_ms))
        return cpu, wall

    def ratio(self, over: str, under: str, rounds: int, inner: int, wall: bool = False) -> float:
        """Median over rounds of `over` / `under`; `under` is timed before and after `over`."""
        which = 1 if wall else 0
        found = []
        for _ in range(rounds):
            before = self.time(under, inner)[which]
            middle = self.time(over, 1 if "numpy" in over else inner)[which]
            after = self.time(under, inner)[which]
            found.append(middle / ((before + after) / 2))
        return statistics.median(found)


def variants(data: Path | None, larger: bool = True) -> dict[str, Callable[[], object]]:
    """What is timed, by name. Checks first that native and reference style give the same pixels."""
    natural, noise, srlut, mulut = frames(data)
    found: dict[str, Callable[[], object]] = {}
    for name, stages, padding in (("SR-LUT S", srlut, "reflect"), ("MuLUT sdy", mulut, "edge")):
        plan = _plan(stages, padding)
        expected = reference_style(stages, natural, padding)
        for threads in (1, 2):
            executor = NativeExecutor(plan, threads=threads)
            label = f"{name} native {threads} thread{'s' if threads > 1 else ''}"
            found[label] = _image_runner(executor, natural)
            different = int(np.sum(np.asarray(found[label]()) != expected))
            if different:
                raise SystemExit(f"{label}: {different} samples differ from the reference style")
        found[f"{name} native 1 thread, white noise"] = _image_runner(NativeExecutor(plan, threads=1), noise)
        slow = functools.partial(reference_style, stages, natural, padding)
        found[f"{name} reference-style numpy"] = slow
        planar = np.ascontiguousarray(np.moveaxis(natural, -1, 0))
        found[f"{name} our numpy path"] = functools.partial(NumpyExecutor(plan).run, planar)
    for name, plan in _shipped_plans().items():
        corner = np.ascontiguousarray(natural[:24, :70, 1])
        if np.any(NativeExecutor(plan).run(corner[None])[0] != run_reference(plan, corner)):
            raise SystemExit(f"{name}: the native engine differs from the reference")
        for threads in (1, 2):
            label = f"{name} native {threads} thread{'s' if threads > 1 else ''}"
            found[label] = _image_runner(NativeExecutor(plan, threads=threads), natural)
        if name == "sr-x4-strong":
            found[f"{name} our numpy path"] = functools.partial(NumpyExecutor(plan).run, planar)
    result = np.asarray(found["sr-x4-fast native 1 thread"]())
    for level in (FAST, 4):
        found[f"PNG of the result, level {level}"] = functools.partial(_png, result, level)
    size = (COLUMNS * SCALE, ROWS * SCALE)
    found["Pillow bicubic resize"] = functools.partial(
        Image.fromarray(natural).resize, size, Image.Resampling.BICUBIC
    )
    if larger:
        for name, plan in _larger_plans().items():
            found[f"{name} native 1 thread"] = _image_runner(NativeExecutor(plan, threads=1), natural)
    return found


def measure(watch: Stopwatch, repeats: int = 25) -> list[Bar]:
    """The promises, as ratios of this run; also times everything that no promise is about."""
    found = []
    for name in ("SR-LUT S", "MuLUT sdy"):
        one = f"{name} native 1 thread"
        faster = watch.ratio(f"{name} reference-style numpy", one, 3, 4)
        found.append(Bar(f"{name}: times faster than reference-style numpy (CPU)", faster, 250, True))
        noise = watch.ratio(f"{one}, white noise", one, repeats, 4)
        found.append(Bar(f"{name}: white noise against natural frame (CPU)", noise, 1.6, False))
        scaling = 1 / watch.ratio(f"{name} native 2 threads", one, repeats, 4, wall=True)
        found.append(Bar(f"{name}: two threads against one (wall)", scaling, 1.7, True))
    resize = 1 / watch.ratio("Pillow bicubic resize", "SR-LUT S native 1 thread", repeats, 4)
    found.append(Bar("SR-LUT S: against Pillow's bicubic resize (CPU)", resize, 0.6, False))
    # Twice: what one thread takes, and what a user with two processors waits for.
    for name, limit in (("sr-x4-fast", None), ("sr-x4-strong", 1.0), ("sr-x4-best", None)):
        for threads, wall in (("1 thread", False), ("2 threads", True)):
            taken = watch.ratio(
                f"{name} native {threads}", f"MuLUT sdy native {threads}", repeats, 4, wall=wall
            )
            clock = "wall" if wall else "CPU"
            found.append(Bar(f"{name}: time against MuLUT sdy, {threads} ({clock})", taken, limit, False))
    for name in ("sr-x4-fast", "sr-x4-strong"):
        written = watch.ratio(f"PNG of the result, level {FAST}", f"{name} native 1 thread", 5, 2)
        found.append(Bar(f"writing the PNG of {name} against making it (CPU)", written))
    packed = watch.ratio(f"PNG of the result, level {FAST}", "PNG of the result, level 4", 5, 2)
    found.append(Bar("writing a PNG: fast against level 4 (CPU)", packed, 0.7, False))
    slower = watch.ratio("sr-x4-strong our numpy path", "sr-x4-strong native 1 thread", 3, 4)
    note = f"`lut run` states {NUMPY_SLOWER}"
    found.append(Bar("sr-x4-strong: numpy path against native engine (CPU)", slower, None, note=note))
    for name in watch.calls:
        if name not in watch.best:
            watch.time(name, 3)
    return found


def bars() -> list[Bar]:
    """The promises, then the CPU milliseconds of every variant."""
    given = os.environ.get("TWINNET_DATA")
    source = (
        "published tables, a photograph"
        if given
        else "random tables, a synthetic frame (TWINNET_DATA is unset)"
    )
    watch = Stopwatch(variants(Path(given) if given else None, larger=True))
    promised = measure(watch)
    times = [
        Bar(f"{t.name}, CPU ms", t.cpu_ms, note=f"{t.wall_ms:.1f} ms wall")
        for t in (watch.best[name] for name in watch.calls)
    ]
    return [replace(promised[0], note=source), *promised[1:], *times]
