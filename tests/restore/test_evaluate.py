"""Scores as published, beside models of others; what is missing is named and skipped."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from tests.needs import need_data, need_engine
from twinnet.errors import UsageError
from twinnet.restore.benchmarks import find_benchmarks
from twinnet.restore.candidates import Candidate, compared
from twinnet.restore.evaluate import evaluate, score
from twinnet.restore.experiment import open_experiment
from twinnet.restore.gallery import side_by_side
from twinnet.restore.results import lines, markdown
from twinnet.restore.tasks.sr import SuperResolution


def published(make, name, scale=4, bench="images/bench"):
    root = need_data(*bench.split("/"))
    return open_experiment(
        make(name, model={"scale": scale}, data={"bench": str(root), "benchmarks": ["Set5", "Urban100"]})
    )


def test_published_tables_have_their_published_scores(make):
    experiment = published(make, "exp")
    found, missing = find_benchmarks(experiment)
    assert [b.name for b in found] == ["Set5"] and missing == ["Urban100"]
    task = SuperResolution(4)
    models = [
        Candidate("bicubic", task.plain),
        compared(str(need_data("lut-data", "MuLUT", "sr_x2sdy")), task),
        compared(str(need_data("lut-data", "SR-LUT", "Model_S_x4_4bit_int8.npy")), task),
    ]
    rows, shown = score(task, found, models)
    psnr = {row.model: row.scores["PSNR"] for row in rows}
    ssim = {row.model: row.scores["SSIM"] for row in rows}
    assert psnr["bicubic"] == pytest.approx(28.43, abs=0.01)
    assert psnr["sr_x2sdy"] == pytest.approx(30.6078, abs=0.0005)
    assert ssim["sr_x2sdy"] == pytest.approx(0.8656, abs=0.0001)
    assert psnr["Model_S_x4_4bit_int8.npy"] == pytest.approx(29.83, abs=0.02)
    assert [row.bytes for row in rows] == [None, 4_259_571 + 6 * 128, 1_336_336 + 128]  # with their headers
    assert list(shown) == ["Set5/butterfly"] and len(rows[0].images) == 5


def test_models_of_others_in_the_same_table(make):
    need_engine("onnxruntime")
    root = need_data("sr-peers")
    task = SuperResolution(3)
    found, _ = find_benchmarks(published(make, "exp", scale=3))
    specs = ("fsrcnn-onnx/FSRCNN_x3.onnx", "fsrcnn/FSRCNN_x3.pb", "nt-espcn/ESPCN-NT_x3.onnx?colour=ycbcr")
    rows, _ = score(task, found, [compared(str(root / spec), task) for spec in specs])
    onnx, opencv, colours = (row.scores["PSNR"] for row in rows)
    assert onnx == pytest.approx(opencv, abs=0.001) and onnx == pytest.approx(30.60, abs=0.01)
    assert colours > 30.5
    assert rows[1].bytes == (root / "fsrcnn" / "FSRCNN_x3.pb").stat().st_size
    gray = compared(str(root / "fsrcnn" / "FSRCNN_x3.pb"), task).restore(np.zeros((8, 9), np.uint8))
    assert gray.shape == (24, 27)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere.onnx", "no such file"),
        ("text.onnx", "not an ONNX model"),
        ("text.pb", "not a graph that OpenCV reads"),
        ("text.bin", "not a model that can be compared"),
        ("text.onnx?colour=blue", "is not valid"),
    ],
)
def test_files_that_cannot_be_compared(tmp_path, name, why):
    if not name.startswith("nowhere"):
        (tmp_path / name.partition("?")[0]).write_text("text")
    with pytest.raises(UsageError, match=why):
        compared(str(tmp_path / name), SuperResolution(2))


def test_a_folder_is_looked_through_and_what_does_not_run_says_why(finished, tmp_path):
    others = tmp_path / "others" / "deeper"
    others.mkdir(parents=True)
    (others / "broken_x2.onnx").write_text("text")
    (others / "other_x3.onnx").write_text("text")
    (others / "notes.txt").write_text("text")
    copy = others / "mine.lut.safetensors"
    copy.write_bytes((finished / "lut" / "exported.lut.safetensors").read_bytes())
    result = evaluate(
        finished, compare=[str(tmp_path / "others")], network=False, out=tmp_path / "o", quiet=True
    )
    rows = {row.model: row for row in result.rows}
    assert "not an ONNX model" in rows["broken_x2.onnx"].failed and not rows["broken_x2.onnx"].scores
    assert rows["mine"].scores == rows["tables"].scores and "other_x3.onnx" not in rows
    assert any(line.startswith("broken_x2.onnx") and "not run:" in line for line in lines(result))
    (line,) = (
        x for x in (tmp_path / "o" / "results.csv").read_text().splitlines() if ",broken_x2.onnx," in x
    )
    assert line.startswith("Scenes,,broken_x2.onnx,,,") and "not an ONNX model" in line
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no models for x2"):
        evaluate(finished, compare=[str(tmp_path / "empty")], out=tmp_path / "o", quiet=True)


def test_a_model_that_fails_half_way_leaves_the_others_alone(make):
    from twinnet.errors import EngineError

    task, seen = SuperResolution(2), []

    def restore(low):
        seen.append(low)
        if len(seen) == 2:
            raise EngineError("out of breath")
        return task.plain(low)

    found, _ = find_benchmarks(open_experiment(make()))
    rows, shown = score(task, found, [Candidate("bicubic", task.plain), Candidate("weak", restore)])
    assert [row.failed for row in rows] == ["", "out of breath"]
    assert rows[0].scores and not rows[1].scores and not rows[1].images
    assert next(iter(shown.values())).keys() >= {"bicubic", "target"}


def test_tables_of_another_scale_are_refused(finished):
    with pytest.raises(UsageError, match="enlarges x2, but this experiment x4"):
        compared(str(finished / "lut" / "exported.lut.safetensors"), SuperResolution(4))


def test_everything_made_is_scored(finished, tmp_path):
    result = evaluate(
        finished,
        compare=[str(finished / "lut" / "exported.lut.safetensors")],
        out=tmp_path / "out",
        quiet=True,
    )
    names = [row.model for row in result.rows]
    assert names[:3] == ["bicubic", "cubic, OpenCV", "Lanczos, OpenCV"]
    assert names[3].startswith("network, iteration ")
    assert names[4:] == ["tables", "compressed tables", "fine-tuned tables", "exported"]
    by_name = {row.model: row for row in result.rows}
    assert by_name["tables"].scores == by_name["exported"].scores
    assert any(line.startswith("fine-tuned tables") for line in lines(result))
    assert "| fine-tuned tables |" in markdown(result)
    without = evaluate(finished, network=False, out=tmp_path / "out", quiet=True)
    assert not any(row.model.startswith("network") for row in without.rows)


def test_several_files_after_one_option_and_equal_names(finished, tmp_path):
    from typer.testing import CliRunner

    from twinnet.cli.main import app

    file = str(finished / "lut" / "exported.lut.safetensors")
    words = ["lut", "eval", "-e", str(finished), "--no-network", "-q", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*words, "--compare", file, file])
    assert done.exit_code == 0, done.output
    names = [line.split("  ")[0] for line in done.output.splitlines()]
    assert "exported" in names and "exported (2)" in names
    assert "unexpected argument" in str(CliRunner().invoke(app, [*words, file]).exception)


def test_no_test_set_at_all(make):
    with pytest.raises(UsageError, match=r"no test set of this task.*Scenes"):
        evaluate(make(data={"bench": ""}))


def test_layouts_of_test_sets(make, tmp_path):
    folder = make(data={"bench": "../sets", "benchmarks": ["Set5", "Plain", "Empty"]})
    image = np.random.default_rng(0).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    for where in ("Set5/HR", "Set5/LR_bicubic/X2", "Plain", "Empty"):
        (tmp_path / "sets" / where).mkdir(parents=True)
    Image.fromarray(image).save(tmp_path / "sets/Set5/HR/a.png")
    Image.fromarray(image[:6, :6]).save(tmp_path / "sets/Set5/LR_bicubic/X2/ax2.png")
    Image.fromarray(image[..., 0]).save(tmp_path / "sets/Plain/b.bmp")
    found, missing = find_benchmarks(open_experiment(folder))
    assert missing == ["Empty"]
    ((name, low, good),) = found[0].pairs(SuperResolution(2))
    assert name == "a" and np.array_equal(low, image[:6, :6]) and np.array_equal(good, image)
    ((_, low, good),) = found[1].pairs(SuperResolution(2))
    assert low.shape == (6, 6) and good.shape == (12, 12)
    Image.fromarray(image[:5, :5]).save(tmp_path / "sets/Set5/LR_bicubic/X2/ax2.png")
    with pytest.raises(UsageError, match="Set5/a"):
        list(found[0].pairs(SuperResolution(2)))


def test_crops_side_by_side_of_gray_and_small_images():
    gray = np.zeros((20, 90), np.uint8)
    gray[5:9, 70:80] = 200
    sheet = side_by_side({"plain": gray, "network": np.zeros_like(gray), "target": np.zeros_like(gray)})
    assert sheet.shape == (20 * 3 + 18, 3 * (64 * 3 + 4), 3)
    assert (sheet[18:, :192] == 200).any() and not (sheet[18:, 196:388] == 200).any()


@pytest.mark.parametrize(
    ("task", "data", "bench", "score"),
    [
        ("denoise", {"sigma": 25.0}, "Set12", 20.37),
        ("deblock", {"quality": 20}, "classic5", 30.12),
    ],
)
def test_other_tasks_on_their_test_sets(make, task, data, bench, score):
    root = need_data("images", "bench")
    folder = make(model={"task": task, "scale": 1}, data={**data, "bench": str(root), "benchmarks": [bench]})
    result = evaluate(folder, quiet=True)
    row, *filters = result.rows
    assert row.scores["PSNR"] == pytest.approx(score, abs=0.01)
    assert ("PSNR-B" in row.scores) == (task == "deblock")
    assert [other.model.partition(",")[0] for other in filters] == [
        "Gaussian",
        "bilateral",
        "non-local means",
    ]
    assert all(other.scores["PSNR"] > row.scores["PSNR"] + 0.1 for other in filters)


def test_an_image_too_small_to_be_scored_is_named(make, tmp_path):
    (tmp_path / "sets" / "Tiny").mkdir(parents=True)
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "sets/Tiny/dot.png")
    with pytest.raises(UsageError, match="Tiny/dot cannot be scored"):
        evaluate(make(data={"bench": "../sets", "benchmarks": ["Tiny"]}), quiet=True)


def test_another_folder_of_test_sets_than_the_config_names(make, tmp_path):
    from typer.testing import CliRunner

    from twinnet.cli.main import app

    experiment = make(
        "exp", model={"scale": 2}, data={"bench": str(tmp_path / "nowhere"), "benchmarks": ["mine"]}
    )
    (tmp_path / "sets" / "mine").mkdir(parents=True)
    rows, columns = np.mgrid[:48, :64]
    Image.fromarray(((rows * columns) % 256).astype(np.uint8)).save(tmp_path / "sets" / "mine" / "a.png")
    with pytest.raises(UsageError, match="no test set of this task was found: mine"):
        evaluate(experiment, quiet=True)
    words = ["lut", "eval", "-e", str(experiment), "--bench", str(tmp_path / "sets"), "-q"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and "mine" in done.output, done.output
    refused = CliRunner().invoke(app, [*words, "--scale", "3"])
    assert "--scale goes with --task" in str(refused.exception)
