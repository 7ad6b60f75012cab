"""The pytest plugin. It is loaded by every pytest, so it imports nothing until a project has a suite.

A project has one if its pyproject.toml has `[tool.twinnet]`, or if an option `--twin-*` is given. Its folder is the
nearest one with such a file, from the current folder up to pytest's rootdir.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

__all__: list[str] = []

_FLAGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--twin-models", {"metavar": "DIR", "action": "append", "help": "Folder of models; may be repeated."}),
    ("--twin-engines", {"metavar": "SPEC,...", "help": "Only these engines: names, patterns or specs."}),
    ("--twin-chips", {"metavar": "CHIP,...", "help": "What {chip} stands for in the specs of engines."}),
    ("--twin-hw-type", {"metavar": "TYPE", "help": "What {hw_type} stands for in the specs of engines."}),
    (
        "--twin-addr",
        {
            "metavar": "[USER@]HOST[:PORT]",
            "help": "Run the twins on this board, over ssh; or ray[://host:port].",
        },
    ),
    ("--twin-tolerance", {"metavar": "FILE.toml", "help": "Rules to use instead of the noise floor."}),
    ("--twin-expected", {"metavar": "FILE", "help": "File of expected failures."}),
    (
        "--twin-time-limit",
        {
            "metavar": "SECONDS|STEP=SECONDS,...",
            "help": "Stop steps of an engine after this time: all, or export, import, compile, load, run, compare.",
        },
    ),
    ("--twin-report", {"metavar": "DIR", "help": "Report folder (default: runs/suite)."}),
    ("--twin-bundle", {"metavar": "FILE.zip", "help": "Also write the report's data as one file."}),
)
_MORE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--with-random", {"action": "store_true", "help": "Also run each layer on random activations."}),
    (
        "--debug-ir",
        {"metavar": "DIR", "help": "Write the IR of engines that compile, in one folder per case."},
    ),
    (
        "--runtime-profile",
        {"metavar": "DIR", "help": "Write the times of layers, in one folder per case."},
    ),
    (
        "--compile-profile",
        {"metavar": "DIR", "help": "Write the times of building, in one folder per case."},
    ),
    ("--recompute-cache", {"action": "store_true", "help": "Make all artefacts and results again."}),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("twinnet", "model suites (twinnet)")
    for name, told in (*_FLAGS, *_MORE):
        group.addoption(name, default=None, **told)


def pytest_configure(config: pytest.Config) -> None:
    asked = any(config.getoption(_dest(name)) is not None for name, _ in _FLAGS)
    root = _root(config)
    if asked or root is not None:
        from twinnet.suite.pytest_suite import activate

        activate(config, root or config.rootpath)


def _root(config: pytest.Config) -> Path | None:
    """The folder of the suite. In a repository of several projects pytest's rootdir may be further up."""
    here, top = config.invocation_params.dir, config.rootpath
    for folder in (here, *here.parents) if here.is_relative_to(top) else (top,):
        try:
            if b"[tool.twinnet" in (folder / "pyproject.toml").read_bytes():
                return folder
        except OSError:
            pass
        if folder == top:
            break
    return None


def _dest(name: str) -> str:
    return name.lstrip("-").replace("-", "_")
