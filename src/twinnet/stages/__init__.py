"""Following a network through its stages: eager, exported, decomposed, ONNX, optimised, quantised, engine.

Every step from one stage to the next is an ordinary check, so that a difference is named with the stage where it
enters. What the forms of a network are is in `forms`; how the steps are taken, in `follow`.
"""

from __future__ import annotations

from twinnet.stages.follow import Route, read_stage_files, stages, stages_with

__all__ = ["Route", "read_stage_files", "stages", "stages_with"]
