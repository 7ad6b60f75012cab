"""What ExecuTorch writes, read as data: ETDump and its debug buffer, ETRecord, and how they belong together.

Nothing of ExecuTorch is imported here, and nothing unpickled that could run, so files from other machines can be read
anywhere.
"""

from __future__ import annotations

from twinnet.executorch.dump import DebugBuffer, Dump, Run, Step, TensorAt, Value, read_dump, tensors_of
from twinnet.executorch.program import recorded_program
from twinnet.executorch.quantised import StepsInside, steps_inside
from twinnet.executorch.record import Method, Node, Record, read_record
from twinnet.executorch.shown import Shown, shown_tensors
from twinnet.executorch.sources import Sources

__all__ = [
    "DebugBuffer",
    "Dump",
    "Method",
    "Node",
    "Record",
    "Run",
    "Shown",
    "Sources",
    "Step",
    "StepsInside",
    "TensorAt",
    "Value",
    "read_dump",
    "read_record",
    "recorded_program",
    "shown_tensors",
    "steps_inside",
    "tensors_of",
]
