"""A precision tried out in a process of its own, before this one computes in it.

Some virtual machines announce instructions (AMX, matrix tiles in bfloat16) that end a process when it uses them, and
oneDNN, which PyTorch and OpenVINO bring, uses them.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from twinnet.errors import EngineError
from twinnet.programs.start import Task, start_program

__all__ = ["announces_amx", "try_out"]

_HINT = "without AMX it may: set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment"


@cache
def try_out(engine: str, program: Path, precision: str) -> None:
    """Run `program PRECISION`, a file that imports nothing of twinnet; an `EngineError` if a signal ends it."""
    task = Task(engine, f"run in {precision} on this machine", limit=120.0)
    try:
        start_program([sys.executable, "-P", str(program), precision], task)
    except EngineError as error:
        if error.accident != "killed":  # it says so itself, of the network at hand
            return
        raise error.hinting(_HINT) from None


def announces_amx(processor: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether oneDNN would use AMX here: the processor announces it, and nobody has forbidden it."""
    if "ONEDNN_MAX_CPU_ISA" in os.environ:
        return False
    try:
        return "amx_tile" in processor.read_text(encoding="utf-8", errors="replace").split()
    except OSError:  # no Linux: no such list, and none of those virtual machines
        return False
