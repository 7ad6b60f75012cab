"""Run ExecuTorch without twinnet, as `repro.py` does.

The source of this function is copied into `repro.py`, so it must not use twinnet.
"""

from __future__ import annotations

from typing import Any

__all__ = ["run_executorch"]


def run_executorch(model: Any, options: dict[str, str], feeds: dict[str, Any]) -> dict[str, Any]:
    """The output of a `.pte` program (a path or its bytes) with one result, on inputs in their order."""
    import executorch.kernels.quantized  # noqa: F401 (operators with steps)
    import numpy
    import torch
    from executorch.runtime import Runtime

    program = Runtime.get().load_program(model if isinstance(model, bytes) else str(model))
    given = [torch.from_numpy(numpy.ascontiguousarray(array)) for array in feeds.values()]
    method = program.load_method("forward")
    assert method is not None
    return {"result": method.execute(given)[0].numpy().copy()}
