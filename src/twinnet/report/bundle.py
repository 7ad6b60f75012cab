"""The bundle: a zip with `session.json`, a list of results, and `runs/<case>/` with the run folder of each."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinnet.errors import UsageError
from twinnet.files import whole_file
from twinnet.result import Result, ResultSet

__all__ = ["SCHEMA", "bundle_results", "profile_session", "results_session", "run_session", "write_bundle"]

SCHEMA = 1
"""Version of session.json."""

_PACKED = (".json", ".html", ".csv", ".xml", ".md", ".txt", ".py")
_LEFT_OUT = (".writing", ".part")


def write_bundle(path: Path, session: Mapping[str, Any], runs: Mapping[str, Path]) -> Path:
    """Write a bundle; it is there whole or not at all. Tensors are stored as they are, texts compressed."""
    with whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("session.json", json.dumps(session, indent=1), zipfile.ZIP_DEFLATED)
        for name, folder in runs.items():
            home = folder.resolve()
            # A link in a folder that somebody else made may lead to any file of ours: it is not sent.
            own = (p for p in folder.rglob("*") if p.is_file() and p.resolve().is_relative_to(home))
            for inner in sorted(own):
                place = inner.relative_to(folder).as_posix()
                if place.startswith(_LEFT_OUT) or place.endswith(_LEFT_OUT):
                    continue
                how = zipfile.ZIP_DEFLATED if inner.suffix in _PACKED else zipfile.ZIP_STORED
                archive.write(inner, f"runs/{name}/{place}", how)
    return path


def bundle_results(path: Path, result: Result | ResultSet) -> Path:
    """The bundle of a check whose run folder is written."""
    from twinnet.origin import origin

    session, runs = results_session(result)
    return write_bundle(path, {**origin(), **session}, runs)


def results_session(result: Result | ResultSet) -> tuple[dict[str, Any], dict[str, Path]]:
    """session.json of a check, and the run folder of each of its cases.

    Its id is made from the results: the same check is the same session, however often and whenever it is sent.
    """
    results, runs, digest, ended = [], {}, hashlib.sha256(), []
    several = result.results if isinstance(result, ResultSet) else (result,)
    for one in several:
        folder = Path(one.folder)
        name = folder.name
        runs[name] = folder
        results.append(_told(name, one))
        digest.update((folder / "result.json").read_bytes())
        ended.append((folder / "result.json").stat().st_mtime)
    finished = max(ended, default=0.0)
    first = several[0]
    session = {
        "schema": SCHEMA,
        "id": digest.hexdigest()[:32],
        "made_by": "check",
        "started": finished - sum(one.timings.get("total", 0.0) for one in several),
        "finished": finished,
        "command": list(first.argv),
        "environment": dict(first.environment),
        "results": results,
    }
    return session, runs


def run_session(folder: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """session.json of a run folder that a check or a profile has left, and its run folders."""
    from twinnet.report.json_file import load_result

    folder = folder.resolve()
    if (folder / "result.json").is_file():
        result = load_result(folder)
        for one in result.results if isinstance(result, ResultSet) else (result,):
            if not Path(one.folder).resolve().is_relative_to(folder):
                raise UsageError(f"{folder}/result.json names a run elsewhere: {one.folder}")
        return results_session(result)
    return profile_session(folder)


def _told(name: str, one: Result) -> dict[str, Any]:
    options = one.twin.spec.removeprefix(one.twin.engine).lstrip("?:").rpartition("/")[2]
    return {
        "name": name,
        "verdict": one.verdict,
        "stage": one.stage,
        "message": one.error.strip().partition("\n")[0]
        or str(one.findings[0].reason if one.findings else ""),
        "evidence": one.evidence,
        "seconds": one.timings.get("total", 0.0),
        "run": f"runs/{name}",
        "case": {
            "model": one.network.name,
            "layer": "",
            "engine": one.twin.engine,
            "options": options,
            "spec": one.twin.spec,
        },
    }


def profile_session(folder: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """session.json of the profiles in a folder, and their run folders.

    A profile says how long, not whether it is right: without a result beside it its verdict is PASS, for it ran.
    """
    patterns = ("profile/profile.json", "profile.json", "profile/*/profile.json", "*/profile.json")
    files = next((found for p in patterns if (found := sorted(folder.glob(p)))), [])
    if not files:
        raise UsageError(f"{folder} is not a run folder: it has no result.json, and no profile.json")
    digest, results, runs = hashlib.sha256(), [], {}
    for file in files:
        run = file.parent.parent if file.parent.name == "profile" else file.parent
        results.append(_profiled(run, file))
        runs[run.name] = run
        digest.update(file.read_bytes())
    finished = max(file.stat().st_mtime for file in files)
    session = {
        "schema": SCHEMA,
        "id": digest.hexdigest()[:32],
        "made_by": "profile",
        "started": finished,
        "finished": finished,
        "command": [],
        "environment": {},
        "results": results,
    }
    return session, runs


def _profiled(run: Path, file: Path) -> dict[str, Any]:
    """A profile as a case; as that of its check, if the run folder has one."""
    from twinnet.files import read_json
    from twinnet.report.json_file import load_result

    if (run / "result.json").is_file():
        checked = load_result(run)
        if isinstance(checked, Result):
            return _told(run.name, checked)
    told = read_json(file, "profile")
    if not isinstance(told, dict):
        raise UsageError(f"{file} is not a profile")
    engine, spec = str(told.get("engine", "")), str(told.get("spec", ""))
    about = {"model": str(told.get("network") or run.name), "layer": "", "engine": engine, "spec": spec}
    return {
        "name": run.name,
        "verdict": "PASS",
        "run": f"runs/{run.name}",
        "case": {**about, "options": spec.removeprefix(engine).lstrip("?:").rpartition("/")[2]},
    }
