"""`python -m twinnet.models.build [NAME ...]`: make the models of the package again, one after the other.

A model whose tables are there with the same recipe is left alone; one that was interrupted goes on with the stage it
had reached.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from twinnet.errors import TwinnetError, UsageError
from twinnet.models.recipes import RECIPES, settings

__all__ = ["build", "main"]

HERE = Path(__file__).parent


def build(name: str, images: Path, work: Path, *, force: bool = False, quiet: bool = False) -> Path:
    """Make one model; returns the file of its tables."""
    from twinnet.environment import environment
    from twinnet.models.cards import card, scores
    from twinnet.restore.experiment import write_whole
    from twinnet.restore.fit import fit
    from twinnet.restore.new import new

    if name not in RECIPES:
        raise UsageError(f"no model named {name}", hint=f"known: {', '.join(RECIPES)}")
    values = settings(name, str(images.resolve()))
    target = HERE / name / f"{name}.lut.safetensors"
    log = HERE / name / "log.json"
    recipe = json.loads(json.dumps(values["fit"]))
    if target.is_file() and log.is_file() and not force and json.loads(log.read_text())["recipe"] == recipe:
        return target
    folder = work / name
    if (folder / "config.toml").is_file():
        (folder / "config.toml").unlink()
    new(folder, values)
    done = fit(folder, quiet=quiet)
    rows = scores(folder, done.path)
    facts = {
        "name": name,
        "recipe": recipe,
        "seconds": round(done.seconds, 1),
        "cpu_seconds": round(done.cpu, 1),
        "bytes": done.result.nbytes,
        "lookups": done.result.lookups,
        "validation_psnr": round(done.psnr, 3),
        "validation_plain": round(done.plain, 3),
        "stages": [
            {"name": s.name, "error": round(s.error, 4), "iterations": s.iterations, "clipped": s.clipped,
             "seconds": round(s.seconds, 1), "cpu_seconds": round(s.cpu, 1)}
            for s in done.result.stages
        ],
        "scores": rows,
        "environment": environment(),
    }  # fmt: skip
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, done.path.read_bytes())
    write_whole(HERE / name / "card.md", card(facts).encode())
    write_whole(log, json.dumps(facts, indent=1).encode())
    return target


def main(arguments: Sequence[str] | None = None) -> int:
    """All models, or those named."""
    parser = argparse.ArgumentParser(prog="python -m twinnet.models.build", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(RECIPES)}")
    parser.add_argument(
        "--data", default=os.environ.get("TWINNET_DATA"), help="folder with images/ (TWINNET_DATA)"
    )
    parser.add_argument("--work", default="runs/models", help="folder for experiments on the way")
    parser.add_argument("--force", action="store_true", help="make them although they are there")
    parser.add_argument("-q", "--quiet", action="store_true")
    given = parser.parse_args(arguments)
    try:
        if not given.data or not Path(given.data, "images", "train").is_dir():
            raise UsageError(
                "there are no images to fit on", hint="name their folder with --data or TWINNET_DATA"
            )
        for name in given.names or RECIPES:
            path = build(
                name, Path(given.data, "images"), Path(given.work), force=given.force, quiet=given.quiet
            )
            facts = json.loads((path.parent / "log.json").read_text())
            first = next(iter(facts["scores"].items()))
            print(
                f"{name:<14} {facts['bytes']:>9,} B {facts['lookups']:>3} lookups  {first[0]} "
                f"{first[1]['tables']}  {facts['cpu_seconds']:.0f} s of CPU",
                flush=True,
            )
    except TwinnetError as error:
        print(f"twinnet: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
