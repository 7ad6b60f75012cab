"""Repros of tables are started as those of other networks are."""

from tests.shrink.conftest import start

__all__ = ["start"]
