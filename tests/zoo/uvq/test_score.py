"""From frames to scores, on synthetic videos and images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from tests.uvq import aggregation_net
from twinnet.errors import MissingExtra, UsageError
from twinnet.zoo.uvq import ContentNet, calibrate, distortionnet, load_uvq
from twinnet.zoo.uvq.frames import count_frames, read_frames
from twinnet.zoo.uvq.score import joined, patches, to_input


def picture(seed: int, height: int, width: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of weights: real ones for the last network, calibrated ones for the others."""
    folder = tmp_path_factory.mktemp("weights")
    content = ContentNet().eval()
    calibrate(content)
    for name, net in {
        "content": content,
        "distortion": distortionnet(),
        "aggregation": aggregation_net(),
    }.items():
        torch.save(net.state_dict(), folder / f"{name}_net.pth")
    return folder


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seconds at 5 frames a second, each second of another colour."""
    av: Any = pytest.importorskip("av")
    path = tmp_path_factory.mktemp("video") / "v.mp4"
    with av.open(str(path), "w") as writer:
        stream = writer.add_stream("libx264", rate=5, options={"crf": "10"})
        stream.width, stream.height, stream.pix_fmt = 96, 54, "yuv420p"
        for number in range(10):
            colour = np.full((54, 96, 3), (200, 40, 40) if number < 5 else (40, 40, 200), np.uint8)
            writer.mux(stream.encode(av.VideoFrame.from_ndarray(colour, format="rgb24")))
        writer.mux(stream.encode())
    return path


def test_patches_and_their_features_keep_their_places() -> None:
    frame = torch.arange(3 * 1080 * 1920, dtype=torch.float32).reshape(1, 3, 1080, 1920)
    cut = patches(frame)
    assert cut.shape == (9, 3, 360, 640)
    assert torch.equal(cut[5], frame[0, :, 360:720, 1280:])
    features = torch.stack([torch.full((8, 8, 128), float(n)) for n in range(9)])
    whole = joined(features)
    assert whole.shape == (1, 24, 24, 128)
    assert whole[0, ::8, ::8, 0].flatten().tolist() == list(map(float, range(9)))
    with pytest.raises(UsageError, match="not 3x1080x1920"):
        patches(torch.zeros(1, 3, 720, 1280))


def test_pixels_become_minus_one_to_one() -> None:
    made = to_input(np.array([[[0, 128, 255]]], np.uint8))
    assert made.flatten().tolist() == pytest.approx([-1.0, 128 / 127.5 - 1.0, 1.0], abs=1e-6)


def test_frames_of_a_video(video: Path) -> None:
    frames = list(read_frames(video))
    assert [f.name for f in frames] == ["0 s", "1 s"] and count_frames(video) == 2
    assert all(f.pixels.shape == (1080, 1920, 3) for f in frames)
    colours = [f.pixels.mean((0, 1)) for f in frames]
    assert colours[0][0] > colours[0][2] and colours[1][2] > colours[1][0]
    assert len(list(read_frames(video, fps=5))) == 10


def test_a_video_of_one_frame_has_one(tmp_path: Path) -> None:
    av: Any = pytest.importorskip("av")
    path = tmp_path / "one frame ü.mp4"
    tall = np.zeros((96, 54, 3), np.uint8)
    tall[:48] = 255
    with av.open(str(path), "w") as writer:
        stream = writer.add_stream("libx264", rate=25, options={"crf": "10"})
        stream.width, stream.height, stream.pix_fmt = 54, 96, "yuv420p"
        writer.mux(stream.encode(av.VideoFrame.from_ndarray(tall, format="rgb24")))
        writer.mux(stream.encode())
    (frame,) = read_frames(path)
    assert frame.name == "0 s" and frame.pixels.shape == (1080, 1920, 3)
    assert frame.pixels[:, :800].min() > 240 and frame.pixels[:, 1120:].max() < 15, "turned to the left"


def test_frames_of_a_folder_are_upright(tmp_path: Path) -> None:
    Image.fromarray(picture(0, 60, 100)).save(tmp_path / "b.png")
    tall = np.zeros((100, 60, 3), np.uint8)
    tall[:50] = 255  # white above: turned to the left, white is on the left
    Image.fromarray(tall).save(tmp_path / "a.png")
    (tmp_path / "notes.txt").write_text("no picture")
    first, second = read_frames(tmp_path)
    assert (first.name, second.name) == ("a.png", "b.png")
    assert first.pixels[:, :800].min() == 255 and first.pixels[:, 1120:].max() == 0


def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no.mp4").write_text("no video")
    for source, said in [(tmp_path / "gone.mp4", "no such video"), (tmp_path / "no.mp4", "cannot read")]:
        with pytest.raises(UsageError, match=said):
            list(read_frames(source))
        with pytest.raises(UsageError, match=said) as told:
            count_frames(source)
        assert "Errno" not in str(told.value) and str(told.value).count(source.name) == 1
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no images"):
        list(read_frames(tmp_path / "empty"))
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(MissingExtra, match=r"twinnet\[video\]"):
        list(read_frames(tmp_path / "no.mp4"))


@pytest.mark.slow
def test_batches_do_not_change_the_score(weights: Path) -> None:
    one, all_nine = load_uvq(weights), load_uvq(weights, batch=9)
    pixels = picture(3, 1080, 1920)
    score = one.score(pixels)
    assert score == pytest.approx(all_nine.score(pixels), abs=1e-5) and 1.0 < score < 5.0


def test_the_verb(weights: Path, tmp_path: Path) -> None:
    from twinnet.cli.main import app

    for seed in range(2):
        Image.fromarray(picture(seed, 90, 160)).save(tmp_path / f"{seed}.png")
    words = ["uvq", str(tmp_path), "--weights", str(weights)]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "peak memory" in shown.output and "1.png" in shown.output
    rows = dict(line.split() for line in shown.output.splitlines()[:3])
    scores = [float(rows[name]) for name in ("0.png", "1.png")]
    assert float(rows["mean"]) == pytest.approx(sum(scores) / 2, abs=1e-5) and scores[0] != scores[1]
    words[1] = str(tmp_path / "0.png")
    found = json.loads(CliRunner().invoke(app, [*words, "--json", "--batch", "9"]).output)
    assert found["mean"] == pytest.approx(scores[0], abs=1e-5) and found["peak_memory"] > 1e8


def test_missing_weights_are_named(weights: Path, tmp_path: Path) -> None:
    for name in ("aggregation", "content"):
        (tmp_path / f"{name}_net.pth").write_bytes((weights / f"{name}_net.pth").read_bytes())
    with pytest.raises(UsageError, match=r"lacks distortion_net.pth\n.*github.com/google/uvq"):
        load_uvq(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        load_uvq(tmp_path / "none")
