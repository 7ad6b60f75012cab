"""Climb a network rung by rung: ever larger cuts of it are converted and checked until the twin breaks.

`source` says where a network can be cut, `climb` finds the rung and the smallest block that breaks, `fault` whether
conversion or execution is to blame.
"""

from __future__ import annotations

from twinnet.ladder.run import Course, ladder, ladder_with

__all__ = ["Course", "ladder", "ladder_with"]
