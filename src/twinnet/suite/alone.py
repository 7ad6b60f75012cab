"""The suite without tests: pytest runs in this process, on the models only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twinnet.errors import EngineError, UsageError, machine_error
from twinnet.extras import optional_packages
from twinnet.suite.config import read_config
from twinnet.suite.models import find_models

__all__ = ["run_suite"]


_AUTOLOAD = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"


def run_suite(words: Sequence[str], *, quiet: bool = False) -> int:
    """Run the suite of this folder with these options of pytest; returns the exit code.

    0 if all is as wanted, 1 for a FAIL or a pass that was not expected, 3 for an ERROR and no FAIL, 2 for wrong usage.
    """
    with optional_packages():
        import pytest
    root = Path.cwd()
    named = [word.partition("=")[2] for word in words if word.startswith("--twin-models=")]
    config = read_config(root, models=named)
    folders = [folder for folder in config.models if folder.is_dir()]
    if not folders:
        raise UsageError(
            f"there is no folder {config.models[0] if config.models else 'models'}",
            hint="name one with --models, or as models = [...] under [tool.twinnet] in pyproject.toml",
        )
    if not find_models(config.models):
        raise UsageError(
            f"no model in {', '.join(map(str, folders))}",
            hint="models are files .onnx, .tflite, .pt2 and *_model.py; --models names other folders",
        )
    asked = [word.partition("=")[2] for word in words if word.startswith("--twin-report=")]
    report = Path(asked[-1]) if asked else config.root / config.report
    if "--collect-only" not in words:
        try:
            report.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise machine_error(error, report, doing="write") from error
    seen = _Seen()
    command = [
        "--noconftest",
        "--no-header",
        *("-p", "twinnet.suite.plugin"),
        *("-p", "no:unraisableexception"),  # it looks through all objects, five times
        *(("-p", "xdist.plugin") if any(word.startswith("-n") for word in words) else ()),
        f"--rootdir={root}",
        "--override-ini=addopts=",
        "--disable-warnings",
        "-q" if quiet else "-v",
        *(word for word in words if not word.startswith("--twin-report=")),
        f"--twin-report={report}",
        *map(str, folders),
    ]
    # Plugins of others are not needed, and some take seconds to load.
    before = os.environ.get(_AUTOLOAD)
    os.environ[_AUTOLOAD] = "1"
    try:
        code = int(pytest.main(command, plugins=[seen]))
    finally:
        if before is None:
            del os.environ[_AUTOLOAD]
    return seen.exit_code(code)


class _Seen:
    """The suite of a pytest run, for its exit code."""

    def __init__(self) -> None:
        self._suite: Any = None

    def pytest_configure(self, config: Any) -> None:
        self._config = config

    def pytest_sessionfinish(self) -> None:
        self._suite = self._config.pluginmanager.get_plugin("twinnet-suite")

    def exit_code(self, code: int) -> int:
        """The exit code of twinnet for that of pytest."""
        if code == 2:
            raise KeyboardInterrupt
        if code == 4:
            raise UsageError("the suite was not started, for the reason above")
        if code == 5:
            raise UsageError("no case was selected", hint="`twinnet suite --list` names them all")
        if code == 3:
            raise EngineError("pytest ended with an internal error", stage="run", hint="see above")
        bad = [o for o in self._suite.session.outcomes.values() if not o.good] if self._suite else []
        if any(o.verdict != "ERROR" for o in bad):
            return 1
        return 3 if bad else code
