"""The cache: built once, whole or not at all, and a message where it cannot be written."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from twinnet.cache import (
    cache_dir,
    cache_info,
    cached_folder,
    clear_cache,
    content_key,
    find_folder,
    watch_cache,
)
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


def _filled(size: int):
    def build(folder: Path) -> None:
        (folder / "data.bin").write_bytes(b"x" * size)

    return build


def test_what_is_used_and_what_is_built_can_be_watched() -> None:
    key = content_key("k")
    with watch_cache() as outer:
        with watch_cache() as first:
            folder = cached_folder(key, _filled(3))
        with watch_cache() as second:
            assert find_folder(key) == folder == cached_folder(key, _filled(3))
    assert (first.built, first.folders) == ([key], [folder])
    assert (second.built, second.folders) == ([], [folder, folder])
    assert outer.built == [key] and find_folder(content_key("other")) is None


def test_the_longest_unused_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [content_key(str(i)) for i in range(4)]
    for age, key in zip((5, 9, 7, 0), keys, strict=True):
        folder = cached_folder(key, _filled(1000))
        then = time.time() - age * 3600
        os.utime(folder.with_name(key + ".entry"), (then, then))
    (cache_dir() / ".trimmed").unlink()
    monkeypatch.setenv("TWINNET_CACHE_LIMIT", "2500")
    cached_folder(content_key("new"), _filled(10))
    assert [find_folder(key) is not None for key in keys] == [True, False, False, True]
    assert cache_info().size <= 2500
    # What is in use stays, whatever the limit.
    (cache_dir() / ".trimmed").unlink()
    monkeypatch.setenv("TWINNET_CACHE_LIMIT", "1")
    os.utime(cache_dir() / keys[3][:2] / (keys[3] + ".entry"))
    cached_folder(content_key("newer"), _filled(10))
    assert find_folder(keys[3]) is not None


def test_a_wrong_limit_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINNET_CACHE_LIMIT", "much")
    with pytest.raises(UsageError, match="TWINNET_CACHE_LIMIT 'much' is not a size"):
        cache_info()


def test_cleared_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWINNET_CACHE_SINCE", raising=False)
    key = content_key("k")
    folder = cached_folder(key, _filled(5))
    (folder.parent / f".building-{content_key('left')}").mkdir()  # by a process that was killed
    then = time.time() - 10
    os.utime(folder, (then, then))
    monkeypatch.setenv("TWINNET_CACHE_SINCE", repr(time.time() - 1))
    assert find_folder(key) is None
    assert (cached_folder(key, _filled(6)) / "data.bin").stat().st_size == 6
    assert find_folder(key) == folder
    gone = clear_cache()
    assert (gone.artefacts, gone.size) == (1, 6) and cache_info().artefacts == 0
    assert not list(cache_dir().glob("*/.building-*"))
