"""Canonical layers: one form of every operator, read from fx and ONNX graphs, evaluated by torch in float64.

The noise floor and everything built on it work on these layers only, so each is written once, not once per file
format.

>>> from twinnet.layers import Graph, Layer, evaluate
>>> import torch
>>> graph = Graph((Layer("relu", ("x",), ("y",)),), inputs=("x",), outputs=("y",))
>>> evaluate(graph, {"x": torch.tensor([-1.0, 2.0])})["y"]
tensor([0., 2.], dtype=torch.float64)
"""

from twinnet.layers.evaluate import evaluate
from twinnet.layers.floor import evaluate_with_error
from twinnet.layers.graph import Graph, Layer

__all__ = ["Graph", "Layer", "evaluate", "evaluate_with_error"]
