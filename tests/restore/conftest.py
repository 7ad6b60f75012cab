"""The shared fixtures of table networks."""

from tests.lut.conftest import data, noise, picture

__all__ = ["data", "noise", "picture"]
