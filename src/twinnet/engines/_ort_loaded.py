"""A model that ONNX Runtime has loaded, as a function of its feeds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from twinnet.engines._ort_signed import back
from twinnet.errors import foreign
from twinnet.job import Arrays, Job

__all__ = ["BFLOAT16_NUMBER", "Loaded"]

_BFLOAT16 = "tensor(bfloat16)"
BFLOAT16_NUMBER = 16


class Loaded:
    """An `InferenceSession` with its names. Outputs in `unsigned` hold 128 more than the file says."""

    def __init__(self, session: Any, job: Job, unsigned: Collection[str] = ()) -> None:
        self.session = session
        self.inputs = [i.name for i in session.get_inputs()]
        self.outputs = [o.name for o in session.get_outputs()]
        ends = (*session.get_inputs(), *session.get_outputs())
        self._narrow = any(getattr(end, "type", "") == _BFLOAT16 for end in ends)
        self._job = job
        self._unsigned = frozenset(unsigned)

    def __call__(self, feeds: Arrays) -> list[np.ndarray]:
        run = _run_bfloat16 if self._narrow else type(self.session).run
        with self._job.step("run"), foreign("run the network", "onnxruntime"):
            made = run(self.session, self.outputs, dict(feeds))
        if not self._unsigned:
            return made
        return [back(a) if n in self._unsigned else a for n, a in zip(self.outputs, made, strict=True)]


def _run_bfloat16(session: Any, outputs: Sequence[str], feeds: Arrays) -> list[np.ndarray]:
    """Run a session with bfloat16 inputs or outputs, which `run` does not support because numpy lacks the type."""
    import ctypes

    import ml_dtypes
    import onnxruntime as ort

    def given(array: np.ndarray) -> Any:
        if array.dtype == ml_dtypes.bfloat16:
            return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), BFLOAT16_NUMBER)
        return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))

    def shown(value: Any) -> Any:
        if not value.is_tensor():
            return None
        if value.data_type() != _BFLOAT16:
            return value.numpy()
        if not value.tensor_size_in_bytes():
            return np.empty(value.shape(), ml_dtypes.bfloat16)
        held = (ctypes.c_char * value.tensor_size_in_bytes()).from_address(value.data_ptr())
        return np.frombuffer(bytes(held), np.uint16).view(ml_dtypes.bfloat16).reshape(value.shape())

    values = session.run_with_ort_values(list(outputs), {n: given(np.asarray(a)) for n, a in feeds.items()})
    return [shown(v) for v in values]
