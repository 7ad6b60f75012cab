"""The bundle: a zip with `session.json`, a list of results, and `runs/<case>/` with the run folder of each."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinnet.files import whole_file
from twinnet.result import Result, ResultSet

__all__ = ["SCHEMA", "bundle_results", "write_bundle"]

SCHEMA = 1
"""Version of session.json."""

_PACKED = (".json", ".html", ".csv", ".xml", ".md", ".txt", ".py")
_LEFT_OUT = (".writing", ".part")


def write_bundle(path: Path, session: Mapping[str, Any], runs: Mapping[str, Path]) -> Path:
    """Write a bundle; it is there whole or not at all. Tensors are stored as they are, texts compressed."""
    with whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("session.json", json.dumps(session, indent=1), zipfile.ZIP_DEFLATED)
        for name, folder in runs.items():
            for inner in sorted(p for p in folder.rglob("*") if p.is_file()):
                place = inner.relative_to(folder).as_posix()
                if place.startswith(_LEFT_OUT) or place.endswith(_LEFT_OUT):
                    continue
                how = zipfile.ZIP_DEFLATED if inner.suffix in _PACKED else zipfile.ZIP_STORED
                archive.write(inner, f"runs/{name}/{place}", how)
    return path


def bundle_results(path: Path, result: Result | ResultSet) -> Path:
    """The bundle of a check whose run folder is written."""
    results, runs = [], {}
    for one in result.results if isinstance(result, ResultSet) else (result,):
        name = Path(one.folder).name
        runs[name] = Path(one.folder)
        told = {
            "name": name,
            "verdict": one.verdict,
            "stage": one.stage,
            "message": one.error.strip().partition("\n")[0],
            "evidence": one.evidence,
            "seconds": one.timings.get("total", 0.0),
            "run": f"runs/{name}",
        }
        results.append(told)
    first = result.results[0] if isinstance(result, ResultSet) else result
    session = {
        "schema": SCHEMA,
        "made_by": "check",
        "command": list(first.argv),
        "environment": dict(first.environment),
        "results": results,
    }
    return write_bundle(path, session, runs)
