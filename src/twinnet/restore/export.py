"""`twinnet lut export -e DIR` and `compress -e DIR`: from the trained network to its tables."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from twinnet.errors import UsageError
from twinnet.restore.experiment import Experiment, open_experiment

__all__ = ["compress", "export", "main", "read_tables"]


def export(folder: str | Path, *, quiet: bool = False) -> list[Path]:
    """Tabulate the network of the chosen checkpoint; with `dfc = true` also compress the tables."""
    from twinnet.lut.exporter import export as tabulate
    from twinnet.lut.file import LutFile, write
    from twinnet.restore.checkpoints import trained_network
    from twinnet.restore.screen import first_process

    experiment = open_experiment(folder)
    if not first_process():
        return []
    net, found = trained_network(experiment)
    # The grids are the config's: the network was built with them.
    tabulate(net, progress=not quiet and sys.stdout.isatty())
    content = LutFile.of(net, (f"exported from iteration {found.iteration}",))
    target = experiment.tables("exported")
    target.parent.mkdir(parents=True, exist_ok=True)
    write(replace(content, config=experiment.text), target)
    return [target, compress(folder)] if experiment.config.export_lut.dfc else [target]


def compress(folder: str | Path) -> Path:
    """Compress the exported tables as the config says."""
    from twinnet.lut.dfc import compress_file
    from twinnet.lut.file import write

    experiment = open_experiment(folder)
    e = experiment.config.export_lut
    content = read_tables(experiment, "exported")
    target = experiment.tables("compressed")
    packed = compress_file(content, e.dfc_axes, e.dfc_width, e.dfc_interval)
    write(replace(packed, config=experiment.text), target)
    return target


def read_tables(experiment: Experiment, kind: str):
    """Tables of an experiment; if there are none, the error names the command that makes them."""
    from twinnet.lut.file import read

    path = experiment.tables(kind)
    if not path.is_file():
        verb = {"exported": "export", "compressed": "compress", "fitted": "fit"}.get(kind, "finetune")
        raise UsageError(
            f"{experiment.folder} has no {kind} tables", hint=f"twinnet lut {verb} -e {experiment.folder}"
        )
    return read(path)


def main() -> None:
    """As a module."""
    from twinnet.restore.screen import module

    module("twinnet.restore.export", "Tabulate the network of an experiment.", export)


if __name__ == "__main__":
    main()
