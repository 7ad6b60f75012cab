"""Small bundles for tests: sessions of made-up cases, with results as checks write them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.report import examples
from twinnet.report.json_file import dump_result
from twinnet.result import Result

__all__ = ["bundle", "case", "result_json", "session", "zipped"]

_NOW = 1_790_000_000.0


def session(key: str, results: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """session.json."""
    return {
        "schema": 1,
        "id": key,
        "made_by": "suite",
        "branch": "main",
        "commit": "c0ffee00",
        "who": "anna",
        "started": _NOW,
        "finished": _NOW + 60,
        "command": ["twinnet", "suite"],
        "environment": {"python": "3.11"},
        "results": results,
        **more,
    }


def case(model: str, verdict: str = "PASS", engine: str = "onnxruntime", **more: Any) -> dict[str, Any]:
    """A case of session.json."""
    layer = more.pop("layer", "")
    name = f"{model}_{'layer_' + layer if layer else 'full_model'}-{engine}-default"
    return {
        "name": name,
        "verdict": verdict,
        "case": {"model": model, "layer": layer, "engine": engine, "options": "default", "spec": engine},
        "seconds": 1.5,
        "figures": {"ratio": 1.2, "max_abs": 1e-7},
        "message": "" if verdict == "PASS" else "output differs by 3.2e-3",
        "run": f"runs/{name}",
        **more,
    }


def result_json(result: Result | None = None) -> bytes:
    """A result.json; that of the failing example if none is given."""
    made = result or examples.failing()
    return dump_result(replace(made, pairs=made.pairs[:40])).encode()


def zipped(members: Mapping[str, bytes | str]) -> bytes:
    """A zip file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return made.getvalue()


def bundle(
    key: str, cases: list[dict[str, Any]], files: Mapping[str, bytes] | None = None, **more: Any
) -> bytes:
    """A bundle; `files` of every case's run folder are the same, a note if none are given."""
    members: dict[str, bytes | str] = {"session.json": json.dumps(session(key, cases, **more))}
    for one in cases:
        if one["run"]:
            for path, data in (files or {"note.txt": one["name"].encode()}).items():
                members[f"{one['run']}/{path}"] = data
    return zipped(members)
