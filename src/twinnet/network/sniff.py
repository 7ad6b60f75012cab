"""Identify files by content: networks that can be read, and a description of anything else."""

from __future__ import annotations

import pickletools
import zipfile
from pathlib import Path
from typing import Literal

from twinnet.errors import UsageError
from twinnet.files import BAD_ARCHIVE

__all__ = ["describe_file", "sniff"]

Kind = Literal["onnx", "pt2", "tflite"]

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (
        0,
        b"version https://git-lfs.github.com/spec",
        "a Git LFS pointer, not the file itself (run `git lfs pull`)",
    ),
    (0, b"\x93NUMPY", "a NumPy array (.npy)"),
    (0, b"\x89HDF", "an HDF5 file (Keras weights?)"),
    (0, b"\x89PNG", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"%PDF", "a PDF document"),
    (0, b"\x7fELF", "a compiled library or program"),
    (0, b"\x1f\x8b", "a gzip archive (unpack it first)"),
    (0, b"\xfd7zXZ", "an xz archive (unpack it first)"),
    (0, b"BZh", "a bzip2 archive (unpack it first)"),
    (4, b"TFL3", "a TFLite model"),
    (4, b"ORTM", "an ONNX Runtime .ort model (give the .onnx it was made from)"),
    (257, b"ustar", "a tar archive (unpack it first)"),
)


def sniff(path: Path) -> Kind | None:
    """The reader for this file, or None; `describe_file` then says what it seems to be."""
    if not path.is_file():
        return None
    head = _head(path)
    if head[4:8] == b"TFL3":
        return "tflite"
    if head.startswith(b"PK"):
        return "pt2" if _is_pt2(path) else None
    if describe_file(path):
        return None
    return "onnx" if _starts_like_onnx(head) else None


def describe_file(path: Path) -> str:
    """What the file seems to be, in words; empty when it may be an ONNX model."""
    head = _head(path)
    size = path.stat().st_size
    if not head:
        return "an empty file"
    for offset, magic, words in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return words
    if head.startswith(b"PK"):
        return _describe_zip(path)
    if not head.strip(b"\0"):
        return "a file of zero bytes (an interrupted download?)"
    text = head.lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html")):
        return "an HTML page (a download that ended at a login or error page?)"
    if text.startswith((b"<?xml", b"<net")):
        return "an XML file (an OpenVINO model?)"
    if head[0] == 0x80 and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "a pickle, which is never loaded (a PyTorch checkpoint? give the code as file.py:factory)"
    if size > 8 and head[8:9] == b"{" and 0 < int.from_bytes(head[:8], "little") < size:
        return "a safetensors file: weights without a network (give the code as file.py:factory)"
    if _is_text(head):
        return "a JSON file" if text.startswith((b"{", b"[")) else "a text file"
    return ""


def _describe_zip(path: Path) -> str:
    names = _members(path)
    if names is None:
        return "a truncated or damaged archive (an exported program or checkpoint cut short?)"
    if any(name.endswith("constants.pkl") for name in names):
        return "a TorchScript archive, which is not read (use torch.export.save, or give file.py:factory)"
    pickled = next((name for name in names if name.endswith("data.pkl")), None)
    if pickled is not None and _holds_module(path, pickled):
        return (
            "a whole network pickled by torch.save, which is never loaded, as that runs code (if you trust it, write "
            "a factory that returns torch.load(FILE, weights_only=False), and give it as file.py:factory)"
        )
    if pickled is not None:
        return "a PyTorch checkpoint: weights without a network (give the code as file.py:factory)"
    if any(name.endswith(".npy") for name in names):
        return "a NumPy archive (.npz)"
    if "serialized_exported_program.json" in names:
        return (
            "an exported program of PyTorch 2.7 or older (load it there and save it again with a newer one)"
        )
    return "a zip archive"


_LONGEST_PICKLE = 1 << 24


def _holds_module(path: Path, member: str) -> bool:
    """Whether a pickle names classes of `torch.nn`; it is read, not run."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            for opcode, argument, _ in pickletools.genops(file.read(_LONGEST_PICKLE)):
                if opcode.name == "GLOBAL" and str(argument).startswith("torch.nn.modules."):
                    return True
    except (*BAD_ARCHIVE, ValueError):
        return False  # damaged: what it looks like is all that can be said
    return False


def _is_pt2(path: Path) -> bool:
    return any(name.count("/") == 1 and name.endswith("/archive_format") for name in _members(path) or ())


def _members(path: Path) -> list[str] | None:
    """The names in an archive; None if it is damaged, at which `zipfile` can fail in many ways."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except BAD_ARCHIVE:
        return None


def _starts_like_onnx(head: bytes) -> bool:
    """A protobuf whose first tag is a field of ModelProto (version, graph, opset, metadata, ...)."""
    field, wire = head[0] >> 3, head[0] & 7
    return (field, wire) in {(n, 0) for n in (1, 5)} | {(n, 2) for n in (2, 3, 4, 6, 7, 8, 14)} or head[
        0
    ] >= 0x80


def _is_text(head: bytes) -> bool:
    try:
        text = head[:1024].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head[:1024]) - 4:
            return False
        text = head[: error.start].decode("utf-8")
    return all(c.isprintable() or c in "\r\n\t" for c in text)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4096)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
