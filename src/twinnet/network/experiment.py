"""The folder of an experiment as a network: what it trained, and the tables it made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinnet.network.torch_network import TorchNetwork

__all__ = ["ExperimentNetwork"]


class ExperimentNetwork(TorchNetwork):
    """The trained network of an experiment. `tables` are those it exported, if it has."""

    tables: Path | None = None

    @classmethod
    def load(cls, folder: Path, *, name: str = "", example: Any = None) -> ExperimentNetwork:
        """The network of the checkpoint that the experiment's config chooses."""
        import torch

        from twinnet.restore.experiment import open_experiment
        from twinnet.restore.trained import trained_network

        experiment = open_experiment(folder)
        net, _ = trained_network(experiment)
        image = torch.zeros(1, 3, 48, 64) if example is None else example
        made = cls(net, example=image, name=name or folder.resolve().name, path=experiment.config_file)
        exported = experiment.tables("exported")
        made.tables = exported if exported.is_file() else None
        return made
