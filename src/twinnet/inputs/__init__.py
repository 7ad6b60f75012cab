"""Inputs: real samples from files and Python, or synthetic ones from the signature."""

from __future__ import annotations

from twinnet.inputs.load import Inputs, load_inputs
from twinnet.inputs.reader import python_sample
from twinnet.inputs.synthetic import synthesise

__all__ = ["Inputs", "load_inputs", "python_sample", "synthesise"]
