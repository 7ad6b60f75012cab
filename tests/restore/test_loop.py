"""Training: killed at any moment it ends with the same weights; what goes wrong loses nothing."""

from __future__ import annotations

import csv
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from twinnet.errors import EngineError, UsageError
from twinnet.lut.cells import diff
from twinnet.lut.model import open_tables
from twinnet.restore import state
from twinnet.restore.config import load
from twinnet.restore.data import training_data
from twinnet.restore.experiment import open_experiment
from twinnet.restore.export import export
from twinnet.restore.finetune import finetune
from twinnet.restore.sample import write_samples
from twinnet.restore.train import train

# Runs a verb and kills itself, with SIGKILL, at the n-th call of a function.
KILLER = """
import os, signal, sys, importlib, torch
torch.set_num_threads(1)
verb, folder, place, count, when = sys.argv[1:]
module, _, path = place.partition(":")
owner = importlib.import_module(module)
*inner, name = path.split(".")
for part in inner:
    owner = getattr(owner, part)
plain, calls = getattr(owner, name), [0]
def deadly(*args, **kwargs):
    calls[0] += 1
    last = calls[0] == int(count)
    if last and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = plain(*args, **kwargs)
    if last:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(owner, name, deadly)
module, _, name = verb.partition(":")
getattr(importlib.import_module(module), name)(folder, quiet=True)
"""


