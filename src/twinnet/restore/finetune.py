"""`twinnet lut finetune -e DIR`: tables as parameters, trained on images and rounded to int8 again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinnet.restore.experiment import open_experiment

if TYPE_CHECKING:
    from twinnet.lut.net import LutNet
    from twinnet.lut.plan import Plan

__all__ = ["finetune", "main"]


def finetune(folder: str | Path, *, quiet: bool = False) -> Path:
    """Fine-tune the tables that `[finetune_lut] table` names; the best by validation are written."""
    from twinnet.lut.file import LutFile, write
    from twinnet.lut.flat import flattened
    from twinnet.progress import progress
    from twinnet.restore import state
    from twinnet.restore.benchmarks import hashes_of_tests
    from twinnet.restore.data import training_crops, training_data
    from twinnet.restore.export import read_tables
    from twinnet.restore.keep_flat import keep_flat
    from twinnet.restore.loop import Work, accelerator, run
    from twinnet.restore.steps import TableStep
    from twinnet.restore.validate import Validation

    experiment = open_experiment(folder)
    config, s = experiment.config, experiment.config.finetune_lut
    source = read_tables(experiment, s.table)
    processes = accelerator()
    with progress(quiet=quiet or not processes.is_main_process) as watch:
        # Tables are tuned on what they were fitted to.
        half = s.table == "fitted" and config.fit.half
        data = training_data(experiment, hashes_of_tests(experiment, watch), watch, half=half)
    net = source.net() if not s.flat else replace(source, plan=flattened(source.plan)).net()
    net.rounding = s.rounding
    _choose(net, samplers=s.samplers)
    step = TableStep(net, s.kernel)
    ending = "" if s.table == "exported" else f"-{s.table}"
    name = f"finetune{ending}"
    crops, notes = training_crops(experiment, data, s.seed)
    work = Work(
        name, experiment.folder / name, step, net, s, s.batch_size or config.data.batch_size, crops,
        Validation.of(data.valid, s.validate_images, s.validate_crop), deployed,
        source=tables_hash(source.plan),
        notes=(*notes, f"{s.table} tables, {step.kernel} kernel"),
        settle=keep_flat(net) if s.flat else None,
    )  # fmt: skip
    scores = run(work, experiment, processes, quiet)
    best = state.best_of(scores)
    target = experiment.tables(f"finetuned{ending}")
    if processes.is_main_process:
        found = state.checkpoints(work.folder)
        iteration = best if best in found else max(found)
        net.load_state_dict(state.read(found[iteration]).net)
        note = f"fine-tuned for {iteration} iterations"
        content = replace(
            LutFile.of(net, (*source.notes, note)), network=source.network, config=experiment.text, tuned=True
        )
        # Entries were rounded to whole numbers since the last step.
        write(replace(content, plan=flattened(content.plan)) if s.flat else content, target)
    processes.wait_for_everyone()
    return target


def tables_hash(plan: Plan) -> str:
    """A hash of all entries of all tables."""
    digest = hashlib.sha256()
    for name, table in sorted(plan.tables.items()):
        digest.update(name.encode())
        digest.update(table.values.tobytes())
        digest.update(b"" if table.coarse is None else table.coarse.tobytes())
    return digest.hexdigest()


def _choose(net: LutNet, *, samplers: bool) -> None:
    for name, parameter in net.named_parameters():
        if not samplers and name.endswith((".sample.logits", ".residual.weight")):
            parameter.requires_grad_(False)


def deployed(net: LutNet) -> Callable[[np.ndarray], np.ndarray]:
    """The tables of a network as they deploy: int8, exact."""
    from twinnet.lut.lowering import lower
    from twinnet.lut.model import LutModel
    from twinnet.restore.tasks import pixels

    model = LutModel(lower(net))
    return lambda low: model(pixels(low))


def main() -> None:
    """As a module."""
    from twinnet.restore.screen import module

    module("twinnet.restore.finetune", "Fine-tune the tables of an experiment.", finetune)


if __name__ == "__main__":
    main()
