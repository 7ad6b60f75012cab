"""ExecuTorch on the CPU: portable kernels or XNNPACK, in float or int8, each tensor seen as its runtime logs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from twinnet.engines._executorch_board import NEEDS
from twinnet.engines.base import (
    Abilities,
    Engine,
    Session,
    Standalone,
    one_of,
    positive,
    read_options,
    switch,
)
from twinnet.errors import UsageError, undoing
from twinnet.job import Job

if TYPE_CHECKING:
    from twinnet.network import Network

__all__ = ["ExecuTorchEngine"]


class ExecuTorchEngine(Engine):
    """Converts PyTorch networks, and runs `.pte` files, in a process of its own."""

    name: ClassVar[str] = "executorch"
    extra: ClassVar[str | None] = "executorch"
    summary: ClassVar[str] = "ExecuTorch, CPU"
    abilities: ClassVar[Abilities] = Abilities(capture=True, segment="compile", profile=True)
    packages: ClassVar[tuple[str, ...]] = ("executorch", "torchao")
    suffixes: ClassVar[tuple[str, ...]] = (".pte",)
    calmer: ClassVar[tuple[Mapping[str, str], ...]] = ({"delegate": "none"},)
    board: ClassVar[tuple[str, ...] | None] = NEEDS
    settings: ClassVar[Mapping[str, tuple[str, ...]]] = {"delegate": ("none", "xnnpack")}
    options: ClassVar[Mapping[str, str]] = {
        "delegate": "none|xnnpack (default none: portable kernels)",
        "quantize": "static (int8, calibrated with the inputs of the check)",
        "per_channel": "yes|no (default yes; quantize=static)",
        "taps": "yes|no (default yes: values inside delegates are shown where that does not change the result)",
        "threads": "a number (default: all cores)",
        "method": "a method of the file (default forward)",
        "etrecord": "the ETRecord of the file",
        "etdump": "an ETDump that a device made with the file, which is then not run here",
        "buffer": "the debug buffer of that ETDump",
    }

    def version(self) -> str:
        from twinnet.engines._executorch_home import executorch_version

        return executorch_version()

    def standalone(self) -> Standalone:
        from twinnet.engines._executorch_alone import run_executorch

        return Standalone(run_executorch, (), "executorch", ("torch", "executorch"), takes_onnx=False)

    def open(
        self, network: Network | None, options: Mapping[str, str], file: str | None, job: Job
    ) -> Session:
        chosen = read_options(
            self,
            options,
            delegate=one_of("none", "xnnpack"),
            quantize=one_of("static"),
            per_channel=switch,
            taps=switch,
            threads=positive,
            method=str,
            etrecord=str,
            etdump=str,
            buffer=str,
        )
        self._refuse_idle(chosen, file)
        if "etdump" in chosen:
            return self._recorded(chosen, network, file, job)
        self.version_at(job)
        from twinnet.engines._executorch_converted import ConvertedSession
        from twinnet.engines._executorch_file import FileSession, Program
        from twinnet.engines._executorch_home import Home
        from twinnet.engines._executorch_made import Lowering
        from twinnet.executorch import read_record

        home = Home(job, chosen.get("threads", job.threads))
        with undoing(home.close):
            if file is not None:
                record = read_record(chosen["etrecord"]) if "etrecord" in chosen else None
                program = Program(Path(file), record, chosen.get("method", "forward"))
                return FileSession(program, network, home, taps=chosen.get("taps", True))
            if network is None:
                raise UsageError("executorch needs a network or a file", hint="executorch:FILE.pte")
            how = Lowering(
                chosen.get("delegate", "none"), chosen.get("quantize", ""), chosen.get("per_channel", True)
            )
            return ConvertedSession(network, how, home, taps=chosen.get("taps", True))

    def _recorded(
        self, chosen: Mapping[str, Any], network: Network | None, file: str | None, job: Job
    ) -> Session:
        """What a device recorded; ExecuTorch need not be installed here."""
        from twinnet.engines._executorch_device import DeviceSession
        from twinnet.executorch import DebugBuffer, read_dump, read_record

        if "buffer" not in chosen:
            raise UsageError(
                "executorch: an ETDump has no values without its debug buffer, which holds the tensors",
                hint=f"name it, too: etdump={chosen['etdump']}&buffer=FILE",
            )
        record = read_record(chosen["etrecord"]) if "etrecord" in chosen else None
        dump, buffer = read_dump(chosen["etdump"]), DebugBuffer(chosen["buffer"])
        method, program = chosen.get("method", "forward"), None if file is None else Path(file)
        return DeviceSession(dump, buffer, record, method, network, job, program)

    def _refuse_idle(self, chosen: Mapping[str, Any], file: str | None) -> None:
        """Refuse options that would have no effect."""
        if "etdump" in chosen and not file and "etrecord" not in chosen:
            raise UsageError(
                "executorch: an ETDump does not tell what ran",
                hint=f"name the program, executorch:FILE.pte?etdump={chosen['etdump']}&buffer=FILE, "
                "or its ETRecord, etrecord=FILE",
            )
        as_is = "a recording" if "etdump" in chosen else "a .pte file, which is run as it is" if file else ""
        idle = ("delegate", "quantize", "per_channel") if as_is else ("method", "etrecord", "buffer")
        wrong = next((key for key in idle if key in chosen), None)
        if wrong is not None:
            where = as_is or "a network that is converted here"
            raise UsageError(f"executorch: {wrong}={chosen[wrong]} has no effect on {where}")
        if "buffer" in chosen and "etdump" not in chosen:
            raise UsageError("executorch: buffer has no effect without its ETDump", hint="etdump=FILE")
        if "per_channel" in chosen and "quantize" not in chosen:
            raise UsageError(
                "executorch: per_channel has no effect on a network that is not quantised",
                hint="quantize=static",
            )
