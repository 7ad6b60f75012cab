"""What pages and API read: one file per subject, each function a few indexed statements."""

from __future__ import annotations

__all__: list[str] = []
