"""A bundle comes in: checked, its files stored, and then one transaction. Until that ends nothing of it is seen.

Files are stored first, under their content. A server that is killed in between leaves blobs that no row names, which
retention removes; it never leaves a row without its files.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinnet.dashboard.archive import BadBundle, Limits, Opened, open_bundle
from twinnet.dashboard.database import Database
from twinnet.dashboard.incoming import FileIn, RunIn, SessionIn, bounded, tidy
from twinnet.dashboard.store import Store, TooLarge
from twinnet.dashboard.summary import profile_of, with_profile, with_result
from twinnet.dashboard.write import Stored, Writer
from twinnet.scratch import scratch_folder

__all__ = ["Taken", "take_in"]

_FEW = 500
_VERDICTS = ("PASS", "FAIL", "ERROR", "SKIP")


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of an upload."""

    session_id: int
    key: str
    runs: tuple[Stored, ...]


def take_in(database: Database, store: Store, bundle: Path, limits: Limits) -> Taken:
    """Take in a bundle; what it holds is there whole when this returns, and not at all if it raises."""
    with open_bundle(bundle, limits) as opened:
        session = _session(opened.session)
        cases = [_case(one) for one in opened.session["results"]]
        names = [case.name for case, _ in cases]
        if len(set(names)) < len(names):
            raise BadBundle("two cases of the session have the same name")
        named = {folder for _, folder in cases if folder}
        if strangers := set(opened.runs) - named:
            raise BadBundle(f"runs/{min(strangers)!r} belongs to no case of the session")
        there = _there(database, session.key, names)
        runs = [
            case if case.name in there else _filled(case, folder, opened, store) for case, folder in cases
        ]
    with database.writing() as connection:
        writer = Writer(connection)
        number = writer.session(session)
        stored = writer.runs(number, runs)
    return Taken(number, session.key, tuple(stored))


def _there(database: Database, key: str, names: list[str]) -> set[str]:
    """Cases that need no second look: they are stored."""
    import sqlalchemy as sa

    from twinnet.dashboard.models import Run, Session

    with database.reading() as connection:
        which = sa.select(Run.name).join(Session, Run.session_id == Session.id).where(Session.key == key)
        if len(names) <= _FEW:
            which = which.where(Run.name.in_(names))
        return set(connection.execute(which).scalars()) & set(names)


def _session(data: Mapping[str, Any]) -> SessionIn:
    made_by = _name(data, "made_by", 32) or "check"
    key = _name(data, "id", 64)
    if not key:  # written before sessions had a name: the same file is the same session
        key = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]
    if not all(char.isalnum() or char in "-_." for char in key):
        raise BadBundle("the session's id has characters other than letters, digits, '-', '_' and '.'")
    command, environment = data.get("command"), data.get("environment")
    now = time.time()
    started = bounded(data.get("started"))
    finished = bounded(data.get("finished"))
    return SessionIn(
        key,
        made_by,
        started if started is not None and 0 < started < now + 86400 else finished or now,
        finished if finished is None or 0 < finished < now + 86400 else None,
        _name(data, "title", 200),
        _name(data, "branch", 200),
        _name(data, "commit", 80),
        _name(data, "who", 100),
        tuple(tidy([str(w) for w in command][:500])) if isinstance(command, list) else (),
        tidy({k: str(v) for k, v in list(environment.items())[:300]}, 300)
        if isinstance(environment, dict)
        else {},
    )


def _case(data: Any) -> tuple[RunIn, str]:
    """A case of session.json, and the name of its run folder in the bundle."""
    if not isinstance(data, dict):
        raise BadBundle("a case of session.json is not an object")
    name = _name(data, "name", 300)
    if not name:
        raise BadBundle("a case of session.json has no name")
    verdict = data.get("verdict")
    if verdict not in _VERDICTS:
        raise BadBundle(f"case {name!r} has no known verdict")
    about, figures = _table(data, "case"), _table(data, "figures")
    options = _name(about, "options", 120)
    engine = _name(about, "engine", 170)
    run = RunIn(
        name=name,
        model=_name(about, "model", 300),
        layer=_name(about, "layer", 300),
        engine="-".join(filter(None, (engine, options))),
        random=about.get("random") is True,
        spec=_name(about, "spec", 500),
        verdict=str(verdict),
        step=_name(data, "step", 40) or (_name(data, "stage", 40) if verdict == "ERROR" else ""),
        message=_text(data, "message", 4000),
        evidence="weak" if data.get("evidence") == "weak" else "strong",
        expected=data["expected"] if data.get("expected") in ("yes", "no") else "",
        same_as=_name(data, "same_as", 300),
        seconds=min(max(bounded(data.get("seconds")) or 0.0, 0.0), 1e9),
        ratio=bounded(figures.get("ratio")),
        max_abs=bounded(figures.get("max_abs")),
    )
    folder = data.get("run")
    if not isinstance(folder, str) or not folder:
        return run, ""
    if not folder.startswith("runs/"):
        raise BadBundle(f"case {name!r} names a run folder outside runs/")
    return run, folder.removeprefix("runs/").rstrip("/")


def _filled(run: RunIn, folder: str, opened: Opened, store: Store) -> RunIn:
    """A case with its files stored, and with what its result and profile say."""
    members = opened.runs.get(folder, {})
    if "profile.json" in members and "result.json" not in members:  # a profile in a folder of its own
        members = {f"profile/{path}": member for path, member in members.items()}
    files = []
    for path, member in members.items():
        with opened.reading(member) as source:
            try:
                digest, size = store.put(source, member.file_size)
            except TooLarge:
                raise BadBundle(f"{member.filename!r} is longer than it says") from None
        files.append(FileIn(path, size, digest))
    run = replace(run, files=tuple(files))
    if "result.json" in members:
        with scratch_folder("dashboard") as there:
            (there / "result.json").write_bytes(opened.text(members["result.json"]))
            run = with_result(run, there)
    if "profile/profile.json" in members:
        profile = profile_of(opened.text(members["profile/profile.json"]))
        if profile is not None:
            run = with_profile(run, profile)
    return replace(run, model=run.model or run.name, engine=run.engine or "unknown")


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object of the file; empty if there is none."""
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def _name(data: Mapping[str, Any], name: str, most: int) -> str:
    """A text of one line: addresses and lists show it as a name."""
    return _text(data, name, most).replace("\n", " ")


def _text(data: Mapping[str, Any], name: str, most: int) -> str:
    """A text of the file, cut, with what cannot be shown escaped; empty if there is none."""
    value = data.get(name)
    return tidy(value, most)[:most] if isinstance(value, str) else ""
