"""The loop of training and of fine-tuning: the same for both, resumable after every checkpoint, on any processes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from twinnet.errors import EngineError, UsageError
from twinnet.extras import optional_packages
from twinnet.files import atomic_write
from twinnet.lut.net import LutNet
from twinnet.restore import state
from twinnet.restore.config import parse
from twinnet.restore.config.sections import FinetuneSection, TrainSection
from twinnet.restore.data import Crops, batches
from twinnet.restore.experiment import Experiment
from twinnet.restore.journal import Journal, Silence
from twinnet.restore.predict import predict
from twinnet.restore.state import Checkpoint
from twinnet.restore.steps import LOSSES, learning_rate
from twinnet.restore.validate import Validation

__all__ = ["Work", "accelerator", "run"]


def _as_network(net: LutNet) -> Callable[[np.ndarray], np.ndarray]:
    return partial(predict, net)


@dataclass
class Work:
    """What is optimised: `module` maps bad images to good ones; `net` is the network inside it."""

    name: str
    folder: Path
    """Where its checkpoints go."""
    module: nn.Module
    net: LutNet
    settings: TrainSection | FinetuneSection
    batch_size: int
    crops: Crops
    validation: Validation
    predictor: Callable[[LutNet], Callable[[np.ndarray], np.ndarray]] = _as_network
    """Makes what restores validation images: the network, or its tables as they deploy."""
    source: str = ""
    """Hash of the tables that are tuned; a checkpoint of other tables cannot be resumed."""
    notes: tuple[str, ...] = ()
    settle: Callable[[], None] | None = None
    """Called after every step: moves parameters back to where they must be."""


def accelerator(precision: str = "no") -> Any:
    """The processes and devices of this run, as `accelerate launch` set them up; one process without it."""
    with optional_packages():
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState
    if precision == "bf16" and not torch.accelerator.is_available():
        from twinnet.engines.torch import try_narrow

        try_narrow("bfloat16")
    # An earlier run of this process may have had another precision.
    AcceleratorState._reset_state()
    # Several processes on a machine without accelerators must still find each other.
    several = os.environ.get("WORLD_SIZE", "1") != "1"
    return Accelerator(mixed_precision=precision, cpu=several and not torch.accelerator.is_available())


class _Run:
    def __init__(self, work: Work, experiment: Experiment, processes: Any, quiet: bool) -> None:
        self.work, self.experiment, self.processes = work, experiment, processes
        s = work.settings
        parameters = [p for p in work.module.parameters() if p.requires_grad]
        optimiser = torch.optim.Adam(
            parameters,
            lr=s.learning_rate,
            betas=(s.betas[0], s.betas[1]),
            eps=s.eps,
            weight_decay=s.weight_decay,
        )
        self.iteration = 0
        self.scores: list[dict[str, float]] = []
        self.pending: list[float] = []
        found = state.newest(work.folder)
        if found is not None:
            _same_network(found, experiment, work)
            work.net.load_state_dict(found.net)
            optimiser.load_state_dict(found.optimiser)
            self.iteration, self.scores, self.pending = found.iteration, found.scores, found.pending
        self.module, self.optimiser = processes.prepare(work.module, optimiser)
        self.main = bool(processes.is_main_process)
        self.journal = (
            Journal(
                work.name,
                experiment.folder,
                self.iteration,
                s.iterations,
                tensorboard=s.tensorboard,
                quiet=quiet,
            )
            if self.main
            else Silence()
        )
        if found is not None:
            if self.processes.scaler is not None and found.scaler:
                self.processes.scaler.load_state_dict(found.scaler)
            if len(found.randoms) == processes.num_processes:
                state.restore_random(found.randoms[processes.process_index])
            else:
                self.journal.say(
                    f"{work.name}: resumed with {processes.num_processes} processes, after {len(found.randoms)} before"
                )

    def go(self) -> None:
        work, s = self.work, self.work.settings
        for note in work.notes:
            self.journal.say(f"{work.name}: {note}")
        if self.iteration >= s.iterations:
            self.journal.say(f"{work.name}: {s.iterations} iterations are done")
            return
        if self.iteration:
            self.journal.say(f"{work.name}: resuming after iteration {self.iteration}")
        loss_of = LOSSES[s.loss]
        data = batches(
            work.crops, range(self.iteration, s.iterations), work.batch_size,
            rank=self.processes.process_index, ranks=self.processes.num_processes,
            workers=self.experiment.config.data.workers,
        )  # fmt: skip
        self.module.train()
        for low, high in data:
            rate = learning_rate(
                s.schedule, s.learning_rate, s.learning_rate_end, self.iteration, s.iterations
            )
            for group in self.optimiser.param_groups:
                group["lr"] = rate
            self.optimiser.zero_grad(set_to_none=True)
            with self.processes.autocast():
                restored = self.module(low.to(self.processes.device))
            loss = loss_of(restored.float(), high.to(self.processes.device))
            value = float(self.processes.reduce(loss.detach(), "mean"))
            if not math.isfinite(value):
                self._stop_at_nan(value)
            self.processes.backward(loss)
            self.optimiser.step()
            if work.settle is not None:
                work.settle()
            self.iteration += 1
            self.pending.append(value)
            self.journal.step(self.iteration, {"loss": value})
            self._after(rate)

    def _after(self, rate: float) -> None:
        s, last = self.work.settings, self.iteration == self.work.settings.iterations
        numbers: dict[str, float] = {}
        if last or self.iteration % s.log_every == 0:
            numbers = {"loss": float(np.mean(self.pending)), "learning_rate": rate}
            self.pending = []
        validated = last or self.iteration % s.validate_every == 0
        if validated:
            numbers |= self._validate()
        if numbers:
            self.journal.line(self.iteration, numbers)
        if validated or self.iteration % s.checkpoint_every == 0:
            self._save(rate)

    def _validate(self) -> dict[str, float]:
        from accelerate.utils import gather_object

        p, validation = self.processes, self.work.validation
        restore = self.work.predictor(self.work.net)
        mine = validation.scores(restore, p.process_index, p.num_processes)
        every: list[dict[str, float]] = gather_object(mine)
        means = {name: float(np.mean([score[name] for score in every])) for name in every[0]}
        first = next(iter(means))
        self.scores.append({"iteration": self.iteration, "score": means[first], **means})
        if self.main:
            self.journal.images(self.iteration, validation.sample(restore))
        return means

    def _save(self, rate: float) -> None:
        from accelerate.utils import gather_object

        randoms = gather_object([state.random_state()])
        if self.main:
            s = self.work.settings
            scaler = self.processes.scaler
            found = Checkpoint(
                iteration=self.iteration,
                config=self.experiment.text,
                net={k: v.detach().cpu() for k, v in self.work.net.state_dict().items()},
                optimiser=self.optimiser.state_dict(),
                schedule={"learning_rate": rate, "iterations": float(s.iterations)},
                data={"seed": s.seed, "iteration": self.iteration},
                randoms=randoms,
                scores=self.scores,
                pending=self.pending,
                source=self.work.source,
                scaler={} if scaler is None else scaler.state_dict(),
            )
            state.write(self.work.folder, found)
            state.prune(self.work.folder, s.keep_checkpoints, found.best)
        self.processes.wait_for_everyone()

    def _stop_at_nan(self, value: float) -> None:
        path = self.experiment.folder / f"nan-batch-{self.work.name}-{self.iteration}.safetensors"
        if self.main:
            from safetensors.numpy import save

            low, high = self.work.crops.batch(self.iteration, 0, self.work.batch_size)
            atomic_write(
                path, save({"low": low, "high": high}, {"iteration": str(self.iteration)}), durable=True
            )
        raise EngineError(
            f"the loss became {value} at iteration {self.iteration}",
            stage=self.work.name,
            hint=f"its batch is in {path}; the last checkpoint is intact. A lower learning_rate may help",
        )


def _same_network(found: Checkpoint, experiment: Experiment, work: Work) -> None:
    """Refuse a checkpoint of another network; note settings that have changed."""
    before = parse(found.config, f"the config in {work.folder}")
    now = experiment.config
    changed = [
        f"model.{key}: {getattr(before.model, key)!r} became {getattr(now.model, key)!r}"
        for key in type(now.model).model_fields
        if getattr(before.model, key) != getattr(now.model, key)
    ]
    if changed:
        raise UsageError(
            f"{experiment.config_file} describes a different network from its checkpoints: {'; '.join(changed)}",
            hint=f"make a new experiment, or remove {work.folder}",
        )
    if found.source != work.source:
        raise UsageError(
            f"{work.folder} holds checkpoints of tables that have changed since",
            hint=f"to tune the new ones, remove {work.folder}",
        )
    for section in ("data", work.name if work.name == "train" else "finetune_lut"):
        old, new = getattr(before, section), getattr(now, section)
        for key in type(new).model_fields:
            if getattr(old, key) != getattr(new, key):
                work.notes += (
                    f"{section}.{key} changed since iteration {found.iteration}: "
                    f"{getattr(old, key)!r} became {getattr(new, key)!r}",
                )


def run(work: Work, experiment: Experiment, processes: Any, quiet: bool = False) -> list[dict[str, float]]:
    """Optimise until the end, from the last checkpoint if there is one; returns the validations."""
    going = _Run(work, experiment, processes, quiet)
    try:
        going.go()
    finally:
        going.journal.close()
    return going.scores
