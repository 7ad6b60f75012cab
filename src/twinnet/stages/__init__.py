"""Follow a network through its stages: eager, exported, decomposed, ONNX, optimised, quantised, engine.

Each step from one stage to the next is an ordinary check, which shows the stage where a difference enters. `forms`
makes the forms of a network, `follow` compares them.
"""

from __future__ import annotations

from twinnet.stages.follow import Route, read_stage_files, stages, stages_with

__all__ = ["Route", "read_stage_files", "stages", "stages_with"]
