"""The whole life of an experiment through the command line, on a handful of images: it must gain over bicubic."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

from twinnet.cli.main import app
from twinnet.lut.model import open_tables
from twinnet.restore.config import parse
from twinnet.restore.sample import write_samples


def call(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output + str(done.exception)
    return done.output


def test_train_export_finetune_eval_gains_over_bicubic(tmp_path):
    write_samples(tmp_path / "photos", 6, rows=128, columns=128)
    write_samples(tmp_path / "bench" / "Scenes", 2, rows=96, columns=96, first=100)
    folder = tmp_path / "models" / "mine"
    settings = {
        "data.benchmarks": "['Scenes', 'Set5']", "data.batch_size": 8, "data.crop_size": 20,
        "model.features": 16, "train.iterations": 250, "train.learning_rate": 0.005,
        "train.learning_rate_end": 0.0005, "train.validate_every": 125, "train.tensorboard": "false",
        "train.schedule": "cosine", "export_lut.dfc": "true", "finetune_lut.iterations": 60,
        "finetune_lut.validate_every": 60, "finetune_lut.tensorboard": "false", "finetune_lut.learning_rate": 0.002,
    }  # fmt: skip
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    call(
        "lut", "new", folder, "--yes", "--type", "srlut", "--scale", 2, "--train", tmp_path / "photos",
        "--bench", tmp_path / "bench", *words,
    )  # fmt: skip
    assert "best" in call("lut", "train", "-e", folder, "-q")
    assert "compressed.lut" in call("lut", "export", "-e", folder, "-q")
    assert "finetuned.lut" in call("lut", "finetune", "-e", folder, "-q")
    text = call("lut", "eval", "-e", folder, "-q")
    assert "skipped   Set5" in text

    result = json.loads((folder / "eval" / "results.json").read_text())
    rows = {row["model"]: row for row in result["rows"]}
    scores = {name.partition(",")[0]: row["scores"]["PSNR"] for name, row in rows.items()}
    ours = {"network", "tables", "compressed tables", "fine-tuned tables"}
    assert set(scores) == {"bicubic", "cubic", "Lanczos", *ours}
    assert scores["network"] > scores["bicubic"] + 0.5, scores
    assert scores["tables"] > scores["bicubic"] + 0.4, scores
    assert scores["fine-tuned tables"] > scores["tables"] + 0.1, scores
    assert rows["compressed tables"]["bytes"] < 0.2 * rows["tables"]["bytes"]
    assert result["missing"] == ["Set5"]

    # The config goes with everything that was made from it.
    config = (folder / "config.toml").read_text()
    assert result["config"] == config
    for kind in ("exported", "compressed", "finetuned"):
        content = open_tables(folder / "lut" / f"{kind}.lut.safetensors")
        assert parse(content.config) == parse(config) and content.tuned == (kind == "finetuned")

    with (folder / "eval" / "results.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(scores) * 3  # two images and their mean
    means = {line["model"]: float(line["PSNR"]) for line in lines if not line["image"]}
    assert means["bicubic"] == pytest.approx(scores["bicubic"], abs=1e-5)
    assert "| bicubic |" in (folder / "eval" / "results.md").read_text()
    page = (folder / "eval" / "index.html").read_text()
    assert page.count("<img") == 1 and "http" not in page.replace("http-equiv", "")
    assert list((folder / "eval").glob("crops-Scenes-*.png"))
