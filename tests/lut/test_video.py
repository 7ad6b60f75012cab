"""Videos: times, sound, subtitles, colours and rotation survive; an interrupted run leaves nothing behind."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from twinnet import models
from twinnet.errors import UsageError
from twinnet.lut.batch import run_files
from twinnet.lut.model import load

av = pytest.importorskip("av", reason="PyAV reads videos")

TIMES = (0, 40, 80, 200, 240, 1000)
"""Milliseconds: a variable frame rate."""


@pytest.fixture(scope="module")
def model():
    return load(models.find("sr", scale=2, quality="strong"))


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A video of 32 x 18 with sound and subtitles, in BT.709, limited range; luma rises from frame to frame."""
    folder = tmp_path_factory.mktemp("video")
    (folder / "words.srt").write_text("1\n00:00:00,100 --> 00:00:00,900\nhello\n\n")
    path = folder / "clip.mkv"
    with av.open(str(path), "w") as writer, av.open(str(folder / "words.srt")) as words:
        video = writer.add_stream("libx264", rate=25, options={"crf": "1"})
        context = video.codec_context
        context.width, context.height, context.pix_fmt, context.time_base = (
            32,
            18,
            "yuv420p",
            Fraction(1, 1000),
        )
        context.colorspace = context.color_primaries = context.color_trc = context.color_range = 1
        sound = writer.add_stream("aac", rate=44100, layout="mono")
        text = writer.add_stream_from_template(words.streams.subtitles[0])
        for number, time in enumerate(TIMES):
            frame = av.VideoFrame(32, 18, "yuv420p")
            for plane, level in zip(frame.planes, (60 + 20 * number, 110, 140)):
                plane.update(bytes([level]) * plane.buffer_size)
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            writer.mux(video.encode(frame))
        writer.mux(video.encode())
        tone = (np.sin(np.arange(44100) / 20) * 0.2).astype(np.float32)[None]
        samples = av.AudioFrame.from_ndarray(tone, format="fltp", layout="mono")
        samples.sample_rate, samples.pts = 44100, 0
        writer.mux(sound.encode(samples))
        writer.mux(sound.encode())
        for packet in words.demux():
            if packet.dts is not None:
                packet.stream = text
                writer.mux(packet)
    return path


def frames_of(path):
    with av.open(str(path)) as reader:
        return list(reader.decode(video=0))


def samples_of(plane, kind=np.uint8):
    return np.frombuffer(plane, kind).reshape(plane.height, -1)[:, : plane.width].astype(int)


def packets_of(path, kind):
    with av.open(str(path)) as reader:
        streams = [s for s in reader.streams if s.type == kind]
        return [bytes(p) for p in reader.demux(*streams) if p.dts is not None] if streams else []


def test_times_sound_subtitles_and_colours_survive(model, clip, tmp_path):
    outcome = run_files(model, clip, tmp_path / "out.mkv")
    assert outcome.written == [tmp_path / "out.mkv"] and not outcome.notes
    made = frames_of(tmp_path / "out.mkv")
    assert [round(f.time * 1000) for f in made] == list(TIMES)
    assert {(f.width, f.height) for f in made} == {(32 * model.scale, 18 * model.scale)}
    for kind in ("audio", "subtitle"):
        assert packets_of(tmp_path / "out.mkv", kind) == packets_of(clip, kind) != []
    for frame, before in zip(made, frames_of(clip)):
        tags = ("colorspace", "color_range", "color_primaries", "color_trc")
        assert [getattr(frame, t) for t in tags] == [getattr(before, t) for t in tags] == [1, 1, 1, 1]
        # Flat frames: every plane keeps its level, up to what the encoder does.
        for plane, old in zip(frame.planes, before.planes):
            assert np.abs(samples_of(plane) - samples_of(old)[0, 0]).max() <= 1


def test_what_a_container_cannot_hold_is_said(model, clip, tmp_path):
    outcome = run_files(model, clip, tmp_path / "out.mp4")
    (notes,) = outcome.notes.values()
    assert len(notes) == 1 and "subtitles left out" in notes[0] and ".mkv" in notes[0]
    assert [round(f.time * 1000) for f in frames_of(tmp_path / "out.mp4")] == list(TIMES)
    assert packets_of(tmp_path / "out.mp4", "audio") == packets_of(clip, "audio")


