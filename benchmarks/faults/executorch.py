"""Faults in PyTorch networks that ExecuTorch lowers; the faulty program is a file, as if somebody else had made it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.faults.clean import Clean, clean_pair
from benchmarks.faults.trial import Outcome
from twinnet import Limits, check, record
from twinnet.checking.case import Case, read_network
from twinnet.checking.options import Options
from twinnet.checking.run import run_case
from twinnet.checking.sides import Sides
from twinnet.engines import find_engine
from twinnet.errors import MissingExtra, TwinnetError
from twinnet.job import Job
from twinnet.result import Result

__all__ = ["KINDS", "installed", "run_executorch"]

_NETS = ("mbconv", "unet", "transformer")
_TWINS = ("portable", "alone", "xnnpack")
"""A program with its ETRecord, without it, and one in a delegate."""
_ONE = Limits(threads=1)

Plant = Callable[[nn.Module, np.random.Generator], None]


def _channel(layer: Any, rng: np.random.Generator) -> None:
    layer.weight[int(rng.integers(len(layer.weight)))] *= float(rng.uniform(1.1, 1.5))


def _element(layer: Any, rng: np.random.Generator) -> None:
    flat = layer.weight.view(-1)
    flat[int(rng.integers(len(flat)))] += 4 * float(layer.weight.std())


def _mirrored(layer: Any, rng: np.random.Generator) -> None:
    layer.weight.copy_(layer.weight.flip(-1))


def _no_bias(layer: Any, rng: np.random.Generator) -> None:
    layer.bias.zero_()


def _edges(layer: Any, rng: np.random.Generator) -> None:
    layer.padding_mode = "replicate"


def _eps(layer: Any, rng: np.random.Generator) -> None:
    layer.eps = 0.1


def _hard(layer: Any, rng: np.random.Generator) -> None:
    layer.forward = F.hardswish


def _tanh(layer: Any, rng: np.random.Generator) -> None:
    layer.approximate = "tanh"


def _has_bias(layer: Any) -> bool:
    return layer.bias is not None and float(layer.bias.detach().abs().max()) > 1e-2


def _padded(layer: Any) -> bool:
    numbers = isinstance(layer.padding, tuple) and any(layer.padding)
    return layer.padding_mode == "zeros" and numbers


KINDS: dict[str, tuple[tuple[type, ...], Callable[[Any], bool], Plant, tuple[str, ...]]] = {
    "one channel scaled": ((nn.Conv2d, nn.Linear), lambda m: True, _channel, ("scale", "weights")),
    "one weight": ((nn.Conv2d, nn.Linear), lambda m: True, _element, ("weights",)),
    "kernel mirrored": ((nn.Conv2d,), lambda m: m.kernel_size[-1] > 1, _mirrored, ("weights",)),
    "no bias": ((nn.Conv2d, nn.Linear), _has_bias, _no_bias, ("bias",)),
    "edges instead of zeros": ((nn.Conv2d,), _padded, _edges, ("padding",)),
    "eps": ((nn.BatchNorm2d, nn.LayerNorm), lambda m: True, _eps, ("eps",)),
    "hard swish": ((nn.SiLU,), lambda m: True, _hard, ("activation",)),
    "GELU tanh": ((nn.GELU,), lambda m: True, _tanh, ("activation",)),
}
"""By name: the layers a fault fits, whether it fits this one, how it is planted, and the right causes."""
_SOLVED, _LEAST = ("one channel scaled", "one weight"), 4
"""A number that must be solved for explains any two elements or three in several ways."""


def installed() -> bool:
    """Whether ExecuTorch is there."""
    try:
        find_engine("executorch").version()
    except MissingExtra:
        return False
    return True


def run_executorch(
    trials: int, seed: int, folder: Path, clean: bool = True, show: Callable[[Outcome], None] | None = None
) -> tuple[list[Outcome], list[Clean]]:
    """Outcomes of the trials, and the clean pairs."""
    from tests.nets import NETS

    rng = np.random.default_rng([seed, 15])
    known = {name: NETS[name]()[:2] for name in _NETS}
    outcomes: list[Outcome] = []
    for number in range(3 * trials):
        if sum(o.state == "scored" for o in outcomes) >= trials:
            break
        name = list(KINDS)[number % len(KINDS)]
        twin = _TWINS[(number + number // len(KINDS)) % len(_TWINS)]
        done = _trial(known, name, twin, rng, folder / f"executorch-{number}")
        if done is not None:
            outcomes.append(done)
            if show is not None:
                show(done)
    return outcomes, list(_clean(known)) if clean else []


def _trial(
    known: dict[str, Any], name: str, twin: str, rng: np.random.Generator, folder: Path
) -> Outcome | None:
    kinds, fits, plant, causes = KINDS[name]
    for network in rng.permutation(list(known)):
        module, args = known[network]
        places = [path for path, m in module.named_modules() if isinstance(m, kinds) and fits(m)]
        if places:
            break
    else:
        return None
    place = places[int(rng.integers(len(places)))]
    faulty = copy.deepcopy(module).eval()
    with torch.no_grad():
        plant(faulty.get_submodule(place), rng)
    wanted = causes
    if name in _SOLVED and twin != "xnnpack" and _positions(module, place, args) < _LEAST:
        wanted = ()  # nothing shows the weights of a program that was read from a file
    base = Outcome(str(network), name, f"et-{twin}"[:9], "does not run", place, wanted=wanted)
    if not _matters(module, faulty, args):
        return replace(base, state="no effect")
    start = time.perf_counter()
    try:
        result = (
            _delegated(module, faulty, args)
            if twin == "xnnpack"
            else _file(module, faulty, args, twin, folder)
        )
    except TwinnetError:
        return base
    seconds = time.perf_counter() - start
    assert isinstance(result, Result)
    if result.verdict == "ERROR":
        return base
    return _scored(base, result, place, seconds)


def _positions(module: nn.Module, place: str, args: Sequence[torch.Tensor]) -> int:
    """At how many places a layer applies its weights."""
    found: list[int] = []
    layer = module.get_submodule(place)

    def count(_: nn.Module, __: Any, result: torch.Tensor) -> None:
        found.append(result.numel() // result.shape[1 if isinstance(layer, nn.Conv2d) else -1])

    hook = layer.register_forward_hook(count)
    with torch.no_grad():
        module(*args)
    hook.remove()
    return found[0] if found else _LEAST  # attention in one piece does not call its projection


def _file(module: nn.Module, faulty: nn.Module, args: Any, twin: str, folder: Path) -> Result:
    """The faulty network as a .pte, with its ETRecord or alone."""
    record((faulty, args), args, out=folder, reference="executorch", limits=_ONE)
    home = folder / "0000"
    named = "" if twin == "alone" else f"?etrecord={home}/program.etrecord"
    result = check((module, args), args, f"executorch{named}:{home}/program.pte", keep="none", limits=_ONE)
    assert isinstance(result, Result)
    return result


def _delegated(module: nn.Module, faulty: nn.Module, args: Any) -> Result:
    """The faulty network in XNNPACK, the values inside shown."""
    options = Options(keep="none", limits=_ONE)
    network, feed = read_network((module, args), args, options)
    other, _ = read_network((faulty, args), args, options)
    job = Job(feed.samples[0], feed.samples, threads=1)
    twin = find_engine("executorch").open(other, {"delegate": "xnnpack"}, None, job)
    case = Case.of(network, feed, twin, options)
    sides = Sides(case)
    try:
        return run_case(case, sides).result
    finally:
        sides.close()


def _scored(base: Outcome, result: Result, place: str, seconds: float) -> Outcome:
    """Whether the planted layer is in the first finding's segment, and is the one it names."""
    planted = {place}
    segments = [
        {
            label.rpartition(" ")[0]
            for p in result.pairs
            if p.site.tensor == f.site.tensor
            for label in p.segment
        }
        for f in result.findings
    ]
    at = [k for k, s in enumerate(segments) if planted & s or result.findings[k].place.module in planted]
    cause = result.findings[at[0]].cause if at else None
    right = cause.kind in KINDS[base.fault][3] if cause is not None else not base.wanted
    return replace(
        base,
        state="scored",
        accused=result.findings[0].place.module or result.findings[0].site.tensor if result.findings else "",
        found=bool(at),
        first=bool(at) and at[0] == 0,
        alarms=len(result.findings) - len(at),
        cause=cause.kind if cause else "",
        sentence=cause.sentence if cause else "",
        right=right,
        wrong=cause is not None and not right,
        layer=bool(at) and result.findings[at[0]].place.module in planted,
        seconds=seconds,
        blame=float(result.timings.get("blame", 0.0)),
    )


def _matters(clean: nn.Module, faulty: nn.Module, args: Sequence[torch.Tensor]) -> bool:
    """Whether the fault moves the output beyond rounding, computed in float64."""
    wide = [a.double() if a.is_floating_point() else a for a in args]
    with torch.no_grad():
        one, two = (copy.deepcopy(m).eval().double()(*wide) for m in (clean, faulty))
    return bool((one - two).abs().max() > 1e-5 * one.abs().max())


def _clean(known: dict[str, Any]) -> Iterator[Clean]:
    twins = {"ExecuTorch": "executorch", "ExecuTorch, XNNPACK": "executorch?delegate=xnnpack"}
    for network, (module, args) in known.items():
        for what, twin in twins.items():
            yield clean_pair(network, what, lambda m=module, a=args, t=twin: _checked(m, a, t))


def _checked(module: nn.Module, args: Any, twin: str) -> Result:
    result = check((module, args), args, twin, keep="none", limits=_ONE)
    assert isinstance(result, Result)
    return result
