"""Nothing is sent: engines that report their use to their makers are told not to, wherever they run."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from twinnet.engines._ort_alone import run_onnxruntime
from twinnet.engines.vendors import run_provider

RUN = inspect.getsource(run_onnxruntime)
ALONE = f"from typing import Any\n{RUN}\ntry:\n    run_onnxruntime('none.onnx', {{}}, {{}})"
PROGRAMS = {
    "here": ["-c", "import twinnet, onnxruntime"],
    "another interpreter": ["-m", "twinnet.engines._ort_session"],
    "a repro": ["-c", f"{ALONE}\nexcept Exception as error:\n    assert 'none.onnx' in str(error)"],
    "a provider": [str(run_provider.__file__), "--version"],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_onnxruntime_reports_nothing(name: str, tmp_path: Path) -> None:
    """Where it reports, it keeps a file for it in each of these folders."""
    place = {key: str(tmp_path) for key in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "TMPDIR")}
    # It is also silent where it takes itself to be tested.
    kept = {k: os.environ[k] for k in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH") if k in os.environ}
    done = subprocess.run(
        [sys.executable, *PROGRAMS[name]],
        cwd=tmp_path,
        env={**kept, **place, "PYTHONDONTWRITEBYTECODE": "1"},
        input='{"do": "version"}\n',
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("*")) == []
