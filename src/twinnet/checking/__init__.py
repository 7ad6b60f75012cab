"""One check from beginning to end: open both sides, run, judge, blame, keep tensors and seeds, report."""

from __future__ import annotations

from twinnet.checking.options import Advise, Limits, Options

__all__ = ["Advise", "Limits", "Options"]