def _video(path, format_, frames, codec="ffv1"):
    with av.open(str(path), "w") as writer:
        stream = writer.add_stream(codec, rate=10)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = format_
        for frame in frames:
            kind = "gray16le" if frame.dtype == np.uint16 else "rgb24"
            writer.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format=kind)))
        writer.mux(stream.encode())


def test_colours_of_rgb_and_odd_sizes(model, tmp_path):
    flat = np.broadcast_to(np.uint8([200, 40, 90]), (2, 15, 17, 3))
    _video(tmp_path / "a.mkv", "bgr0", list(flat))
    run_files(model, tmp_path / "a.mkv", tmp_path / "out")
    made = frames_of(tmp_path / "out" / "a.mkv")
    assert len(made) == 2 and (made[0].width, made[0].height) == (17 * model.scale, 15 * model.scale)
    found = made[0].to_ndarray(format="rgb24").reshape(-1, 3).astype(int)
    assert np.abs(np.median(found, axis=0) - [200, 40, 90]).max() <= 3
    assert made[0].colorspace == 1


def test_ten_bits_stay(model, tmp_path):
    ramp = np.repeat(np.arange(64, dtype=np.uint16)[None] * 64 + 20480, 32, axis=0)  # steps of 1 in 10 bits
    _video(tmp_path / "deep.mkv", "gray10le", [ramp])
    run_files(model, tmp_path / "deep.mkv", tmp_path / "out.mkv")
    (frame,) = frames_of(tmp_path / "out.mkv")
    assert frame.format.name.endswith("10le")
    assert len(np.unique(samples_of(frame.planes[0], np.uint16))) > 50  # 8 bits have 17 here


def test_a_turned_video_comes_out_upright(model, tmp_path):
    half = np.zeros((16, 32, 3), np.uint8)
    half[:, :16] = 220  # left half bright
    _video(tmp_path / "a.mp4", "yuv420p", [half, half], "libx264")
    data = (tmp_path / "a.mp4").read_bytes()
    one, end = (1 << 16).to_bytes(4, "big"), (1 << 30).to_bytes(4, "big")
    upright = one + bytes(12) + one + bytes(12) + end
    quarter = bytes(4) + one + bytes(4) + (-(1 << 16) & 0xFFFFFFFF).to_bytes(4, "big") + bytes(16) + end
    at = data.index(upright, data.index(b"tkhd"))
    (tmp_path / "turned.mp4").write_bytes(data[:at] + quarter + data[at + len(quarter) :])
    (before, _) = frames_of(tmp_path / "turned.mp4")
    assert before.rotation in (-90, 90)
    run_files(model, tmp_path / "turned.mp4", tmp_path / "out.mp4")
    made, _ = frames_of(tmp_path / "out.mp4")
    assert made.rotation == 0 and (made.width, made.height) == (16 * model.scale, 32 * model.scale)
    shown = np.rot90(before.to_ndarray(format="gray"), before.rotation // 90)
    assert (shown[:8].mean() > 128) == (made.to_ndarray(format="gray")[:8].mean() > 128)


def test_an_interruption_leaves_no_file_and_the_next_run_finishes(model, clip, tmp_path):
    class Interrupted(Exception):
        pass

    def stop(name, share):
        raise Interrupted

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.mkv").write_bytes(clip.read_bytes())
    (tmp_path / "in" / "b.mkv").write_bytes(clip.read_bytes())
    run_files(model, tmp_path / "in" / "a.mkv", tmp_path / "out" / "a.mkv")
    with pytest.raises(Interrupted):
        run_files(model, tmp_path / "in", tmp_path / "out", stop)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["a.mkv"]
    outcome = run_files(model, tmp_path / "in", tmp_path / "out")
    assert [p.name for p in outcome.kept] == ["a.mkv"] and [p.name for p in outcome.written] == ["b.mkv"]


def test_what_is_no_video_is_said(model, tmp_path, clip):
    (tmp_path / "a.mp4").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="cannot run"):
        run_files(model, tmp_path / "a.mp4", tmp_path / "o.mp4")
    (tmp_path / "cut.mkv").write_bytes(clip.read_bytes()[:300])
    with pytest.raises(UsageError):
        run_files(model, tmp_path / "cut.mkv", tmp_path / "o.mkv")
    assert not (tmp_path / "o.mkv").exists() and not (tmp_path / "o.mp4").exists()


