"""Folders of images, decoded once into one memory-mapped file.

The file is kept in twinnet's cache under a key made of the bytes of all images, so that a changed, added or removed
image makes a new one, and two experiments on the same images share theirs. It is written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinnet.cache import cached_folder, content_key
from twinnet.errors import UsageError
from twinnet.lut.pictures import is_picture, read_picture

__all__ = ["Entry", "ImageSet", "Watch", "find_images", "open_images", "store"]

Watch = Callable[[str, float], None]
"""Called with what is going on and the share done."""

_SCHEMA = "restore-images-1"


@dataclass(frozen=True)
class Entry:
    """One image: its name (below its folder, without suffix), where it lies, and the hash of its pixels."""

    name: str
    offset: int
    shape: tuple[int, ...]
    hash: str


class ImageSet(Sequence[np.ndarray]):
    """Images as read-only uint8 arrays, [rows, columns] or [rows, columns, 3], none of them loaded before use."""

    def __init__(self, folder: Path, key: str) -> None:
        listed = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        self.key = key
        self.entries = tuple(
            Entry(e["name"], e["offset"], tuple(e["shape"]), e["hash"]) for e in listed["images"]
        )
        self.skipped: dict[str, str] = listed["skipped"]
        """Files that could not be read, and why."""
        path = folder / "pixels.bin"
        mapped = np.memmap(path, np.uint8, mode="r") if path.stat().st_size else np.empty(0, np.uint8)
        # A plain view: slices of the memmap class itself cost many times more.
        self._pixels = mapped.view(np.ndarray)

    @property
    def names(self) -> tuple[str, ...]:
        """Below their folders, without suffix."""
        return tuple(entry.name for entry in self.entries)

    @property
    def hashes(self) -> tuple[str, ...]:
        """Of their pixels."""
        return tuple(entry.hash for entry in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> np.ndarray:  # type: ignore[override]
        entry = self.entries[index]
        size = int(np.prod(entry.shape))
        return self._pixels[entry.offset : entry.offset + size].reshape(entry.shape)


def find_images(folder: Path) -> list[Path]:
    """All image files below a folder, in a fixed order."""
    if not folder.is_dir():
        raise UsageError(f"no such folder of images: {folder}")
    found = (p for p in sorted(folder.rglob("*")) if p.is_file() and is_picture(p))
    return [p for p in found if not any(part.startswith(".") for part in p.relative_to(folder).parts)]


def store(key: str, images: Callable[[], Iterator[tuple[str, np.ndarray | str]]]) -> ImageSet:
    """The images cached under `key`. If there are none, `images` gives names with pixels, or with the reason."""

    def build(folder: Path) -> None:
        entries, skipped, offset = [], {}, 0
        with (folder / "pixels.bin").open("wb") as file:
            for name, pixels in images():
                if isinstance(pixels, str):
                    skipped[name] = pixels
                    continue
                data = np.ascontiguousarray(pixels, np.uint8).data
                digest = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
                digest.update(data)
                entries.append(
                    {"name": name, "offset": offset, "shape": pixels.shape, "hash": digest.hexdigest()}
                )
                file.write(data)
                offset += pixels.nbytes
        listed = json.dumps({"images": entries, "skipped": skipped})
        (folder / "index.json").write_text(listed, encoding="utf-8")

    try:
        return ImageSet(cached_folder(key, build), key)
    except OSError as error:
        raise UsageError(
            f"cannot cache the decoded images: {error}", hint="set TWINNET_CACHE to a folder with room"
        ) from error


def open_images(folders: Iterable[str | Path], watch: Watch | None = None) -> ImageSet:
    """The images of all folders. Unreadable files are left out and listed; it is an error if no image is left.

    >>> import tempfile
    >>> from twinnet.restore.sample import write_samples
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_samples(folder, 2, rows=40, columns=56)
    ...     images = open_images([folder])
    ...     len(images), images[0].shape
    (2, (40, 56, 3))
    """
    roots = [Path(folder) for folder in folders]
    files = [(path, _name(path, root)) for root in roots for path in find_images(root)]
    words = ", ".join(map(str, roots)) or "no folder"
    if not files:
        raise UsageError(f"there are no images in {words}", hint="png, jpg, webp, bmp, tif ... are read")
    tell = watch or (lambda what, share: None)
    with ThreadPoolExecutor() as pool:
        hashes = list(pool.map(lambda item: _digest(item[0]), files))
        key = content_key(_SCHEMA, *(part for (_, name), h in zip(files, hashes) for part in (name, h)))

        def decoded() -> Iterator[tuple[str, np.ndarray | str]]:
            # A few images ahead of the writer: decoding runs on all cores, memory stays small.
            ahead = 8
            for start in range(0, len(files), ahead):
                part = files[start : start + ahead]
                yield from zip((name for _, name in part), pool.map(lambda item: _decode(item[0]), part))
                tell("decoding images", min(start + ahead, len(files)) / len(files))

        images = store(key, decoded)
    if not len(images):
        name, why = next(iter(images.skipped.items()))
        raise UsageError(f"none of the {len(files)} images in {words} can be read", hint=f"{name}: {why}")
    return images


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).with_suffix("").as_posix()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _decode(path: Path) -> np.ndarray | str:
    try:
        return read_picture(path).pixels
    except UsageError as error:
        return error.what
