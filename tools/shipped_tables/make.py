"""`python -m tools.shipped_tables.make [NAME ...]`: make the models of the package again, one after the other.

A model whose tables are there with the same recipe is left alone; one that was interrupted goes on with the stage it
had reached. Then all scores, cards and the page on shipped tables are written; `--cards` does only that.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.shipped_tables.docs_page import PAGE
from tools.shipped_tables.ranges import full_range
from tools.shipped_tables.recipes import RECIPES, finishing, settings
from tools.shipped_tables.refresh import SCORES, refresh
from twinnet import models
from twinnet.errors import TwinnetError, UsageError
from twinnet.lut.file import LutFile, read, write
from twinnet.lut.flat import flattened

__all__ = ["build", "finished", "is_made", "main"]

HERE = Path(models.__file__).parent
"""Where the models are."""


def is_made(name: str) -> bool:
    """Whether the tables of a model are there, made with its recipe."""
    target, log = HERE / name / f"{name}.lut.safetensors", HERE / name / "log.json"
    if not (target.is_file() and log.is_file()):
        return False
    before = json.loads(log.read_text())
    wanted = {**_recipe(settings(name, "")), "finishing": finishing(name)}
    return {key: before.get(key) for key in wanted} == wanted


def _recipe(values: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What a log keeps of the settings, as JSON gives them back."""
    return json.loads(json.dumps({"recipe": values["fit"], "tuning": values.get("finetune_lut")}))


def finished(content: LutFile, steps: Mapping[str, str]) -> LutFile:
    """Tables as they ship: for pictures of 0..255, whose flat areas stay flat."""
    plan = full_range(content.plan) if "range" in steps else content.plan
    plan = flattened(plan, whole=steps["flat"] == "end to end")
    return replace(content, plan=plan, notes=(*content.notes, *(f"{k}: {v}" for k, v in steps.items())))


def build(name: str, images: Path, work: Path, *, force: bool = False, quiet: bool = False) -> Path:
    """Make one model; returns the file of its tables."""
    from twinnet.environment import environment
    from twinnet.files import atomic_write
    from twinnet.restore.finetune import finetune
    from twinnet.restore.fit import fit
    from twinnet.restore.fit.run import held_out
    from twinnet.restore.new import new

    if name not in RECIPES:
        raise UsageError(f"no model named {name}", hint=f"known: {', '.join(RECIPES)}")
    values = settings(name, str(images.resolve()))
    target = HERE / name / f"{name}.lut.safetensors"
    log = HERE / name / "log.json"
    if not force and is_made(name):
        return target
    folder = work / name
    if (folder / "config.toml").is_file():
        (folder / "config.toml").unlink()
    new(folder, values)
    done = fit(folder, quiet=quiet)
    path, psnr, seconds, cpu = done.path, done.psnr, done.seconds, done.cpu
    if "finetune_lut" in values:
        began = time.perf_counter(), time.process_time()
        path = finetune(folder, quiet=quiet)
        psnr, _ = held_out(folder, path)
        seconds, cpu = seconds + time.perf_counter() - began[0], cpu + time.process_time() - began[1]
    content = finished(read(path), finishing(name))
    facts = {
        "name": name,
        **_recipe(values),
        "finishing": finishing(name),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "bytes": done.result.nbytes,
        "lookups": done.result.lookups,
        "validation_psnr": round(psnr, 3),
        "validation_fitted": round(done.psnr, 3),
        "validation_plain": round(done.plain, 3),
        "stages": [
            {"name": s.name, "error": round(s.error, 4), "iterations": s.iterations, "clipped": s.clipped,
             "seconds": round(s.seconds, 1), "cpu_seconds": round(s.cpu, 1)}
            for s in done.result.stages
        ],
        "environment": environment(),
    }  # fmt: skip
    target.parent.mkdir(parents=True, exist_ok=True)
    write(content, target)
    atomic_write(log, json.dumps(facts, indent=1).encode())
    return target


def main(arguments: Sequence[str] | None = None) -> int:
    """All models, or those named."""
    parser = argparse.ArgumentParser(prog="python -m tools.shipped_tables.make", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(RECIPES)}")
    parser.add_argument(
        "--data", default=os.environ.get("TWINNET_DATA"), help="folder with images/ (TWINNET_DATA)"
    )
    parser.add_argument("--work", default="runs/models", help="folder for experiments on the way")
    parser.add_argument("--force", action="store_true", help="make them although they are there")
    parser.add_argument("--cards", action="store_true", help="fit nothing: only scores, cards and the page")
    parser.add_argument("--no-cards", action="store_true", help="fit only: no scores")
    parser.add_argument("-q", "--quiet", action="store_true")
    given = parser.parse_args(arguments)
    try:
        if not given.data or not Path(given.data, "images", "train").is_dir():
            raise UsageError(
                "there are no images to fit on", hint="name their folder with --data or TWINNET_DATA"
            )
        data, names = Path(given.data), given.names or list(RECIPES)
        unknown = [name for name in names if name not in RECIPES]
        if unknown:
            raise UsageError(f"no model named {unknown[0]}", hint=f"known: {', '.join(RECIPES)}")
        for number, name in enumerate([] if given.cards else names, start=1):
            _make(name, f"{number}/{len(names)}", data, given)
        if not given.no_cards:
            _show(data, given)
    except TwinnetError as error:
        print(f"twinnet: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("twinnet: stopped; the same command goes on where it was", file=sys.stderr)
        return 130
    return 0


def _make(name: str, place: str, data: Path, given: argparse.Namespace) -> None:
    there = not given.force and is_made(name)
    print(f"{place:<6} {name:<14} {'is there' if there else 'fitting ...'}", flush=True)
    if there:
        return
    began = time.perf_counter()
    path = build(name, data / "images", Path(given.work), force=given.force, quiet=given.quiet)
    facts = json.loads((path.parent / "log.json").read_text())
    print(
        f"       {name:<14} {facts['bytes']:>9,} B {facts['lookups']:>3} lookups, held out "
        f"{facts['validation_psnr']:.2f} dB; {time.perf_counter() - began:.0f} s, {facts['cpu_seconds']:.0f} s of CPU",
        flush=True,
    )


def _show(data: Path, given: argparse.Namespace) -> None:
    began = time.perf_counter()
    names = [name for name in given.names if (HERE / name).is_dir()]
    found = refresh(HERE, data, names, kept=SCORES, page=PAGE, quiet=given.quiet)
    for board in found["boards"].values():
        bench = next(iter(board["benchmarks"]))
        for row in board["rows"]:
            if row["kind"] == "ours":
                score = row["scores"][bench]["PSNR"]
                print(f"{row['name']:<14} {row['bytes']:>9,} B  {bench} {score:.2f} dB")
    print(f"scores, cards and page written in {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
