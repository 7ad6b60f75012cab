"""Where a session comes from: branch, commit and who ran it, from the CI server's variables or from git."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

__all__ = ["new_session_id", "origin"]

_BRANCH = ("TWINNET_BRANCH", "GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BRANCH_NAME")
_COMMIT = ("TWINNET_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT")
_WHO = ("TWINNET_WHO", "GITHUB_ACTOR", "GITLAB_USER_LOGIN", "BUILD_USER_ID", "USER", "LOGNAME", "USERNAME")
_PATIENCE = 5.0


def new_session_id() -> str:
    """A name for a session that no other has."""
    return uuid.uuid4().hex


def origin(folder: Path | None = None) -> dict[str, str]:
    """Branch, commit and who; empty where nobody says. Used where sessions are sent to a dashboard.

    >>> set(origin()) == {"branch", "commit", "who"}
    True
    """
    branch, commit = _first(_BRANCH), _first(_COMMIT)
    if not branch or not commit:
        here, there = _git(folder)
        branch, commit = branch or here, commit or there
    return {"branch": branch, "commit": commit, "who": _first(_WHO)}


def _first(names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")


def _git(folder: Path | None) -> tuple[str, str]:
    """Branch and commit of the folder's repository; a detached head has no branch."""
    command = ["git", "rev-parse", "HEAD", "--abbrev-ref", "HEAD"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return "", ""
    lines = done.stdout.split()
    if done.returncode or len(lines) != 2:
        return "", ""
    return ("" if lines[1] == "HEAD" else lines[1]), lines[0]
