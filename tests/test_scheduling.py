"""A worker that dies costs one test, not the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOOK = """
def pytest_xdist_make_scheduler(config, log):
    from tests.scheduling import ByFile
    return ByFile(config, log)
"""
GOOD = "import pytest\n@pytest.mark.parametrize('n', range({count}))\ndef test_good(n): pass\n"
BAD = GOOD + "def test_dies():\n    import os\n    os._exit(3)\ndef test_after(): pass\n"


def test_a_worker_that_dies_costs_one_test(tmp_path: Path) -> None:
    """The last file is the worker's third: what it had finished before is not handed out again."""
    (tmp_path / "conftest.py").write_text(HOOK)
    for place, count in enumerate((9, 9, 8, 8, 2, 2, 2)):
        (tmp_path / f"test_{place}.py").write_text((BAD if place == 3 else GOOD).format(count=count))
    words = ["-n", "2", "--dist", "loadfile", "-p", "xdist", "-p", "no:cacheprovider", "-rf"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1 and "FAILED test_3.py::test_dies" in done.stdout, done.stdout + done.stderr
    assert "1 failed, 41 passed" in done.stdout, done.stdout
