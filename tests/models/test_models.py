"""Shipped tables: the verbs find them, and they do what their cards say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from twinnet import models
from twinnet.cli.main import app
from twinnet.errors import UsageError
from twinnet.lut.model import load
from twinnet.restore.sample import scene, write_samples

HERE = Path(models.__file__).parent


def test_all_shipped_files_fit_into_the_package() -> None:
    assert sum(path.stat().st_size for path in HERE.rglob("*") if path.suffix != ".py") <= 16 << 20


def test_the_verb_names_the_result_after_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Image.fromarray(scene(1, 12, 14)).save("in.png")
    done = CliRunner().invoke(app, ["lut", "run", "in.png", "--task", "sr", "--quality", "fast"])
    assert done.exit_code == 0, done.output
    assert Image.open("in-sr-x4-fast.png").size == (56, 48)


def test_the_verb_needs_no_file(tmp_path: Path) -> None:
    Image.fromarray(scene(1, 30, 40)).save(tmp_path / "in.png")
    out = tmp_path / "out.png"
    done = CliRunner().invoke(app, ["lut", "run", str(tmp_path / "in.png"), "--task", "sr", "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert Image.open(out).size == (160, 120)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--task", "denoise", "--sigma", "25"], "denoise-25"),
        (["--task", "deblock", "--jpeg-quality", "20"], "deblock-20"),
        (["--task", "sr", "--scale", "2", "--quality", "fast"], "sr-x2-fast"),
    ],
)
@pytest.mark.parametrize("kind", ["RGB", "L", "RGBA"])
def test_every_task_on_photos_of_every_kind(
    words: list[str], name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    photo = Image.fromarray(scene(1, 24, 32)).convert(kind)
    photo.save("in.png")
    done = CliRunner().invoke(app, ["lut", "run", "in.png", *words])
    assert done.exit_code == 0, done.output
    made, scale = Image.open(f"in-{name}.png"), 2 if "x2" in name else 1
    assert made.mode == kind and made.size == (32 * scale, 24 * scale)
    model, pixels = load(HERE / name / f"{name}.lut.safetensors"), np.asarray(photo)
    planes = pixels[..., None] if kind == "L" else pixels[..., :3]
    shown = np.asarray(made)[..., None] if kind == "L" else np.asarray(made)[..., :3]
    for c in range(planes.shape[2]):
        assert np.array_equal(shown[..., c], model(np.ascontiguousarray(planes[..., c])))


def test_a_jpeg_does_not_become_a_jpeg_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Image.fromarray(scene(1, 24, 32)).save("in.jpg", quality=20)
    done = CliRunner().invoke(app, ["lut", "run", "in.jpg", "--task", "deblock"])
    assert done.exit_code == 0, done.output
    assert Image.open("in-deblock-20.png").format == "PNG" and "quality   20: tables for 20" in done.output


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [
        (["--task", "sr", "--sigma", "15"], "--sigma goes with --task denoise", "--scale, --quality"),
        (["--task", "deblock", "--quality", "20"], "--quality goes with --task sr", "--jpeg-quality"),
        (["--task", "denoise", "--sigma", "17"], "sigma 17", "15 is nearest"),
        (["--task", "sr", "--scale", "8"], "x8", "2, 3 or 4"),
        (["--task", "colourise"], "colourise", "sr, denoise or deblock"),
        (["--table", "a.npy", "--scale", "2"], "--scale applies only to", "leave out"),
        ([], "choose tables", "sr, denoise, deblock"),
    ],
)
def test_wrong_words_are_answered_with_the_right_ones(words: list[str], what: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        CliRunner().invoke(app, ["lut", "run", "a.png", *words], catch_exceptions=False)
    assert what in caught.value.what and hint in str(caught.value.hint)


def test_tables_that_are_not_there_name_those_that_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(models, "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / "denoise-25").mkdir()
    (tmp_path / "denoise-25" / "denoise-25.lut.safetensors").touch()
    with pytest.raises(UsageError, match="no tables named denoise-50") as caught:
        models.find("denoise", level=50)
    hint = str(caught.value.hint)
    assert "denoise-25" in hint and "--table" in hint and "tools.shipped_tables.make denoise-50" in hint


def test_shipped_tables_are_scored_beside_others(tmp_path: Path) -> None:
    bench = tmp_path / "bench"
    write_samples(bench / "Set12", 2, rows=48, columns=48, first=30)
    words = ["lut", "eval", "--task", "denoise", "--sigma", "25", "-q", "--bench"]
    mine = str(models.find("denoise", level=25))
    done = CliRunner().invoke(app, [*words, str(bench), "--compare", mine, "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    rows = [line for line in done.output.splitlines() if line.startswith("denoise-25")]
    assert len(rows) == 2 and rows[0].split()[1] == rows[1].split()[2] and "BSD68" in done.output
    assert (tmp_path / "out" / "index.html").is_file()
    for wrong, why in ((["lut", "eval"], "nothing to score"), (words[:-1], "no test sets given")):
        with pytest.raises(UsageError, match=why):
            CliRunner().invoke(app, wrong, catch_exceptions=False)
    with pytest.raises(UsageError, match="no test set of this task"):
        CliRunner().invoke(app, [*words, str(tmp_path)], catch_exceptions=False)


def test_questions_without_an_answer() -> None:
    with pytest.raises(UsageError, match="no quality"):
        models.find("sr", quality="superb")
