"""A precision tried out first: what would end the process is an ERROR with advice."""

from __future__ import annotations

from pathlib import Path

import pytest

import twinnet.engines.torch as engine
from twinnet.errors import EngineError
from twinnet.programs.trial import announces_amx, try_out

DIES = """
import os, signal, sys
os.kill(os.getpid(), signal.SIGILL) if sys.argv[1] == "bfloat16" else sys.exit("no such kernel")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "dies.py"
    path.write_text(DIES)
    return path


def test_a_program_that_a_signal_ends_says_what_to_do(program: Path) -> None:
    with pytest.raises(
        EngineError, match=r"torch could not run in bfloat16 on this machine: .*SIGILL"
    ) as caught:
        try_out("torch", program, "bfloat16")
    assert caught.value.exit_code == 3 and "ONEDNN_MAX_CPU_ISA" in (caught.value.hint or "")
    try_out("torch", program, "float16")  # refused, not killed: the network at hand will tell


def test_torch_runs_its_own_trial() -> None:
    for precision in ("bfloat16", "float16"):
        try_out("torch", Path(engine.__file__).with_name("_torch_trial.py"), precision)


def test_amx_is_believed_only_where_it_is_announced_and_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, silent = tmp_path / "told", tmp_path / "silent"
    told.write_text("flags\t\t: fpu avx512_bf16 amx_bf16 amx_tile amx_int8\n")
    silent.write_text("flags\t\t: fpu avx2\n")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    assert announces_amx(told) and not announces_amx(silent) and not announces_amx(tmp_path / "none")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    assert not announces_amx(told)


def test_a_check_in_bfloat16_tries_it_first(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that would compute in bfloat16 does not open where the trial dies."""
    monkeypatch.setattr(engine, "announces_amx", lambda: True)
    monkeypatch.setattr(engine, "_TRIAL", program)
    with pytest.raises(EngineError, match="SIGILL"):
        engine.try_narrow("bfloat16")
    engine.try_narrow("float32")
