"""A small network in another precision: some machines announce instructions that end the process when they run.

Run as a program of its own: `_openvino_trial.py PRECISION`. It imports nothing of twinnet.
"""

from __future__ import annotations

import sys
from typing import Any

__all__: list[str] = []


def _run(precision: str) -> None:
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import numpy as np
    import openvino
    from openvino import opset13

    ov: Any = openvino
    op: Any = opset13
    x = op.parameter([1, 32, 16, 16], np.float32)
    weights = op.constant(np.ones((32, 32, 3, 3), np.float32))
    rows = op.reshape(
        op.convolution(x, weights, [1, 1], [0, 0], [0, 0], [1, 1]), op.constant(np.array([-1, 32])), False
    )
    y = op.matmul(rows, op.constant(np.ones((32, 64), np.float32)), False, False)
    config = {"INFERENCE_PRECISION_HINT": precision}
    compiled = ov.Core().compile_model(ov.Model([y], [x]), "CPU", config)
    compiled(np.zeros((1, 32, 16, 16), np.float32))


if __name__ == "__main__":
    _run(sys.argv[1])
