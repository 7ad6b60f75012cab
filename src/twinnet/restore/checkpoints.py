"""The trained network of an experiment, from one of its checkpoints."""

from __future__ import annotations

from twinnet.errors import UsageError
from twinnet.lut.net import LutNet
from twinnet.restore import state
from twinnet.restore.building import build
from twinnet.restore.config import parse
from twinnet.restore.experiment import Experiment

__all__ = ["chosen_checkpoint", "trained_network"]


def chosen_checkpoint(experiment: Experiment) -> state.Checkpoint:
    """The checkpoint that `[export_lut] checkpoint_iter` names."""
    folder = experiment.folder / "checkpoints"
    found = state.checkpoints(folder)
    if not found:
        raise UsageError(
            f"{experiment.folder} has no checkpoint yet", hint=f"twinnet lut train -e {experiment.folder}"
        )
    wanted = experiment.config.export_lut.checkpoint_iter
    last = max(found)
    if wanted == "last":
        wanted = last
    elif wanted == "best":
        best = state.read(found[last]).best
        wanted = best if best in found else last
    if wanted not in found:
        raise UsageError(
            f"{folder} has no checkpoint of iteration {wanted}",
            hint=f"there are {', '.join(map(str, found))}; keep_checkpoints says how many are kept",
        )
    return state.read(found[wanted])


def trained_network(experiment: Experiment) -> tuple[LutNet, state.Checkpoint]:
    """The network with the weights of the chosen checkpoint, and the checkpoint."""
    found = chosen_checkpoint(experiment)
    made = parse(found.config, f"the config in {experiment.folder / 'checkpoints'}")
    if made.model != experiment.config.model:
        raise UsageError(
            f"{experiment.config_file} describes a different network from its checkpoints",
            hint="put [model] back, or make a new experiment",
        )
    net = build(experiment.config)
    net.load_state_dict(found.net)
    return net.eval(), found