def killed(verb, folder, place, count, when="after"):
    done = subprocess.run(
        [sys.executable, "-c", KILLER, verb, folder, place, str(count), when],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def weights(folder, name="checkpoints"):
    return state.newest(folder / name).net


def same(a, b):
    return set(a) == set(b) and all(torch.equal(a[k], b[k]) for k in a)


def test_killed_anywhere_it_ends_with_the_same_weights(make):
    whole, cut = make("whole"), make("cut")
    train(whole, quiet=True)
    verb = "twinnet.restore.train:train"
    # In the middle of a step; while a checkpoint's file is written; when it has its name but old ones are there.
    killed(verb, cut, "torch.optim:Adam.step", 4)
    assert list(state.checkpoints(cut / "checkpoints")) == [2, 3]
    killed(verb, cut, "os:fsync", 2, "before")  # the log comes first
    assert max(state.checkpoints(cut / "checkpoints")) == 3
    assert list((cut / "checkpoints").glob(".*")), "the kill came while a file was written"
    killed(verb, cut, "twinnet.restore.state:prune", 1, "before")
    assert max(state.checkpoints(cut / "checkpoints")) == 4
    train(cut, quiet=True)
    assert not list((cut / "checkpoints").glob(".*"))
    assert same(weights(whole), weights(cut))
    one, two = state.newest(whole / "checkpoints"), state.newest(cut / "checkpoints")
    assert one.scores == two.scores and one.schedule == two.schedule and one.data == two.data
    assert [r["loss"] for r in rows(whole)] == [r["loss"] for r in rows(cut)]


def rows(folder, name="train"):
    with (folder / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_fine_tuning_goes_on_too(make):
    folder = make()
    train(folder, quiet=True)
    export(folder, quiet=True)
    verb = "twinnet.restore.finetune:finetune"
    killed(verb, folder, "torch.optim:Adam.step", 3)
    finetune(folder, quiet=True)
    cut = weights(folder, "finetune")
    tables = open_tables(folder / "lut" / "finetuned.lut.safetensors")
    for path in (folder / "finetune").iterdir():
        path.unlink()
    finetune(folder, quiet=True)
    assert same(cut, weights(folder, "finetune"))
    again = open_tables(folder / "lut" / "finetuned.lut.safetensors")
    assert diff(tables.plan, again.plan).same and tables.notes == again.notes


def test_the_log_has_every_line_once(make):
    folder = make()
    train(folder, quiet=True)
    lines = rows(folder)
    assert [row["iteration"] for row in lines] == ["2", "3", "4", "6"]
    assert lines[1]["PSNR"] and not lines[1]["loss"] and lines[3]["loss"] and lines[3]["SSIM"]
    train(folder, quiet=True)  # nothing left to do
    assert rows(folder) == lines


def test_old_checkpoints_go_but_the_best_stays(make):
    folder = make(train={"keep_checkpoints": 1, "iterations": 8})
    train(folder, quiet=True)
    found = state.checkpoints(folder / "checkpoints")
    best = state.newest(folder / "checkpoints").best
    assert set(found) == {8, best}


def test_a_loss_that_is_no_number_stops_with_its_batch(make):
    folder = make(train={"iterations": 3})
    train(folder, quiet=True)
    path = folder / "checkpoints" / "iter_00000003.pt"
    broken = state.read(path)
    next(iter(broken.net.values())).fill_(float("nan"))
    state.write(folder / "checkpoints", broken)
    before = path.read_bytes()
    change(folder, "iterations = 3", "iterations = 6")
    with pytest.raises(EngineError, match="became nan at iteration 3") as caught:
        train(folder, quiet=True)
    saved = load_file(folder / "nan-batch-train-3.safetensors")
    assert str(folder / "nan-batch-train-3.safetensors") in str(caught.value)
    assert saved["low"].shape == (4, 1, 12, 12) and saved["high"].shape == (4, 1, 24, 24)
    assert np.isfinite(saved["low"]).all()
    assert path.read_bytes() == before and max(state.checkpoints(folder / "checkpoints")) == 3


def change(folder, old, new):
    text = (folder / "config.toml").read_text()
    assert old in text
    (folder / "config.toml").write_text(text.replace(old, new))


@contextmanager
def full_disk(room):
    """No file of this process may grow beyond `room` bytes: what a full disk looks like to a writer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_checkpoint_before_intact(make):
    folder = make(train={"iterations": 3})
    train(folder, quiet=True)
    before = {p: p.read_bytes() for p in (folder / "checkpoints").iterdir()}
    change(folder, "iterations = 3", "iterations = 6")
    with full_disk(4096), pytest.raises(EngineError, match="cannot write") as caught:
        train(folder, quiet=True)
    assert "intact" in str(caught.value)
    assert {p: p.read_bytes() for p in (folder / "checkpoints").iterdir()} == before
    train(folder, quiet=True)
    assert max(state.checkpoints(folder / "checkpoints")) == 6


def test_another_network_is_not_continued_and_other_settings_are_named(make, capsys):
    folder = make(train={"iterations": 2})
    train(folder, quiet=True)
    change(folder, "iterations = 2", "iterations = 4")
    change(folder, "batch_size = 4", "batch_size = 6")
    train(folder)
    told = capsys.readouterr().err
    assert "data.batch_size changed since iteration 2: 4 became 6" in told
    assert "resuming after iteration 2" in told and "it/s" in told and "ETA" in told
    change(folder, "features = 8", "features = 9")
    with pytest.raises(UsageError, match=r"model.features: 8 became 9"):
        train(folder, quiet=True)


def test_tables_that_changed_are_not_tuned_on(make):
    folder = make()
    train(folder, quiet=True)
    export(folder, quiet=True)
    finetune(folder, quiet=True)
    change(folder, 'checkpoint_iter = "best"', "checkpoint_iter = 3")
    export(folder, quiet=True)
    if open_experiment(folder).config.export_lut.checkpoint_iter != state.newest(folder / "checkpoints").best:
        with pytest.raises(UsageError, match="tables that have changed"):
            finetune(folder, quiet=True)


def test_damaged_checkpoints_are_named(make):
    folder = make()
    train(folder, quiet=True)
    path = folder / "checkpoints" / "iter_00000006.pt"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(UsageError, match="not a readable checkpoint"):
        train(folder, quiet=True)
    torch.save({"x": 1}, path)
    with pytest.raises(UsageError, match="not a checkpoint of an experiment"):
        train(folder, quiet=True)


def test_random_states_come_back():
    import random

    kept = state.random_state()
    first = [random.random(), np.random.rand(), torch.rand(1).item()]
    state.restore_random(kept)
    assert [random.random(), np.random.rand(), torch.rand(1).item()] == first


def test_tensorboard_shows_scalars_and_images(make):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = make(train={"iterations": 3, "tensorboard": True})
    train(folder, quiet=True)
    seen = EventAccumulator(str(folder / "logs" / "train"), size_guidance={"images": 0})
    seen.Reload()
    assert {"train/loss", "train/PSNR", "train/learning_rate"} <= set(seen.Tags()["scalars"])
    assert {"train/bicubic", "train/restored", "train/target"} <= set(seen.Tags()["images"])


# --- what it is trained on


def test_validation_is_held_out_and_never_a_test_image(make):
    folder = make()
    experiment = open_experiment(folder)
    found = training_data(experiment)
    assert len(found.train) == 3 and len(found.valid) == 1
    assert not set(found.train.hashes) & set(found.valid.hashes)
    with pytest.raises(UsageError, match="train: scene000 is the test image Set5/butterfly"):
        names = dict(zip(found.train.hashes, found.train.names))
        training_data(experiment, {h: "Set5/butterfly" for h, name in names.items() if name == "scene000"})
    change(folder, 'train = ["../photos"]', 'train = ["../photos", "../bench/Scenes/HR"]')
    with pytest.raises(UsageError, match="is the test image Scenes/scene10"):
        train(folder, quiet=True)
    change(
        folder, 'train = ["../photos", "../bench/Scenes/HR"]', 'train = ["../photos"]\nvalid = ["../bench"]#'
    )
    change(folder, "valid = []", "# valid = []")
    with pytest.raises(UsageError, match="valid: Scenes/HR/scene100 is the test image"):
        train(folder, quiet=True)


def test_validation_images_are_taken_out_of_training(make):
    folder = make(data={"valid": ["../photos"]})
    with pytest.raises(UsageError, match="none is left to train on"):
        training_data(open_experiment(folder))


def test_no_folder_to_train_on(make):
    with pytest.raises(UsageError, match=r"fill in \[data\] train"):
        train(make(data={"train": []}), quiet=True)
    with pytest.raises(UsageError, match="no such folder"):
        train(make("other", data={"train": ["nowhere"]}), quiet=True)
    with pytest.raises(UsageError, match="smaller than a crop"):
        train(make("third", data={"crop_size": 40}), quiet=True)


def test_small_images_are_named(make, tmp_path, capsys):
    write_samples(tmp_path / "more", 3, rows=20, columns=90, first=50)
    train(make(data={"train": ["../photos", "../more"], "valid_share": 0.2}, train={"iterations": 1}))
    assert "images smaller than a crop: scene05" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no validation image has 32 x 32"):
        train(make("other", data={"valid": ["../more"]}), quiet=True)


def test_verbs_say_what_comes_first(make):
    folder = make()
    with pytest.raises(UsageError, match="lut train"):
        export(folder)
    with pytest.raises(UsageError, match="lut export"):
        finetune(folder)
    train(folder, quiet=True)
    change(folder, 'checkpoint_iter = "best"', "checkpoint_iter = 5")
    with pytest.raises(UsageError, match="no checkpoint of iteration 5"):
        export(folder)


def test_two_processes_train_as_one(make):
    alone, shared = make("alone"), make("shared")
    train(alone, quiet=True)
    launch = [
        sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
        "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0",
    ]  # fmt: skip
    done = subprocess.run(
        [*launch, "-m", "twinnet.restore.train", "-e", str(shared)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    one, two = state.newest(alone / "checkpoints"), state.newest(shared / "checkpoints")
    assert (len(one.randoms), len(two.randoms)) == (1, 2)
    for name, tensor in one.net.items():
        assert torch.allclose(tensor, two.net[name], atol=1e-5), name
    assert one.scores[-1]["score"] == pytest.approx(two.scores[-1]["score"], abs=1e-3)
    assert load(shared) == load(alone)
