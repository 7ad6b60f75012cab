"""The folder of an experiment as a network: what it trained, and the tables it made."""

from __future__ import annotations

from pathlib import Path

import torch

from twinnet.network.torch_network import TorchNetwork
from twinnet.restore.checkpoints import trained_network
from twinnet.restore.experiment import open_experiment
from twinnet.tables.network import HoldsTables

__all__ = ["ExperimentNetwork"]


class ExperimentNetwork(TorchNetwork, HoldsTables):
    """The trained network of an experiment. `tables` are those it exported, if it has."""

    @classmethod
    def load(cls, folder: Path, *, name: str = "") -> ExperimentNetwork:
        """The network of the checkpoint that the experiment's config chooses."""
        experiment = open_experiment(folder)
        net, _ = trained_network(experiment)
        made = cls(
            net,
            example=torch.zeros(1, 3, 48, 64),
            name=name or folder.resolve().name,
            path=experiment.config_file,
        )
        exported = experiment.tables("exported")
        made.tables = exported if exported.is_file() else None
        return made
