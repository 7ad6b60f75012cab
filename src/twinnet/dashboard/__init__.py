"""The dashboard: every suite, check and profile of a team, and how accuracy and speed change over time.

`twinnet serve` starts it (`server.py`). Bundles come in through `intake.py`, which checks them and writes a transaction
each; small facts go to the database (`models.py`), files to a store (`store.py`). `queries/` reads, `pages/` shows, and
`api.py` is the same for programs.
"""

from __future__ import annotations

__all__: list[str] = []
