"""In which form the inputs and outputs of a TFLite twin are given and shown: that of its network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from twinnet.network.base import Network
from twinnet.tflite.model import Tensor
from twinnet.tflite.network import TfliteNetwork
from twinnet.tflite.view import View, first_to_last, last_to_first

__all__ = ["given_name", "sample_for", "shown_name", "stored", "view_for"]


def given_name(tensor: Tensor, view: View) -> str:
    """The name of an input of the network in its graph: integers seen as real numbers have one of their own."""
    return f"{tensor.name}/given" if tensor.index in view.real else tensor.name


def shown_name(tensor: Tensor, view: View) -> str:
    """The name of an output of the network in its graph."""
    return f"{tensor.name}/real" if tensor.index in view.real else tensor.name


def view_for(tflite: TfliteNetwork, network: Network | None, given: Mapping[int, Any]) -> View:
    """How a file is seen beside a network, whose inputs `given` holds by tensor of the file.

    Where the network has an image with its channels first and the file with channels last, it is seen with channels
    first; integers that stand for the network's real numbers are seen as these.
    """
    graph = tflite.model.main
    view = View(graph)
    if network is None or network is tflite:
        return view
    turned: set[int] = set()
    real: set[int] = set()
    for index, array in given.items():
        tensor = graph.tensors[index]
        if array is None:
            continue
        if index in view.last and _other_order(np.shape(array), tensor):
            turned.add(index)
        if np.issubdtype(np.asarray(array).dtype, np.floating) and _one_step(tensor):
            real.add(index)
    declared = dict(enumerate(network.signature.outputs))
    for place, index in enumerate(graph.outputs):
        tensor, spec = graph.tensors[index], declared.get(place)
        shape = None if spec is None else spec.shape
        if index in view.last:
            known = shape is not None and all(isinstance(n, int) for n in shape)
            if _other_order(shape or (), tensor) if known else bool(turned):
                turned.add(index)
        if _one_step(tensor) and (spec is None or "float" in spec.dtype):
            real.add(index)
    return View(graph, frozenset(turned), frozenset(real))


def stored(tensor: Tensor, view: View, array: np.ndarray, *, given: bool = False) -> np.ndarray:
    """A value as it is seen, in the form of the file; `given`: an input, which may be seen as real numbers."""
    from twinnet.store import numpy_dtype

    if view.seen_first(tensor.index) and array.ndim == 4:
        array = array.transpose(first_to_last(4))
    if given and tensor.index in view.real and tensor.steps is not None:
        info = np.iinfo(tensor.dtype)
        counted = np.rint(array / np.float32(tensor.steps.scale[0])) + tensor.steps.zero[0]
        array = np.clip(counted, info.min, info.max)
    return np.ascontiguousarray(array, dtype=numpy_dtype(tensor.dtype)).reshape(array.shape)


def sample_for(
    tflite: TfliteNetwork, network: Network | None, sample: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """A sample of the network, by the file's input names, in the form of the file."""
    index = dict(tflite.model.inputs)
    view = view_for(tflite, network, {index[name]: array for name, array in sample.items()})
    tensors = tflite.model.main.tensors
    return {n: stored(tensors[index[n]], view, np.asarray(a), given=True) for n, a in sample.items()}


def _other_order(shape: Any, tensor: Tensor) -> bool:
    """Whether a shape is that of the tensor with its channels first, and not as it is."""
    own = tensor.shape or ()
    if len(shape) != 4 or len(own) != 4:
        return False
    return not _fits(shape, own) and _fits(shape, tuple(own[a] for a in last_to_first(4)))


def _fits(shape: Any, declared: tuple[int | str, ...]) -> bool:
    return all(n == d for n, d in zip(shape, declared, strict=True) if isinstance(d, int))


def _one_step(tensor: Tensor) -> bool:
    return (
        tensor.dtype in ("int8", "uint8", "int16")
        and tensor.steps is not None
        and len(tensor.steps.scale) == 1
    )
