"""Whole cascades: they gain over bicubic, stages help, and what comes out is an ordinary file of tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from twinnet import lut
from twinnet.errors import UsageError
from twinnet.lut.executors import make
from twinnet.lut.file import LutFile, read, write
from twinnet.restore.fit import FitImages, FitStage, Settings, check_stages, fit_cascade, preset
from twinnet.restore.sample import scene
from twinnet.restore.tasks.denoise import Denoise
from twinnet.restore.tasks.sr import SuperResolution

QUICK = Settings(iterations=(4, 4, 6), shares=(1.0,))


def error(images: FitImages, restore) -> float:
    total = sum(
        float(((restore(a).astype(float) - b) ** 2).sum()) for a, b in zip(images.inputs, images.goods)
    )
    return float(np.sqrt(total / sum(b.size for b in images.goods)))


def test_a_cascade_gains_over_bicubic_and_deploys(
    scenes: tuple[FitImages, FitImages], tmp_path: Path
) -> None:
    train, valid = scenes
    result = fit_cascade([FitStage("P1+P2", 2), FitStage("Q1", 4, 2)], (train, valid), QUICK)
    path = write(LutFile(result.plan, "tiny", "sr"), tmp_path / "t.lut.safetensors")
    model = lut.load(path)
    plain = error(valid, SuperResolution(4).plain)
    mine = error(valid, model)
    assert mine < 0.95 * plain
    # The figure reported is that of the tables before the last rounding, which costs next to nothing.
    assert result.stages[-1].error == pytest.approx(mine, rel=0.01)
    for name in ("numpy", "reference"):
        low = valid.inputs[0][:20, :20]
        np.testing.assert_array_equal(make(result.plan, name).run(low[None])[0, 0], model(low))
    net = read(path).net()
    np.testing.assert_array_equal(net.predict(valid.inputs[0]), model(valid.inputs[0]))
    assert (result.lookups, result.nbytes) == (12, 2 * 6561 * 4 + 6561 * 16)


def test_a_second_stage_helps(scenes: tuple[FitImages, FitImages]) -> None:
    train, valid = scenes
    first = fit_cascade([FitStage("P1", 4)], (train, valid), QUICK)
    second = fit_cascade([FitStage("P1", 2), FitStage("Q1", 4, 2)], (train, valid), QUICK)
    assert second.stages[-1].error < first.stages[-1].error


def test_stages_can_be_added_to_a_fit(scenes: tuple[FitImages, FitImages]) -> None:
    train, valid = scenes
    stages = [FitStage("V", 2), FitStage("R3", 4, 2, interval=6)]
    whole = fit_cascade(stages, (train, valid), QUICK)
    halves = [FitImages(i.inputs, tuple(i.targets(2)), 2) for i in (train, valid)]
    begun = fit_cascade(stages[:1], (halves[0], halves[1]), QUICK)
    grown = fit_cascade(stages[1:], (train, valid), QUICK, begin=begun)
    for name, table in whole.plan.tables.items():
        np.testing.assert_array_equal(table.values, grown.plan.tables[name].values)


def test_noise_and_several_sources() -> None:
    images = FitImages.of_task(Denoise(25), [scene(k, 96, 96) for k in range(4)])
    mixed = [[[0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]]
    stages = [FitStage("P1+P2", interval=6), FitStage(mixed, interval=6, sources=("stage1", "input"))]
    result = fit_cascade(stages, (images, images), QUICK)
    assert result.stages[1].error < result.stages[0].error < 0.6 * error(images, lambda low: low)
    assert {plane.register for plane in result.plan.stages[1].terms[0].sample.planes} == {"stage1", "input"}


def test_banded_tables_deploy(scenes: tuple[FitImages, FitImages]) -> None:
    train, valid = scenes
    result = fit_cascade([FitStage("s", 4, interval=4, band=1)], (train, valid), QUICK)
    (table,) = result.plan.tables.values()
    assert table.banded
    assert result.stages[0].error == pytest.approx(
        error(valid, lambda p: make(result.plan).run(p[None])[0, 0]), rel=0.01
    )


@pytest.mark.parametrize("scale", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["tiny", "small", "default", "best"])
def test_presets_fit_their_scale(name: str, scale: int) -> None:
    check_stages(preset(name, scale), scale)


@pytest.mark.parametrize(
    ("stages", "scale", "complaint"),
    [
        ([], 4, "at least one stage"),
        ([FitStage("s", 2)], 4, "give x2"),
        ([FitStage("s", 3), FitStage("s", 4, 3)], 4, "no target on the way"),
        ([FitStage("s", 4, 2)], 4, "do not divide"),
        ([FitStage("s", 2), FitStage("s", 4, 2, sources=("stage7",))], 4, "no earlier stage writes"),
        ([FitStage("s", 2), FitStage("s", 2, sources=("stage1", "input"))], 4, "different sizes"),
        ([FitStage([[[0, 0, 1], [0, 1, 0]]], 4)], 4, "reads source 1"),
        ([FitStage("nothing", 4)], 4, "no pattern"),
        ([FitStage("s+y", 4, interval=(4,))], 4, "as many intervals"),
    ],
)
def test_impossible_cascades_are_refused(stages: list[FitStage], scale: int, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        check_stages(stages, scale)


def test_images_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="no images"):
        FitImages.of_task(SuperResolution(4), [])
    with pytest.raises(UsageError, match="does not go with"):
        FitImages((np.zeros((3, 3), np.uint8),), (np.zeros((4, 4), np.uint8),), 2)
    with pytest.raises(UsageError, match="planes"):
        FitImages.of_task(SuperResolution(2), [scene(0, 32, 32)], planes="some")
