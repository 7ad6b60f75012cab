"""Networks, trials and clean pairs of lookup tables."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.faults.clean import Clean, clean_pair
from benchmarks.faults.tables.interpreter import Interpreter
from benchmarks.faults.tables.kinds import ENGINE_FAULTS, PLAN_FAULTS, Place, Planted
from benchmarks.faults.trial import FLAT, Outcome
from twinnet import lut
from twinnet.check import check
from twinnet.lut.file import LutFile, write
from twinnet.lut.grid import Grid
from twinnet.lut.plan import Plan
from twinnet.lut.reference import run_reference
from twinnet.restore.nets import auto, mulut, spf, srlut
from twinnet.result import Result

__all__ = ["run_tables"]

_ROWS, _COLUMNS = 30, 34
_TRIES = 12


@dataclass(frozen=True)
class _Net:
    name: str
    plan: Plan
    net: Any
    other: Plan
    """The same network as another training gives it."""
    file: Path
    sample: np.ndarray

    @property
    def planes(self) -> np.ndarray:
        return np.rint(self.sample[0] * 255).astype(np.uint8)


def _trained(net: Any, seed: int) -> Any:
    """Random weights with the statistics of trained ones: entries spread over int8, outputs around grey."""
    from twinnet.lut.exporter import units

    rng = torch.Generator().manual_seed(seed)
    last = net.stage_names[-1]
    with torch.no_grad():
        for name, p in net.named_parameters():
            if name.endswith("logits"):
                p.copy_(2 * torch.randn(p.shape, generator=rng))
            elif name.endswith("residual.weight"):
                p.copy_(torch.rand(p.shape, generator=rng))
            else:
                p.copy_(
                    torch.randn(p.shape, generator=rng) * (0.5 if p.dim() == 1 else 1.4 / p.shape[1] ** 0.5)
                )
        for path, unit in units(net):
            body: Any = unit.body
            seen: list[torch.Tensor] = []
            hook = body.last.register_forward_hook(lambda m, i, o, s=seen: s.append(o))
            body(torch.rand(2048, unit.axes, generator=rng))
            hook.remove()
            scale = 0.3 / seen[0].std(0)
            middle = 0.25 if path.startswith(last) else 0.0
            body.last.bias.sub_(seen[0].mean(0)).mul_(scale).add_(middle)
            body.last.weight.mul_(scale[:, None])
    return net.eval()


_BUILD: dict[str, Callable[[], Any]] = {
    "srlut-s": lambda: srlut.build("S", scale=2, width=8),
    "mulut-sdy": lambda: mulut.build(patterns="sdy", stages=2, scale=2, width=8, grid=Grid.bits(5)),
    "spf": lambda: spf.build(patterns="s", scale=2, width=8, grid=Grid.bits(5)),
    "autolut": lambda: auto.build_mulut(1, stages=2, scale=2, window=3, width=8, grid=Grid.bits(5)),
}


def picture(rng: np.random.Generator) -> np.ndarray:
    """Two smooth planes with edges, flat parts, black and white: what tables meet in practice."""
    y, x = np.mgrid[0:_ROWS, 0:_COLUMNS]
    planes = []
    for _ in range(2):
        a, b, c = rng.uniform(0.1, 0.35, 3)
        plane = 120 + 90 * np.sin(a * y + 2 * c) * np.cos(b * x) + 1.2 * (x - y)
        plane[rng.integers(4, 12) :, rng.integers(4, 12) : rng.integers(16, 24)] += rng.integers(30, 90)
        planes.append(np.clip(np.rint(plane + rng.normal(0, 2, plane.shape)), 0, 255))
    stacked = np.stack(planes)
    stacked[0, 2:6, 20:28] = 255
    return (stacked[None] / 255).astype(np.float32)


def networks(folder: Path, seed: int) -> list[_Net]:
    """The networks with their tables, each as a file too."""
    found = []
    for number, (name, build) in enumerate(_BUILD.items()):
        net, other = (_trained(build(), 100 * seed + number + 50 * k) for k in range(2))
        plan, second = (lut.lower(lut.export(copy.deepcopy(n))) for n in (net, other))
        file = write(LutFile(plan, name=name), folder / f"{name}.lut.safetensors")
        found.append(_Net(name, plan, net, second, file, picture(np.random.default_rng(seed + number))))
    return found


def _place(subject: _Net, rng: np.random.Generator) -> Place:
    stage = int(rng.integers(len(subject.plan.stages)))
    term = int(rng.integers(len(subject.plan.stages[stage].terms)))
    visits: dict[str, np.ndarray] = {}
    for plane in subject.planes:
        run_reference(subject.plan, plane, visits=visits)

    def relast(table: str) -> tuple[np.ndarray, int] | None:
        from twinnet.lut.exporter import tabulate, units

        unit = next(u for path, u in units(subject.net) if path == f"{table}.unit")
        last = 255 if unit.grid.last == 256 else 256
        return tabulate(unit, Grid(unit.grid.step, unit.grid.nodes, last)).values, last

    name = subject.plan.stages[stage].terms[term].table
    return Place(
        subject.plan,
        stage,
        term,
        rng,
        visits[name],
        lambda table: subject.other.tables[table].values,
        relast,
    )


def _foreign(planted: Planted, shown: str) -> Callable[..., dict[str, np.ndarray]]:
    """A function that runs the interpreter; it shows all sites, or only what stages give."""
    made = planted.make(planted.plan)
    stages = {s.name for s in planted.plan.stages}

    def run(image: np.ndarray) -> dict[str, np.ndarray]:
        seen: dict[str, list[np.ndarray]] = {}
        planes = np.rint(image.reshape(-1, *image.shape[2:]) * 255).astype(np.uint8)
        out = [made.run(p, lambda n, a: seen.setdefault(n, []).append(a)) for p in planes]
        last = planted.plan.stages[-1].name
        results = {"output": np.stack(out)}
        for name, arrays in seen.items():
            if name != last and (shown == "all" or name in stages):
                stacked = np.stack(arrays)
                exact = np.issubdtype(stacked.dtype, np.integer)
                results[name] = stacked if exact else stacked / _denominator(planted.plan, name)
        return results

    return run


def _denominator(plan: Plan, name: str) -> int:
    from twinnet.lut.plan import sites

    return next(s.denominator for s in sites(plan) if s.name == name)


def _twin(subject: _Net, planted: Planted, kind: str, folder: Path) -> Any:
    if kind == "file":
        return f"lut:{write(LutFile(planted.plan), folder / 'faulty.lut.safetensors')}"
    if kind == "onnx":
        path = folder / "faulty.onnx"
        lut.to_onnx(planted.plan, path)
        return f"onnxruntime:{path}"
    return _foreign(planted, "stages" if kind == "stages" else "all")


def _recorded(subject: _Net, interpreter: Interpreter) -> dict[str, list[np.ndarray]]:
    """The values of every site, plane by plane."""
    seen: dict[str, list[np.ndarray]] = {}
    for plane in subject.planes:
        interpreter.run(plane, lambda n, a: seen.setdefault(n, []).append(a))
    return seen


def _flat(subject: _Net, planted: Planted, kind: str) -> bool:
    """Whether the fault leaves one number of what the twin shows there: whatever ends in it explains that."""
    found = [
        np.stack(v)
        for n, v in _recorded(subject, planted.make(planted.plan)).items()
        if _inside(n, planted, kind)
    ]
    return bool(found) and all(v.size >= FLAT and (v == v.flat[0]).all() for v in found)


def _same(subject: _Net, planted: Planted, kind: str) -> bool:
    """Whether the fault changes no whole number on this image, at any site that the twin shows."""
    stages = {s.name for s in subject.plan.stages}

    from twinnet.lut.plan import sites

    scale = {s.name: 1 / s.denominator for s in sites(planted.plan)}
    ours = _recorded(subject, Interpreter(subject.plan))
    theirs = _recorded(subject, planted.make(planted.plan))
    own = {s.name: 1 / s.denominator for s in sites(subject.plan)}
    return all(
        np.array_equal(a * own[n], b * scale[n])
        for n in ours
        if n in theirs and (kind != "stages" or n in stages)
        for a, b in zip(ours[n], theirs[n], strict=True)
    )


def _inside(site: str, planted: Planted, kind: str) -> bool:
    stage = planted.sites.lstrip("=").partition(".")[0]
    if kind == "stages":
        return site == stage
    if planted.sites.startswith("="):
        return site == planted.sites[1:]
    return site.startswith(planted.sites)


def _trial(subject: _Net, fault: str, planted: Planted, kind: str, exact: bool, folder: Path) -> Outcome:
    hidden = "file" if kind == "file" else "opaque"
    base = Outcome(f"{subject.name}", f"table: {fault}", hidden, "scored", planted.sites)
    base = replace(base, wanted=(planted.wanted,) if planted.wanted else ())
    if _same(subject, planted, kind):
        return replace(base, state="no effect")
    if kind != "file" and _flat(subject, planted, kind):
        base = replace(base, wanted=())
    twin = _twin(subject, planted, kind, folder)
    start = time.perf_counter()
    if exact or kind != "file":
        result = _checked(str(subject.file), {"image": subject.sample}, twin)
    else:
        result = _checked((subject.net, torch.from_numpy(subject.sample)), None, twin)
    seconds = time.perf_counter() - start
    at = [k for k, f in enumerate(result.findings) if _inside(f.site.tensor, planted, kind)]
    if not at and not result.findings and not exact and kind == "file":
        # Within one unit per entry: the network itself cannot tell such tables from its own.
        return replace(base, state="no effect", seconds=seconds)
    cause = result.findings[at[0]].cause if at else None
    right = not base.wanted
    if cause is not None:
        right = bool(planted.wanted) and bool(re.search(planted.wanted, cause.sentence))
    visible = [p.site.tensor for p in result.pairs if p.difference.max_abs > 1e-3]
    turned = [p.site.tensor for p in result.pairs if p.difference.cosine < 0.999]
    return replace(
        base,
        accused=result.findings[0].site.tensor if result.findings else "",
        found=bool(at),
        first=bool(at) and at[0] == 0,
        alarms=len(result.findings) - len(at),
        cause=cause.kind if cause else "",
        sentence=cause.sentence if cause else (str(result.findings[at[0]].reason or "") if at else ""),
        right=right,
        wrong=cause is not None and not right,
        layer=bool(at) and _inside(result.findings[at[0]].place.tensor, planted, kind),
        share=result.findings[at[0]].born_share if at else None,
        seconds=seconds,
        blame=float(result.timings.get("blame", 0.0)),
        naive=bool(visible) and _inside(visible[0], planted, kind),
        cosine=bool(turned) and _inside(turned[0], planted, kind),
    )


def run_tables(
    trials: int, seed: int, folder: Path, clean: bool = True, show: Callable[[Outcome], None] | None = None
) -> tuple[list[Outcome], list[Clean]]:
    """Outcomes of the trials, and the clean pairs."""
    rng = np.random.default_rng([seed, 7])
    known = networks(folder, seed)
    faults = [(n, f, False) for n, f in PLAN_FAULTS.items()] + [
        (n, f, True) for n, f in ENGINE_FAULTS.items()
    ]
    outcomes: list[Outcome] = []
    for number in range(trials):
        name, plant, foreign = faults[number % len(faults)]
        turn = number // len(faults)
        kinds = ("opaque", "stages", "opaque") if foreign else ("file", "onnx", "opaque", "file")
        # The same fault meets another kind of twin in the next round.
        kind = kinds[(number % len(faults) + turn) % len(kinds)]
        done: Outcome | None = None
        for _ in range(_TRIES):
            subject = known[int(rng.integers(len(known)))]
            planted = plant(_place(subject, rng))
            if planted is not None:
                done = _trial(subject, name, planted, kind, bool(rng.integers(2)), folder)
                if done.state == "scored":
                    break
        if done is not None:
            outcomes.append(done)
            if show is not None:
                show(done)
    return outcomes, list(_clean(known, folder)) if clean else []


def _clean(known: list[_Net], folder: Path) -> Iterator[Clean]:
    for subject in known:
        plain = Planted(subject.plan, "", "")
        onnx = _twin(subject, plain, "onnx", folder)
        twins = {
            "tables, native": f"lut-native:{subject.file}",
            "tables, native, one thread": f"lut-native?threads=1:{subject.file}",
            "tables, native, two threads": f"lut-native?threads=2:{subject.file}",
            "tables, numpy": f"lut?executor=numpy:{subject.file}",
            "tables, ONNX Runtime": onnx,
            "tables, ONNX Runtime, optimisation off": onnx.replace("onnxruntime:", "onnxruntime?opt=off:"),
            "tables, a function": _foreign(plain, "all"),
            "tables, a function that shows stages": _foreign(plain, "stages"),
        }
        for what, twin in twins.items():
            inputs = {"image": subject.sample}
            yield clean_pair(
                subject.name, what, lambda i=inputs, t=twin, s=subject: _checked(str(s.file), i, t)
            )
        net = (subject.net, torch.from_numpy(subject.sample))
        yield clean_pair(subject.name, "a network and its tables", lambda n=net: _checked(n, None, "lut"))


def _checked(network: Any, inputs: Any, twin: Any) -> Result:
    result = check(network, inputs, twin, keep="none")
    assert isinstance(result, Result)
    return result
