"""How the tables of `twinnet.models` are made, scored beside others, and written about.

`python -m tools.shipped_tables.make` does all of it; `scores.json` keeps what was measured.
"""
