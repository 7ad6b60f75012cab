"""The whole idea in one minute: agree, disagree, and say where."""

from twinnet.demo.run import run_demo

__all__ = ["run_demo"]
