"""The pages: one file per subject; each function reads, and names the template that shows it."""

from __future__ import annotations

__all__: list[str] = []
