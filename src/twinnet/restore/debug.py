"""`twinnet lut debug -e DIR`: one image through the network and through its tables, with the tensors of every site."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinnet.errors import UsageError
from twinnet.restore.experiment import Experiment, open_experiment

if TYPE_CHECKING:
    from twinnet.debugger import Settings
    from twinnet.lut.net import LutNet
    from twinnet.lut.plan import Plan
    from twinnet.restore.tasks import Image, Task

__all__ = ["Debugged", "Gap", "debug", "lines", "main"]

_SIDE = 128
"""Bad pixels along each axis that are looked at: every site of both sides is kept."""


@dataclass(frozen=True)
class Gap:
    """How far the tables are from the network at one site, in pixel units."""

    site: str
    largest: float
    mean: float
    at: tuple[int, ...]
    """Where it is largest."""


@dataclass(frozen=True, eq=False)
class Debugged:
    """Both sides of an experiment, stopped on one image."""

    name: str
    """Of the image."""
    tables: str
    """Which tables."""
    low: np.ndarray
    dnn_output: np.ndarray
    """What the network makes of the image, uint8."""
    lut_output: np.ndarray
    """What the tables make of it, uint8, as deployed."""
    model_dbg: dict[str, np.ndarray]
    """The network's tensors by site, in pixel units: [planes, channels, rows, columns]."""
    lut_dbg: dict[str, np.ndarray]
    """The same of the tables."""
    net: LutNet
    plan: Plan

    def cmp(self, site: str, size: int = 6) -> str:
        """One site: the largest and the mean difference, and a corner of the signed difference."""
        name = self._named(site)
        gap = self.gap(name)
        corner = (self.lut_dbg[name] - self.model_dbg[name])[0, 0, :size, :size]
        rows = [" ".join(f"{value:8.3f}" for value in row) for row in corner]
        head = f"{name}  largest {gap.largest:.4g} at {gap.at}, mean {gap.mean:.4g} of 255"
        return "\n".join([head, *rows])

    def gap(self, site: str) -> Gap:
        """The size of the difference at one site."""
        name = self._named(site)
        off = np.abs(self.lut_dbg[name] - self.model_dbg[name])
        where = np.unravel_index(int(off.argmax()), off.shape)
        return Gap(name, float(off.max()), float(off.mean()), tuple(int(i) for i in where))

    def worst(self, count: int = 8) -> list[Gap]:
        """The sites with the largest mean difference."""
        gaps = [self.gap(name) for name in self.model_dbg if name in self.lut_dbg]
        return sorted(gaps, key=lambda gap: -gap.mean)[:count]

    def _named(self, site: str) -> str:
        from twinnet.lut.query import find_sites

        (first, *_) = find_sites(self.net.sites(), site)
        return first.name


def debug(
    folder: str | Path, *, image: str = "butterfly", table: str = "", serve: Settings | None = None
) -> Debugged:
    """Run both sides on an image: a file, the name of a test image, or else a sample of ours.

    `table` names which tables (`exported`, `finetuned` ...); without it the exported ones, made now if they are not
    there. With `serve` both sides are handed to the live debugger, which listens as the settings say.
    """
    from twinnet.restore.checkpoints import trained_network
    from twinnet.restore.tasks import pixels, task_of
    from twinnet.restore.validate import middle

    experiment = open_experiment(folder)
    task = task_of(experiment.config)
    net, _ = trained_network(experiment)
    tables, plan = _plan(experiment, net, table)
    name, low, good = _pair(experiment, task, image)
    low, _ = middle(low, good, task.scale, _SIDE * task.scale)
    low = pixels(low)
    found = _both(net, plan, name, tables, low)
    if serve is not None:
        _serve(found, serve)
    return found


