"""`lut fit` and `lut search` on an experiment: files, figures, interruptions, mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from twinnet import lut
from twinnet.cli.main import app
from twinnet.errors import UsageError
from twinnet.lut.executors import make
from twinnet.lut.file import read
from twinnet.lut.plan import Plan
from twinnet.restore.config import parse, template
from twinnet.restore.experiment import open_experiment
from twinnet.restore.finetune import finetune
from twinnet.restore.fit import fit
from twinnet.restore.fit import run as running
from twinnet.restore.fit.images import FitImages
from twinnet.restore.fit.search import Pool, candidates
from twinnet.restore.new import new
from twinnet.restore.sample import write_samples

STAGES = [
    {"patterns": "V", "upscale": 2, "interval": 6},
    {"patterns": [[[0, 0], [0, 1], [1, 0]]], "upscale": 2, "cell": 2, "interval": 6},
]


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    write_samples(tmp_path / "train", 5, rows=64, columns=64)
    write_samples(tmp_path / "valid", 1, rows=64, columns=64, first=30)
    values = {
        "model": {"scale": 2},
        "data": {"train": [str(tmp_path / "train")], "valid": [str(tmp_path / "valid")]},
        "fit": {"preset": "own", "stages": STAGES, "iterations": [3]},
    }
    new(tmp_path / "exp", values)
    return tmp_path / "exp"


def test_a_fit_leaves_tables_that_say_what_they_are(experiment: Path) -> None:
    done = CliRunner().invoke(app, ["lut", "fit", "-e", str(experiment)])
    assert done.exit_code == 0, done.output
    assert "dB as deployed" in done.output
    content = read(experiment / "lut" / "fitted.lut.safetensors")
    assert content.config == (experiment / "config.toml").read_text()
    assert content.plan.scale == 2
    assert "least squares" in content.notes[0]
    assert not (experiment / "lut" / "fitting.lut.safetensors").exists()
    assert lut.load(experiment / "lut" / "fitted.lut.safetensors")(np.zeros((6, 7), np.uint8)).shape == (
        12,
        14,
    )


def test_an_interrupted_fit_goes_on(experiment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit(experiment, quiet=True)
    tables = {name: table.values for name, table in whole.result.plan.tables.items()}
    whole.path.unlink()
    real, seen = running.fit_cascade, []

    def stopped(stages, images, settings, watch, begin, keep):
        def then(result) -> None:
            keep(result)
            raise KeyboardInterrupt

        seen.append(len(stages))
        return real(stages, images, settings, watch, begin, then)

    monkeypatch.setattr(running, "fit_cascade", stopped)
    with pytest.raises(KeyboardInterrupt):
        fit(experiment, quiet=True)
    assert not whole.path.exists()
    again = fit(experiment, quiet=True)
    assert seen == [2, 1]  # the second time only the stage that was missing
    for name, table in again.result.plan.tables.items():
        np.testing.assert_array_equal(table.values, tables[name])
    assert [s.name for s in again.result.stages] == ["stage1", "stage2"]


def test_patterns_are_found(experiment: Path) -> None:
    arguments = [
        "lut",
        "search",
        "-e",
        str(experiment),
        "--stage",
        "2",
        "--tables",
        "1",
        "--among",
        "4",
        "--share",
        "1",
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "error" in done.output and "[[" in done.output
    with pytest.raises(UsageError, match="no stage 5"):
        CliRunner().invoke(app, [*arguments[:4], "--stage", "5"], catch_exceptions=False)


def test_candidates_differ_by_more_than_a_turn() -> None:
    found = candidates(pool=Pool(10_000, window=2))
    assert all(taps[0] == (0, 0, 0) and len(set(taps)) == 4 for taps in found)
    turned = set()
    for taps in found:
        for r in range(4):
            image = frozenset(((y, x), (x, -y), (-y, -x), (-x, y))[r] for y, x, _ in taps)
            assert r != 0 or image not in turned
            turned.add(image)
    lines = [frozenset({(0, 0), (-2, 0), (-1, 0), (1, 0)}), frozenset({(0, 0), (0, 1), (1, 0), (1, 1)})]
    assert all(line in turned for line in lines)
    assert len(candidates(2, 2, Pool(30, window=1))) == 30


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"preset": "huge"}, "preset"),
        ({"preset": "own"}, "at least one stage"),
        ({"preset": "own", "stages": [{"patterns": "s", "upscale": 2}]}, "give x2"),
        ({"preset": "own", "stages": [{"patterns": "zz", "upscale": 4}]}, "no pattern"),
        ({"stages": [{"patterns": "s", "upscale": 4}]}, "its own stages"),
        ({"iterations": [0]}, "iterations"),
        ({"shares": [1.5]}, "shares"),
    ],
)
def test_mistakes_in_the_config_name_their_line(section: dict, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        parse(template({"fit": section}))
    assert "config.toml:" in str(caught.value)


def test_fitted_tables_are_tuned_together_on_the_same_images(experiment: Path) -> None:
    config = experiment / "config.toml"
    settings = (
        ("[finetune_lut]", 'table = "fitted"', "iterations = 100", "learning_rate = 1e-3", "learning_rate_end = 0.0",
         'rounding = "deploy"'),
        ("[data]", "crop_size = 16", "batch_size = 8"),
        ("[fit]", 'planes = "all"'),
    )  # fmt: skip
    text = config.read_text()
    for section, *lines in settings:
        for line in lines:
            key = line.split(" = ")[0]
            head, tail = text.split(section, 1)
            text = head + section + re.sub(rf"(?m)^{key} = .*$", line, tail, count=1)
    config.write_text(text)
    with pytest.raises(UsageError, match="no fitted tables") as refused:
        finetune(experiment, quiet=True)
    assert refused.value.hint == f"twinnet lut fit -e {experiment}"

    fitted = fit(experiment, quiet=True)
    tuned = finetune(experiment, quiet=True)
    assert tuned.name == "finetuned-fitted.lut.safetensors"
    plan = read(tuned).plan
    changed = [
        stage.name
        for stage in plan.stages
        if any(
            (plan.tables[t.table].values != fitted.result.plan.tables[t.table].values).any()
            for t in stage.terms
        )
    ]
    assert changed == ["stage1", "stage2"]
    train, _ = running.fit_images(open_experiment(experiment), quiet=True)
    assert _error(plan, train) < _error(fitted.result.plan, train)


def _error(plan: Plan, images: FitImages) -> float:
    """Every image counts the same, as it does for crops."""
    executor = make(plan)
    pairs = zip(images.inputs, images.goods)
    return float(
        np.mean([((executor.run(low[None])[0, 0].astype(float) - good) ** 2).mean() for low, good in pairs])
    )
