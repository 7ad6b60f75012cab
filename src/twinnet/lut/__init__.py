"""Lookup-table networks."""
