"""Model suites: every model in a folder becomes test cases, one for the whole and one for each of its layers.

`plugin.py` brings them to pytest, `alone.py` to people who do not write tests. A case is run by `run.py` with the one
comparison there is, `twinnet.check`; the suite judges nothing itself. A finished case is announced in `session.py`.
"""

from __future__ import annotations

__all__: list[str] = []
