"""The folder of an experiment as the network of a check."""

from __future__ import annotations

import pytest
import torch

from tests.restore.conftest import finished, scenes
from twinnet.check import check
from twinnet.errors import UsageError
from twinnet.lut.file import read, write
from twinnet.network import load_network
from twinnet.restore import state

__all__ = ["finished", "scenes"]


def checked(folder, twin, tmp_path):
    return check(str(folder), None, twin, out=tmp_path / "run", shapes={"x": (1, 1, 16, 16)})


def test_exported_tables_are_judged_by_the_network(finished, tmp_path):
    result = checked(finished, "lut", tmp_path)
    assert result.verdict == "PASS" and result.network.name == "finished", result
    assert {pair.status for pair in result.pairs} == {"pass"} and result.contributors


@pytest.mark.parametrize("engine", ["lut", "lut-native"])
@pytest.mark.parametrize("kind", ["compressed", "finetuned"])
def test_compressed_and_fine_tuned_tables_are_never_accused(finished, tmp_path, engine, kind):
    result = checked(finished, f"{engine}:{finished / 'lut' / kind}.lut.safetensors", tmp_path)
    assert result.verdict == "PASS" and not result.findings, result


def test_tables_of_another_training_are_found(finished, tmp_path):
    from dataclasses import replace

    content = read(finished / "lut" / "exported.lut.safetensors")
    name, table = next(iter(content.plan.tables.items()))
    other = replace(table, values=table.values // 2)
    plan = type(content.plan).build(content.plan.stages, {**content.plan.tables, name: other})
    write(replace(content, plan=plan), tmp_path / "other.lut.safetensors")
    result = checked(finished, f"lut:{tmp_path / 'other.lut.safetensors'}", tmp_path)
    assert result.verdict == "FAIL" and result.findings


def test_the_chosen_checkpoint_is_loaded(finished):
    network = load_network(str(finished))
    best = state.newest(finished / "checkpoints").best
    weights = state.read(finished / "checkpoints" / f"iter_{best:08d}.pt").net
    for name, tensor in network.module.state_dict().items():
        assert torch.equal(tensor, weights[name])


def test_other_folders_are_no_network(tmp_path):
    with pytest.raises(UsageError, match="is a folder, not a network"):
        load_network(str(tmp_path))
    (tmp_path / "config.toml").write_text("version = 1\n")
    with pytest.raises(UsageError, match="no checkpoint yet"):
        load_network(str(tmp_path))
