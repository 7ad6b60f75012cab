"""`twinnet lut train -e DIR`, and under accelerate: `accelerate launch -m twinnet.restore.train -e DIR`."""

from __future__ import annotations

from pathlib import Path

from twinnet.restore.experiment import open_experiment

__all__ = ["main", "train"]


def train(folder: str | Path, *, quiet: bool = False) -> list[dict[str, float]]:
    """Train the network of an experiment, from its last checkpoint on; returns its validations."""
    from twinnet.progress import progress
    from twinnet.restore.benchmarks import hashes_of_tests
    from twinnet.restore.building import build
    from twinnet.restore.data import training_crops, training_data
    from twinnet.restore.loop import Work, accelerator, run
    from twinnet.restore.validate import Validation

    experiment = open_experiment(folder)
    config = experiment.config
    processes = accelerator(config.train.precision)
    with progress(quiet=quiet or not processes.is_main_process) as watch:
        data = training_data(experiment, hashes_of_tests(experiment, watch), watch)
    crops, notes = training_crops(experiment, data, config.train.seed)
    net = build(config)
    work = Work(
        "train", experiment.folder / "checkpoints", net, net, config.train, config.data.batch_size, crops,
        Validation.of(data.valid, config.train.validate_images, config.train.validate_crop),
        notes=notes,
    )  # fmt: skip
    return run(work, experiment, processes, quiet)


def main() -> None:
    """As a module."""
    from twinnet.restore.screen import module

    module("twinnet.restore.train", "Train the network of an experiment.", train)


if __name__ == "__main__":
    main()
