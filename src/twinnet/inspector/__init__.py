"""Look into recordings: what ran, how long it took and which tensors it made; and compare two sets of tensors."""

from __future__ import annotations

from twinnet.inspector.compare_results import compare_results
from twinnet.inspector.events import Event, EventBlock, Times
from twinnet.inspector.inspector import Inspector

__all__ = ["Event", "EventBlock", "Inspector", "Times", "compare_results"]
