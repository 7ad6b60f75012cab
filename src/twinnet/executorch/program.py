"""The program inside an ETRecord, loaded with the care of any `.pt2` file."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinnet.errors import UsageError
from twinnet.executorch.record import Record
from twinnet.files import BAD_ARCHIVE
from twinnet.scratch import scratch_folder

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = ["recorded_program"]

_MEMBERS = {
    "exported_program": "models/model.json",
    "exported_program_state_dict": "data/weights/model.pt",
    "exported_program_constants": "data/constants/model.pt",
    "exported_program_example_inputs": "data/sample_inputs/model.pt",
}
"""Where an archive of torch.export has the same thing."""
_VERSIONS = {"archive_version": "0", ".data/version": "6"}
_SCHEMA = 5
"""ExecuTorch writes programs with its own copy of PyTorch's writer, which is of this version."""
_LARGEST = 1 << 33


def recorded_program(record: Record) -> ExportedProgram | None:
    """The program that was lowered, with its weights; None if the ETRecord has none, a UsageError if it is unreadable.

    The parts are those of an exported program in another wrapping, so the reader of those checks them.
    """
    if not record.held >= set(_MEMBERS):
        return None
    from twinnet.network.pt2 import load_pt2
    from twinnet.torch_versions import register_quantised_operators

    register_quantised_operators()
    with scratch_folder("etrecord") as folder:
        copy = folder / record.path.with_suffix(".pt2").name
        try:
            _write_copy(record, copy)
        except (*BAD_ARCHIVE, KeyError, TypeError) as error:
            raise UsageError(f"{record.path} is damaged: {error}"[:400]) from None
        return load_pt2(copy)


def _write_copy(record: Record, copy: Path) -> None:
    with zipfile.ZipFile(record.path) as archive, zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as made:
        for member, version in _VERSIONS.items():
            made.writestr(f"model/{member}", version)
        for ours, theirs in _MEMBERS.items():
            if archive.getinfo(ours).file_size > _LARGEST:
                raise UsageError(f"{record.path}: {ours} is too large to be read")
            data = archive.read(ours)
            made.writestr(f"model/{theirs}", _today(data) if theirs.endswith(".json") else data)


def _today(data: bytes) -> bytes:
    """A program as this PyTorch writes it; one of an unknown version is left as it is."""
    from twinnet.torch_versions import program_schema

    program = json.loads(data)
    if program["schema_version"]["major"] != _SCHEMA:
        return data
    major, minor = program_schema()
    program |= {"schema_version": {"major": major, "minor": minor}, "guards_code": []}
    program.pop("dialect", None)
    _say_none(program)
    return json.dumps(program).encode()


def _say_none(part: Any) -> None:
    """None was written as an empty list."""
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        if isinstance(value, dict) and value.get("as_none") == []:
            value["as_none"] = True
        _say_none(value)
