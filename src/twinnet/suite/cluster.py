"""Cases as tasks of a Ray cluster. What a lost worker was doing runs again on another one."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Collection, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from twinnet.cache import cache_dir
from twinnet.errors import EngineError, TwinnetError, UsageError, foreign
from twinnet.extras import optional_packages
from twinnet.files import checked
from twinnet.suite.config import Config
from twinnet.suite.models import Model
from twinnet.suite.outcome import Case, Outcome
from twinnet.suite.shipping import Store, pack_run, put_project, take_project, unpack_run
from twinnet.suite.stamps import code_stamp

__all__ = ["Cluster", "is_cluster", "run_task"]

_RETRIES = 3
_CLIENT = 10001
"""The port of Ray's own client, which needs no node on this machine."""


def is_cluster(place: str | None) -> bool:
    """Whether `--on` names a Ray cluster.

    >>> is_cluster("ray"), is_cluster("ray://head:6379"), is_cluster("ssh://board"), is_cluster(None)
    (True, True, False, False)
    """
    return place is not None and (place == "ray" or place.startswith("ray://"))


class Cluster:
    """The cases of one session on a cluster."""

    def __init__(self, config: Config) -> None:
        with optional_packages():
            import ray
        self._ray: Any = ray
        self._config = config
        self._store = Store(config.store or f"file://{cache_dir()}/cluster")
        self._session = uuid.uuid4().hex
        self._tasks: dict[str, Any] = {}
        self._ours = not ray.is_initialized()
        if self._ours:
            self._connect()

    def _connect(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would call home
        address = (self._config.place or "").partition("://")[2]
        if address and not address.rpartition(":")[2].isdigit():
            raise UsageError(f"{address!r} is not the address of a cluster", hint="ray, or ray://HOST:PORT")
        where = address or None
        if address.endswith(f":{_CLIENT}"):
            where = f"ray://{address}"
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        with foreign("connect to the cluster", "ray"):
            self._ray.init(address=where, **quiet)

    def submit(self, cases: Iterable[tuple[Model, Case, Collection[str]]]) -> None:
        """Start all cases; they run as there is room for them."""
        listed = put_project(self._config, self._store)
        config = json.dumps(asdict(self._config), default=str)
        task = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(run_task)
        for model, case, chosen in cases:
            told = {
                "stamp": code_stamp(),
                "root": str(self._config.root),
                "config": config,
                "files": listed,
                "store": self._store.url,
                "model": [model.name, str(model.path)],
                "case": asdict(case),
                "chosen": sorted(chosen),
                "result": f"runs/{self._session}/{uuid.uuid4().hex}.zip",
            }
            with foreign("start a task", "ray"):
                self._tasks[case.name] = task.remote(json.dumps(told))

    def has(self, case: Case) -> bool:
        """Whether a case was submitted."""
        return case.name in self._tasks

    def outcome(self, case: Case, folder: Path) -> Outcome:
        """Wait for a case; its run comes into `folder`."""
        from twinnet.suite.run import moved_run

        try:
            with foreign("run the case on the cluster", "ray"):
                said = json.loads(self._ray.get(self._tasks[case.name]))
            shutil.rmtree(folder, ignore_errors=True)
            if said["result"]:
                unpack_run(self._store.get(said["result"]), folder)
                self._store.drop(said["result"])
                moved_run(folder)
        except TwinnetError as error:
            return Outcome(case, "ERROR", step="run", stage="run", message=str(error))
        found = Outcome.from_json(said["outcome"], "the outcome of a cluster")
        return replace(found, case=case, folder=str(folder) if said["result"] else "")

    def close(self) -> None:
        """Give up what still runs, and leave the cluster."""
        for task in self._tasks.values():
            with foreign("cancel a task", "ray"):
                self._ray.cancel(task)
        self._tasks.clear()
        if self._ours:
            self._ray.shutdown()


def run_task(told: str) -> str:
    """Run one case on a worker; text in and text out, so that nothing but text has to be understood there."""
    from twinnet.scratch import scratch_folder
    from twinnet.suite.run import run_case
    from twinnet.suite.subject import subject_of

    task = json.loads(told)
    case = checked(Case, task["case"], "the case")
    if task["stamp"] != code_stamp():
        message = "the workers of the cluster have another version of twinnet"
        outcome = Outcome(case, "ERROR", step="run", stage="run", message=message)
        return json.dumps({"outcome": outcome.to_json(), "result": ""})
    store = Store(task["store"])
    try:
        root = take_project(task["files"], store)
        config = checked(Config, _moved(json.loads(task["config"]), task["root"], str(root)), "the suite")
        model = Model(task["model"][0], Path(_moved(task["model"][1], task["root"], str(root))))
        with scratch_folder("cluster") as folder:
            run = folder / "run"
            before = Path.cwd()
            os.chdir(root)  # as in a checkout
            try:
                outcome = run_case(case, subject_of(model, config), run, task["chosen"])
            finally:
                os.chdir(before)
            name = task["result"] if run.is_dir() else ""
            if name:
                store.put(name, pack_run(run))
    except (EngineError, UsageError) as error:
        outcome, name = Outcome(case, "ERROR", step="run", stage="run", message=str(error)), ""
    return json.dumps({"outcome": outcome.to_json(), "result": name})


def _moved(value: Any, old: str, new: str) -> Any:
    """Values with the paths of one project folder put into another."""
    if isinstance(value, str):
        return new + value[len(old) :] if value == old or value.startswith(old + os.sep) else value
    if isinstance(value, list):
        return [_moved(v, old, new) for v in value]
    if isinstance(value, dict):
        return {k: _moved(v, old, new) for k, v in value.items()}
    return value
