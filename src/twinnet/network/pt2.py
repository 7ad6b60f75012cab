"""Open a .pt2 file without running any code inside it.

`torch.export.load` unpickles without restriction, evaluates texts and makes Python source of names. So the file itself
is never handed to it: its members are read and checked here, and PyTorch loads an archive that was written from what
was checked. A file that needs more than that is refused, unless it is trusted.
"""

from __future__ import annotations

import io
import json
import math
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from twinnet.errors import UsageError, foreign_as
from twinnet.files import BAD_ARCHIVE
from twinnet.network.pt2_program import Unsafe, is_plain, is_variable, rebuilt_program, rebuilt_type
from twinnet.progress import quiet
from twinnet.trust import is_trusted

__all__ = ["load_pt2"]

_IN_MEMORY = 1 << 28
"""A larger copy is written to a temporary file."""
_MOST_ELEMENTS = 1 << 31
"""Of a tensor that repeats what is stored."""


def load_pt2(path: Path) -> ExportedProgram:
    """Load the program in `path`; a `UsageError` if it is damaged, too new, or not safe to load."""
    if is_trusted():
        return _load(path, path)
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as copy:
        try:
            with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as made:
                _Copy(path, archive, made).write()
        except Unsafe as why:
            raise UsageError(
                f"{path} {why}; loading it could run code from the file, so it is refused",
                hint="give the network as code (file.py:factory), or allow it with --trust (trust=True) if you know "
                "who made the file",
            ) from None
        except RecursionError:
            raise UsageError(f"{path} is damaged: its program nests too deeply") from None
        except BAD_ARCHIVE as error:
            raise UsageError(f"{path} is not a readable exported program: {error}") from error
        copy.seek(0)
        return _load(path, copy)


def _load(path: Path, source: Any) -> ExportedProgram:
    def refused(error: BaseException) -> UsageError:
        return UsageError(
            f"{path} cannot be loaded by PyTorch {torch.__version__}: {str(error) or type(error).__name__}",
            hint="an exported program is tied to the PyTorch that wrote it: save it again with this one",
        )

    with quiet("torch.export", "torch._export"), foreign_as(refused):
        return torch.export.load(source)