def _plan(experiment: Experiment, net: LutNet, table: str) -> tuple[str, Plan]:
    import copy

    from twinnet.lut.exporter import export
    from twinnet.lut.lowering import lower
    from twinnet.restore.export import read_tables

    if table or experiment.tables("exported").is_file():
        kind = table or "exported"
        return f"{kind} tables", read_tables(experiment, kind).plan
    return "tables made now", lower(export(copy.deepcopy(net)))


def _pair(experiment: Experiment, task: Task, image: str) -> tuple[str, Image, Image]:
    from twinnet.lut.pictures import read_picture
    from twinnet.restore.benchmarks import find_benchmarks
    from twinnet.restore.sample import scene

    if Path(image).is_file():
        return (Path(image).name, *task.degrade(read_picture(image).pixels))
    for bench in find_benchmarks(experiment)[0]:
        for name, low, good in bench.pairs(task, only=image):
            return f"{bench.name}/{name}", low, good
    if image != "butterfly":
        raise UsageError(f"no image {image!r}", hint="a file, or the name of an image of a test set")
    return ("our sample", *task.degrade(scene(0, 256, 256)))


def _both(net: LutNet, plan: Plan, name: str, tables: str, low: np.ndarray) -> Debugged:
    from twinnet.lut.lowering import raise_plan
    from twinnet.lut.model import LutModel

    sides = []
    for side in (net.eval(), raise_plan(plan).eval()):
        scales = {site.name: site.scale for site in side.sites()}
        seen: dict[str, np.ndarray] = {}

        def note(site: str, tensor, seen=seen, scales=scales) -> None:
            seen[site] = tensor.double().cpu().numpy() * scales[site]

        out = side.predict(low, note)
        sides.append((out, seen))
    deployed = LutModel(plan)(low)
    return Debugged(name, tables, low, sides[0][0], deployed, sides[0][1], sides[1][1], net, plan)


def _serve(found: Debugged, settings: Settings) -> None:
    import torch

    from twinnet.debugger import serve
    from twinnet.lut.file import LutFile
    from twinnet.tables.network import TableNetwork

    planes = found.low[None] if found.low.ndim == 2 else np.moveaxis(found.low, -1, 0)
    image = torch.from_numpy(np.ascontiguousarray(planes))[None].float() / 255
    sides = {"network": found.net, "twin": TableNetwork(LutFile(found.plan)), "inputs": image}
    names = {"dnn_output": found.dnn_output, "lut_output": found.lut_output, "debugged": found}
    serve({**sides, **names}, settings=settings)


def lines(found: Debugged, count: int = 8) -> list[str]:
    """For a terminal: the outputs, and the sites where the tables are furthest from the network."""
    off = np.abs(found.lut_output.astype(np.int16) - found.dnn_output)
    out = [
        f"image     {found.name}, {found.low.shape[0]} x {found.low.shape[1]}; {found.tables}",
        f"output    differs by {int(off.max())} at most, {off.mean():.3f} on average, of 255",
        "worst     by mean difference, in pixel units",
    ]
    out += [
        f"  {gap.site}  {gap.mean:.4f}, at most {gap.largest:.3f} at {gap.at}" for gap in found.worst(count)
    ]
    return out


def main() -> None:
    """As a module."""
    import argparse

    from twinnet.restore.screen import first_process, module

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--image", default="butterfly", help="file, or name of a test image")
        parser.add_argument("--table", default="", help="exported, compressed, finetuned ...")
        parser.add_argument("--serve", action="store_true", help="hand both sides to the live debugger")

    def verb(folder: str, *, image: str, table: str, serve: bool, quiet: bool) -> None:
        from twinnet.debugger import Settings

        settings = replace(Settings.from_environment(), folder=Path(folder) / "debugger") if serve else None
        found = debug(folder, image=image, table=table, serve=settings)
        if first_process() and not serve and not quiet:
            print("\n".join(lines(found)))

    module("twinnet.restore.debug", "One image through a network and its tables.", verb, add)


if __name__ == "__main__":
    main()
