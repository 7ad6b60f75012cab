"""Every kind of network and every task goes through training, export, compression and fine-tuning."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from twinnet.errors import EngineError
from twinnet.lut.file import read
from twinnet.lut.model import LutModel
from twinnet.restore import state
from twinnet.restore.building import build
from twinnet.restore.config import parse, template
from twinnet.restore.export import compress, export
from twinnet.restore.finetune import deployed, finetune
from twinnet.restore.new import RECIPES
from twinnet.restore.predict import predict
from twinnet.restore.sample import scene
from twinnet.restore.steps import TableStep
from twinnet.restore.train import train

KINDS = {
    "srlut": {"type": "srlut", "padding": "reflect"},
    "two stages": {"type": "mulut", "modes": "sd", "stages": 2},
    "cascade": {
        "type": "cascade", "scale": 4,
        "cascade": [
            {"patterns": "P1+P2", "upscale": 2, "interval": 6},
            {"patterns": "Q1", "upscale": 4, "cell": 2, "interval": 6},
        ],
    },
    "spf": {"type": "spf"},
    "auto-mulut": {"type": "auto-mulut", "stages": 2, "sample_size": 3, "activation": "gelu"},
    "auto-spf": {"type": "auto-spf", "sample_size": 3},
    "denoise": {"task": "denoise", "scale": 1},
    "deblock": {"task": "deblock", "scale": 1},
    "deblur": {"task": "deblur", "scale": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_the_whole_way(make, name):
    folder = make(
        model={"features": 4, **KINDS[name]},
        data={"batch_size": 2, "crop_size": 8},
        train={"iterations": 2, "validate_every": 2, "validate_crop": 32, "learning_rate": 0.01},
        export_lut={"interval": 6, "dfc": True, "dfc_axes": "xy", "dfc_width": 1, "dfc_interval": 7},
        finetune_lut={"iterations": 2, "table": "compressed", "validate_crop": 32, "learning_rate": 0.05},
    )
    assert np.isfinite(train(folder, quiet=True)[-1]["score"])
    exported, compressed = export(folder, quiet=True)
    assert compress(folder) == compressed
    tuned = finetune(folder, quiet=True)
    assert tuned.name == "finetuned-compressed.lut.safetensors"
    before, after = read(compressed), read(tuned)
    assert after.tuned and after.network == before.network == read(exported).network
    changed = [
        name for name, table in after.plan.tables.items()
        if not np.array_equal(table.values, before.plan.tables[name].values)
        or not np.array_equal(table.coarse, before.plan.tables[name].coarse)
    ]  # fmt: skip
    assert changed == list(after.plan.tables)
    if name.startswith("auto"):
        assert before.floats and any(not np.array_equal(after.floats[k], v) for k, v in before.floats.items())
    image = scene(5, 12, 14)[..., 0]
    assert np.array_equal(LutModel(after)(image), deployed(after.net())(image))


def test_samplers_can_be_left_alone(make):
    folder = make(
        model={"features": 4, "type": "auto-mulut", "stages": 2, "sample_size": 3, "modes": "s"},
        data={"batch_size": 2, "crop_size": 8},
        train={"iterations": 1},
        export_lut={"interval": 6, "dfc": False},
        finetune_lut={"iterations": 2, "learning_rate": 0.05, "samplers": False, "rounding": "deploy"},
    )
    train(folder, quiet=True)
    (exported,) = export(folder, quiet=True)
    before, after = read(exported), read(finetune(folder, quiet=True))
    for key, value in before.floats.items():
        used = value.clip(0, 1) if key.endswith(".residual.weight") else value
        assert np.array_equal(after.floats[key], used)


def test_both_kernels_make_the_same_tables(make):
    found = []
    for kernel in ("torch", "native"):
        folder = make(kernel, finetune_lut={"kernel": kernel, "learning_rate": 0.05})
        train(folder, quiet=True)
        export(folder, quiet=True)
        found.append(read(finetune(folder, quiet=True)))
        assert state.newest(folder / "finetune").iteration == 4
    for name, table in found[0].plan.tables.items():
        assert np.abs(table.values.astype(int) - found[1].plan.tables[name].values).max() <= 1


def test_a_network_the_native_kernels_cannot_run():
    from twinnet.lut import export as tabulate
    from twinnet.restore.nets import mulut

    net = tabulate(mulut.build("V", stages=1, scale=2, width=4, interpolation="multilinear"))
    assert TableStep(net).kernel == "torch"
    with pytest.raises(EngineError, match="multilinear"):
        TableStep(net, "native")


@pytest.mark.parametrize("name", KINDS)
def test_strips_are_seamless(name, monkeypatch):
    from twinnet.restore import predict as module

    net = build(parse(template({"model": {"features": 4, "modes": "s", **KINDS[name]}}))).eval()
    image = scene(3, 26, 19)
    whole = predict(net, image)
    monkeypatch.setattr(module, "_SITES", 19 * 4)
    strips = predict(net, image)
    # Sums over other batch sizes may round the other way; nothing else may change at a seam.
    gap = np.abs(whole.astype(int) - strips)
    assert gap.max() <= 2 and (gap > 0).mean() < 0.01
    assert predict(net, image[..., 0]).shape == whole.shape[:2]


def test_weights_follow_from_the_seed():
    one, two = (build(parse(template({"train": {"seed": seed}}))) for seed in (3, 3))
    other = build(parse(template({"train": {"seed": 4}})))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters()))
    assert not all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters()))


def test_published_recipes():
    for kind, values in RECIPES.items():
        given = {**values, "model": {**values.get("model", {}), "type": kind}}
        config = parse(template(given))
        assert build(config).scale == 4
        assert (config.train.iterations, config.data.batch_size, config.data.crop_size) == (200_000, 32, 48)
    mulut = build(parse(template()))
    assert sum(p.numel() for p in mulut.parameters()) == 265_587
    srlut = parse(template({**RECIPES["srlut"], "model": {**RECIPES["srlut"]["model"], "type": "srlut"}}))
    assert sum(p.numel() for p in build(srlut).parameters()) == 18_000
    assert (srlut.train.learning_rate, srlut.train.schedule) == (1e-4, "constant")


def test_mixed_precision(make):
    plain, mixed = make("plain"), make("mixed", train={"precision": "bf16"})
    scores = [train(folder, quiet=True)[-1]["score"] for folder in (plain, mixed)]
    assert scores[0] == pytest.approx(scores[1], abs=1.0) and scores[0] != scores[1]
    export(mixed, quiet=True)
    assert finetune(mixed, quiet=True).is_file()