def test_a_video_goes_into_a_video_only(model, clip, tmp_path):
    for name in ("a.png", "a.gif", "a.avi"):
        with pytest.raises(UsageError, match=rf"cannot write videos of type \{name[1:]}.*\n  use \.mp4"):
            run_files(model, clip, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_what_is_read_only_becomes_mkv_with_the_times_it_had(model, tmp_path):
    frames = [np.full((16, 32, 3), level, np.uint8) for level in (20, 90, 160, 230)]
    _video(tmp_path / "a.avi", "yuv420p", frames, "mpeg4")
    outcome = run_files(model, tmp_path / "a.avi", tmp_path / "out")
    assert outcome.written == [tmp_path / "out" / "a.mkv"]
    times = [
        [round(f.time, 2) for f in frames_of(p)] for p in (tmp_path / "a.avi", tmp_path / "out" / "a.mkv")
    ]
    assert times[0] == times[1]


def test_streams_keep_their_order_and_their_flags(model, clip, tmp_path):
    run_files(model, clip, tmp_path / "out.mkv")
    kinds = []
    for path in (clip, tmp_path / "out.mkv"):
        with av.open(str(path)) as reader:
            kinds.append([(s.type, int(s.disposition)) for s in reader.streams])
    assert kinds[0] == kinds[1] and kinds[0][0][0] == "video"


def test_chapters_are_kept(model, tmp_path):
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w") as writer:
        stream = writer.add_stream("ffv1", rate=1)
        stream.width, stream.height, stream.pix_fmt = 16, 16, "yuv420p"
        mark = {
            "id": 1,
            "start": 0,
            "end": 1000,
            "time_base": Fraction(1, 1000),
            "metadata": {"title": "one"},
        }
        writer.set_chapters([mark])
        for _ in range(2):
            writer.mux(stream.encode(av.VideoFrame(16, 16, "yuv420p")))
        writer.mux(stream.encode())
    run_files(model, path, tmp_path / "out.mkv")
    with av.open(str(tmp_path / "out.mkv")) as reader:
        (chapter,) = reader.chapters()
    assert chapter["metadata"]["title"] == "one" and chapter["end"] * chapter["time_base"] == 1


def test_what_a_result_lacks_is_noted(model, tmp_path):
    plain = [np.full((16, 32, 3), 90, np.uint8)] * 2
    _video(tmp_path / "clear.mkv", "yuva420p", plain)
    _video(tmp_path / "deep.mkv", "yuv420p12le", plain)
    _video(tmp_path / "plain.mkv", "yuv420p", plain * 20)
    whole = (tmp_path / "plain.mkv").read_bytes()
    (tmp_path / "cut.mkv").write_bytes(whole[: len(whole) // 2])
    notes = run_files(model, tmp_path, tmp_path / "out").notes
    said = {path.name: " ".join(lines) for path, lines in notes.items()}
    assert said["clear.mkv"] == "transparency left out" and said["deep.mkv"] == "12 bits per sample became 10"
    assert said["cut.mkv"].endswith("and states 4.0 s: it may be cut off") and "plain.mkv" not in said


def test_an_interlaced_source_is_noted(model, tmp_path):
    with av.open(str(tmp_path / "a.mp4"), "w") as writer:
        stream = writer.add_stream(
            "libx264", rate=25, options={"x264-params": "tff=1", "flags": "+ilme+ildct"}
        )
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for _ in range(2):
            writer.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
        writer.mux(stream.encode())
    (notes,) = run_files(model, tmp_path / "a.mp4", tmp_path / "out.mp4").notes.values()
    assert len(notes) == 1 and notes[0].startswith("interlaced: ")
