"""A package is imported beside other work, and its absence is left to whoever needs it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from twinnet.importing import importing


def test_what_is_loaded_already_is_not_waited_for() -> None:
    before = threading.active_count()
    with importing("sys") as waiting:
        assert not waiting
        assert threading.active_count() == before


def test_the_package_is_there_when_the_body_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.joinpath("slow_one.py").write_text("import time\ntime.sleep(0.05)\nvalue = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    with importing("slow_one") as waiting:
        assert waiting
    assert sys.modules.pop("slow_one").value == 3


def test_a_package_that_is_missing_is_no_error_here() -> None:
    with importing("no_such_package_anywhere") as waiting:
        assert waiting
    assert "no_such_package_anywhere" not in sys.modules


def test_an_error_of_the_body_waits_and_passes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.joinpath("slow_two.py").write_text("import time\ntime.sleep(0.05)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="mine"), importing("slow_two"):
        raise ValueError("mine")
    assert sys.modules.pop("slow_two")


def test_pytorch_may_be_imported_so() -> None:
    code = (
        "from twinnet.importing import importing\nwith importing('torch') as waiting:\n    assert waiting\n"
        "import torch\nassert float(torch.ones(300, 300).sum()) == 90000"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
