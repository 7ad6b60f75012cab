"""The cache: built once, whole or not at all, and a message where it cannot be written."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from twinnet.cache import cache_dir, cached_folder, content_key
from twinnet.errors import EngineError, UsageError


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINNET_CACHE", str(tmp_path / "cache"))


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("TWINNET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "twinnet"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_dir() == tmp_path / "home" / ".cache" / "twinnet"


def test_borders_of_parts_count() -> None:
    assert content_key("ab", "c") != content_key("a", "bc") != content_key("abc")
    assert content_key("a", b"b") == content_key("a", b"b") != content_key("a", b"c")


def test_built_once_even_by_several() -> None:
    built: list[int] = []
    start = threading.Barrier(4)

    def build(folder: Path) -> None:
        built.append(1)
        (folder / "a.txt").write_text("x")

    def ask() -> None:
        start.wait()
        assert (cached_folder(content_key("k"), build) / "a.txt").read_text() == "x"

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_a_build_that_fails_leaves_nothing_and_may_be_repeated() -> None:
    def broken(folder: Path) -> None:
        (folder / "half.txt").write_text("x")
        raise RuntimeError("stopped")

    key = content_key("k")
    with pytest.raises(RuntimeError):
        cached_folder(key, broken)
    assert not [p for p in cache_dir().rglob("*") if p.is_file() and p.suffix != ".lock"]
    assert cached_folder(key, lambda folder: (folder / "a").touch()).is_dir()


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TWINNET_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"cannot write the cache.*\n.*TWINNET_CACHE"):
        cached_folder(content_key("k"), lambda folder: None)
    if os.geteuid() != 0:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
        monkeypatch.setenv("TWINNET_CACHE", str(closed / "cache"))
        with pytest.raises(EngineError, match="cannot write the cache"):
            cached_folder(content_key("k"), lambda folder: None)