class _Copy:
    """Checks the members of an archive and writes those that PyTorch needs to another."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, made: zipfile.ZipFile) -> None:
        self.path, self.archive, self.made = path, archive, made
        names = archive.namelist()
        # PyTorch looks members up without regard to case.
        if (
            len({name.lower() for name in names}) != len(names)
            or len({name.split("/")[0] for name in names}) != 1
        ):
            raise Unsafe("holds several members of one name, or several archives")
        self.members = {info.filename.partition("/")[2].lower(): info for info in archive.infolist()}
        if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
            raise UsageError(
                f"{path} is a compressed archive", hint="torch.export.save writes one without compression"
            )
        if sum(info.file_size for info in archive.infolist()) > path.stat().st_size:
            raise UsageError(f"{path} is damaged: its members are larger than the file")

    def write(self) -> None:
        """Write the copy; raises `Unsafe` or `UsageError`."""
        if any(member.startswith("data/aotinductor/") for member in self.members):
            raise Unsafe("holds compiled machine code")
        if "models/model.json" not in self.members:
            raise UsageError(f"{self.path} holds no exported program called 'model'")
        order = self.read("byteorder").decode(errors="replace") if "byteorder" in self.members else ""
        if order not in ("", sys.byteorder):
            raise UsageError(f"{self.path} was written on a machine with another byte order ({order[:10]})")
        self.put("archive_format", b"pt2")
        self.put("archive_version", self.number("archive_version"))
        self.put(".data/version", self.number(".data/version"))
        self.put("byteorder", sys.byteorder.encode())
        self.put("models/model.json", json.dumps(rebuilt_program(self.json("models/model.json"))).encode())
        for folder, file in (("weights", "weight"), ("constants", "tensor")):
            if f"data/{folder}/model.pt" in self.members:
                self.put(f"data/{folder}/model.pt", self.pickled(f"data/{folder}/model.pt"))
            elif f"data/{folder}/model_{folder}_config.json" in self.members:
                self.payloads(f"data/{folder}", f"model_{folder}_config.json", file)
        if "data/sample_inputs/model.pt" in self.members:
            self.put("data/sample_inputs/model.pt", self.pickled("data/sample_inputs/model.pt"))

    def payloads(self, folder: str, config: str, prefix: str) -> None:
        """Weights or constants: the list of them, and each file once under a name of its own."""
        told = self.json(f"{folder}/{config}").get("config")
        entries = told if isinstance(told, dict) else {"": None}
        written: dict[tuple[str, bool], str] = {}
        made: dict[str, Any] = {}
        for name, entry in entries.items():
            if not isinstance(entry, dict):
                raise UsageError(f"{self.path} is damaged: {config} does not list payloads")
            file, pickled = str(entry.get("path_name", "")), bool(entry.get("use_pickle"))
            if file.lower().startswith(("custom_obj", "opaque_obj")):
                raise Unsafe(f"holds a pickled object ({folder}/{file[:60]})")
            member = f"{folder}/{file.lower()}"
            if member not in self.members:
                raise UsageError(f"{self.path} is damaged: {member[:80]} is missing")
            if not is_plain(name):
                raise Unsafe(f"holds a name with characters that are not allowed: {name!r:.60}")
            if (member, pickled) not in written:
                written[member, pickled] = f"{prefix}_{len(written)}"
                data = self.pickled(member, tensor=True) if pickled else self.read(member)
                self.put(f"{folder}/{written[member, pickled]}", data)
            kind = None if pickled else rebuilt_type(entry.get("tensor_meta"))
            if kind is not None:
                self.check_size(kind, self.members[member].file_size, name)
            made[name] = {
                "path_name": written[member, pickled],
                "is_param": bool(entry.get("is_param")),
                "use_pickle": pickled,
                "tensor_meta": kind,
            }
        self.put(f"{folder}/{config}", json.dumps({"config": made}).encode())

    def check_size(self, kind: Mapping[str, Any], stored: int, name: str) -> None:
        """A few bytes must not become a tensor that fills the memory."""
        sizes = kind.get("sizes")
        numbers = [size.get("as_int") if isinstance(size, dict) else None for size in sizes or ()]
        if not isinstance(sizes, list) or not all(isinstance(n, int) and n >= 0 for n in numbers):
            raise UsageError(f"{self.path} is damaged: {name} has no plain shape")
        if (count := math.prod(n for n in numbers if n is not None)) > (
            max(stored, _MOST_ELEMENTS) if stored else 0
        ):
            raise UsageError(
                f"{self.path} is damaged: {name} has {count} elements, but {stored} bytes are stored"
            )

    def pickled(self, member: str, *, tensor: bool = False) -> bytes:
        """A pickle of tensors and containers, loaded with `weights_only` and saved again; empty stays empty."""
        data = self.read(member)
        if not data:
            return data
        unsafe = Unsafe(f"needs unrestricted unpickling ({member})")
        with foreign_as(lambda _: unsafe):
            found = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
        if (tensor and not isinstance(found, torch.Tensor)) or not _is_data(found):
            raise unsafe
        buffer = io.BytesIO()
        torch.save(found, buffer)
        return buffer.getvalue()

    def read(self, member: str) -> bytes:
        """The bytes of a member."""
        info = self.members[member]
        try:
            return self.archive.read(info)
        except (zipfile.BadZipFile, UnicodeDecodeError):
            raise UsageError(f"{self.path} is damaged: {info.filename} fails its checksum") from None

    def number(self, member: str) -> bytes:
        """A version number."""
        data = self.read(member).strip() if member in self.members else b"0"
        if not data.isdigit() or len(data) > 4:
            raise UsageError(f"{self.path} is damaged: {member} is not a number")
        return data

    def json(self, member: str) -> dict[str, Any]:
        """A member that is a JSON object."""
        try:
            found = json.loads(self.read(member))
        except ValueError as error:
            raise UsageError(f"{self.path} is damaged: {member} is not valid JSON") from error
        if not isinstance(found, dict):
            raise UsageError(f"{self.path} is damaged: {member} is not a JSON object")
        return found

    def put(self, member: str, data: bytes) -> None:
        """Write one member of the copy."""
        self.made.writestr(f"model/{member}", data)


def _is_data(value: Any, level: int = 0) -> bool:
    """Tensors, numbers and plain texts in containers: PyTorch makes source of the keys and of fixed texts."""
    if isinstance(value, (tuple, list)):
        return all(_is_data(item, level + 1) for item in value)
    if isinstance(value, dict):
        keys = all(is_plain(k) if isinstance(k, str) else isinstance(k, (int, float)) for k in value)
        if level == 1 and not all(is_variable(k) for k in value):
            return False
        return keys and all(_is_data(item, level + 1) for item in value.values())
    if isinstance(value, str):
        return is_plain(value)
    return value is None or isinstance(
        value, (torch.Tensor, bool, int, float, complex, torch.dtype, torch.device)
    )
