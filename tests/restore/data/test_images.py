"""Images decoded once: any format, whole or not at all, unreadable ones named."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from twinnet import cache
from twinnet.errors import UsageError
from twinnet.restore.data import images as module
from twinnet.restore.data import open_images
from twinnet.restore.sample import scene


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TWINNET_CACHE", str(tmp_path / "cache"))


def test_formats_and_modes(photos):
    images = open_images([photos])
    found = {entry.name: images[k] for k, entry in enumerate(images.entries)}
    assert set(found) == {"scene000", "scene001", "scene002", "lossy", "gray", "below/clear"}
    assert np.array_equal(found["scene001"], scene(1, 48, 64))
    assert found["gray"].shape == (40, 44) and found["below/clear"].shape == (44, 40, 3)
    assert not found["gray"].flags.writeable


def test_decoded_once_and_again_when_something_changed(photos, monkeypatch):
    read = []
    plain = module.read_picture
    monkeypatch.setattr(module, "read_picture", lambda path: read.append(path) or plain(path))
    first = open_images([photos])
    assert len(read) == 6
    second = open_images([photos])
    assert len(read) == 6 and second.key == first.key
    Image.fromarray(scene(50, 48, 64)).save(photos / "scene001.png")
    third = open_images([photos])
    assert len(read) == 12 and third.key != first.key
    assert np.array_equal(first[[e.name for e in first.entries].index("scene001")], scene(1, 48, 64))


def test_unreadable_files_are_named_and_left_out(photos):
    (photos / "empty.png").write_bytes(b"")
    (photos / "cut.png").write_bytes((photos / "scene000.png").read_bytes()[:200])
    (photos / "text.jpg").write_text("no image")
    Image.fromarray(np.zeros((9, 9), np.uint16)).save(photos / "deep.png")
    images = open_images([photos])
    assert len(images) == 6
    assert set(images.skipped) == {"empty", "cut", "text", "deep"}
    assert "8 bits" in images.skipped["deep"]


def test_nothing_to_read(tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        open_images([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no images in"):
        open_images([tmp_path / "empty"])
    (tmp_path / "empty" / "bad.png").write_bytes(b"x")
    with pytest.raises(UsageError, match="none of the 1 images"):
        open_images([tmp_path / "empty"])


def test_an_interrupted_decoding_leaves_nothing_behind(photos, monkeypatch):
    def stop(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "_decode", stop)
        with pytest.raises(KeyboardInterrupt):
            open_images([photos])
    assert not list(cache.cache_dir().rglob("pixels.bin"))
    assert len(open_images([photos])) == 6
