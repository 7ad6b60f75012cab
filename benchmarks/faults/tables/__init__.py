"""Faults in lookup-table networks: planted in the tables of a file, in an ONNX model, or in a foreign interpreter."""

from __future__ import annotations

from benchmarks.faults.tables.run import run_tables

__all__ = ["run_tables"]
