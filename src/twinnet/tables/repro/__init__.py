"""Repros of findings in networks of lookup tables: seed, sides, folder, and the file they write."""
