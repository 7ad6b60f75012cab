"""Writing an ONNX graph node by node: each method takes and returns names of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["GraphWriter"]


class GraphWriter:
    """Nodes and constants of one graph; equal constants are one."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.known: dict[Any, str] = {}
        self.makers: dict[str, Any] = {}
        self.read: set[str] = set()
        self.count = 0

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """A node; the name of its output, or a list of them where it has several."""
        from onnx import helper

        self.count += 1
        names = [f"{kind.lower()}_{self.count}" + (f"_{k}" if outputs > 1 else "") for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        self.makers.update(dict.fromkeys(names, self.nodes[-1]))
        self.read.update(inputs)
        return names if outputs > 1 else names[0]

    def constant(self, value: Any, dtype: Any = np.int64, name: str | None = None) -> str:
        """A constant, under a name of its own if one is given."""
        from onnx import numpy_helper

        array = np.asarray(value, dtype)
        content = ("constant", array.dtype.str, array.shape, array.tobytes()) if name is None else name
        if content not in self.known:
            self.known[content] = name if name is not None else f"constant_{len(self.initializers)}"
            # `ascontiguousarray` would turn a scalar into a vector.
            self.initializers[self.known[content]] = numpy_helper.from_array(
                array.copy(), self.known[content]
            )
        return self.known[content]

    def cast(self, name: str, dtype: Any) -> str:
        """A tensor in another dtype."""
        from onnx import helper

        return self.op("Cast", name, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def once(self, key: Any, make: Callable[[], str]) -> str:
        """What `make` wrote, written at most once for each key."""
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]
