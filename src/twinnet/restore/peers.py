"""Super-resolution models of other projects, run on the same images: ONNX files, and TensorFlow graphs through OpenCV.

A model takes luma if it has one channel and RGB if it has three, unless stated: `model.onnx?colour=ycbcr`.
All run on one thread, so that their times compare.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.errors import EngineError, UsageError, foreign_as
from twinnet.extras import optional_packages
from twinnet.restore.bicubic import enlarge
from twinnet.restore.candidates import Candidate
from twinnet.restore.tasks import Image, Task, pixels

__all__ = ["colour_of", "open_peer"]

Run = Callable[[np.ndarray], np.ndarray]
"""float32 [1, channels, rows, columns] in [0, 1] to the same, larger."""

# Full-range BT.601, as OpenCV's and JPEG's.
_TO_YCBCR = np.array(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], np.float32
)
_TO_RGB = np.linalg.inv(_TO_YCBCR)
_GRAY = np.array([0, 128, 128], np.float32)
# Models known to take other colours than their channels suggest. Those named NT are fed with an image smoothed by a
# Gaussian of 0.2 pixels by their authors; its neighbours weigh 4e-6, which is left out here.
_KNOWN = ((re.compile(r"-NT_x\d"), "ycbcr"),)


def colour_of(spec: str) -> tuple[Path, str]:
    """The file of a spec `FILE[?colour=y|rgb|ycbcr]`, and the colours it is fed with; empty for those of its channels.

    >>> colour_of("models/ESPCN-NT_x4.onnx")[1], colour_of("IMDN_x4.onnx?colour=rgb")[1]
    ('ycbcr', 'rgb')
    """
    file, _, query = spec.partition("?")
    path = Path(file)
    key, _, colour = query.partition("=")
    if query and (key != "colour" or colour not in ("y", "rgb", "ycbcr")):
        raise UsageError(f"--compare {spec}: {query!r} is not valid", hint="?colour=y, rgb or ycbcr")
    return path, colour or next((known for names, known in _KNOWN if names.search(path.name)), "")


def open_peer(spec: str, task: Task) -> Candidate:
    """The model of a file as something to compare with."""
    path, colour = colour_of(spec)
    run, channels, parameters = _onnx(path) if path.suffix == ".onnx" else _opencv(path)
    colour = colour or ("y" if channels == 1 else "rgb")
    if (colour == "y") != (channels == 1):
        raise UsageError(f"--compare {spec}: the model takes {channels} channel(s)")

    def restore(low: Image) -> np.ndarray:
        image = pixels(low)
        colours = image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)
        out = _restored(colours, run, colour, task.scale, path)
        return out if image.ndim == 3 else out[..., 0]

    return Candidate(path.name, restore, path.stat().st_size, parameters=parameters)


def _restored(image: np.ndarray, run: Run, colour: str, scale: int, path: Path) -> np.ndarray:
    if colour == "rgb":
        return pixels(_call(run, image.astype(np.float32) / 255, scale, path) * 255)
    planes = image.astype(np.float32) @ _TO_YCBCR.T + _GRAY
    if colour == "ycbcr":
        out = _call(run, planes / 255, scale, path) * 255
    else:
        out = np.empty((image.shape[0] * scale, image.shape[1] * scale, 3), np.float32)
        out[..., :1] = _call(run, planes[..., :1] / 255, scale, path) * 255
        out[..., 1:] = _chroma(pixels(planes[..., 1:]), scale)
    return pixels((out.clip(0, 255) - _GRAY) @ _TO_RGB.T)


def _chroma(planes: np.ndarray, scale: int) -> np.ndarray:
    """Colour differences that a model of luma does not restore, enlarged as OpenCV's users do."""
    try:
        import cv2
    except ImportError:
        return enlarge(planes, scale)
    size = (planes.shape[1] * scale, planes.shape[0] * scale)
    return np.asarray(cv2.resize(planes, size, interpolation=cv2.INTER_CUBIC))


def _call(run: Run, image: np.ndarray, scale: int, path: Path) -> np.ndarray:
    given = np.ascontiguousarray(np.moveaxis(image, -1, 0)[None], np.float32)
    out = np.asarray(run(given))
    wanted = (1, given.shape[1], given.shape[2] * scale, given.shape[3] * scale)
    if out.shape != wanted and out.ndim == 4 and (out.shape[0], out.shape[3], *out.shape[1:3]) == wanted:
        out = np.moveaxis(out, -1, 1)
    if out.shape != wanted:
        raise EngineError(f"{path} made {list(out.shape)} of {list(given.shape)}, not x{scale}")
    return np.moveaxis(out[0], 0, -1)


def _onnx(path: Path) -> tuple[Run, int, int]:
    with optional_packages():
        import onnx
        import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with foreign_as(lambda error: UsageError(f"{path} is not an ONNX model that runs: {_first(error)}")):
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (first, *more) = session.get_inputs()
    if more or len(first.shape) != 4:
        raise UsageError(f"{path} does not take one image: {[i.name for i in session.get_inputs()]}")
    last = first.shape[1] not in (1, 3) and first.shape[3] in (1, 3)
    channels = first.shape[3] if last else first.shape[1]
    if channels not in (1, 3):
        raise UsageError(f"{path} takes {channels} channels, not 1 or 3")

    def run(image: np.ndarray) -> np.ndarray:
        given = np.moveaxis(image, 1, -1) if last else image
        with foreign_as(lambda error: EngineError(f"{path} does not run: {_first(error)}")):
            return np.asarray(session.run(None, {first.name: np.ascontiguousarray(given)})[0])

    weights = onnx.load(path).graph.initializer
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
    return run, int(channels), sum(int(np.prod(w.dims)) for w in weights if w.data_type in floats)


def _first(error: BaseException) -> str:
    return str(error).partition("\n")[0]


class _Same:
    """Stands in for the layer that OpenCV's reader of TensorFlow graphs lacks, DepthToSpace: its blocks are put in
    place afterwards, since a layer of ours cannot change the size of its output."""

    def __init__(self, params: dict[str, Any], blobs: Sequence[Any]) -> None:
        del params, blobs

    def getMemoryShapes(self, inputs: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """The shapes of the outputs."""
        return inputs

    def forward(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """The outputs."""
        return inputs


def _shuffled(blocks: np.ndarray) -> np.ndarray:
    """One plane of n x n blocks from n * n channels."""
    batch, channels, rows, columns = blocks.shape
    n = round(channels**0.5)
    return (
        blocks.reshape(batch, n, n, rows, columns)
        .transpose(0, 3, 1, 4, 2)
        .reshape(batch, 1, rows * n, columns * n)
    )


def _opencv(path: Path) -> tuple[Run, int, int]:
    with optional_packages():
        import cv2
    cv2.dnn_registerLayer("DepthToSpace", _Same)
    try:
        net = cv2.dnn.readNetFromTensorflow(str(path))
    except cv2.error as error:
        raise UsageError(f"{path} is not a graph that OpenCV reads: {error}") from error
    finally:
        cv2.dnn_unregisterLayer("DepthToSpace")

    def run(image: np.ndarray) -> np.ndarray:
        cv2.dnn_registerLayer("DepthToSpace", _Same)
        try:
            net.setInput(image)
            return _shuffled(np.asarray(net.forward()))
        except cv2.error as error:
            raise EngineError(f"{path} does not run in OpenCV: {error}") from error
        finally:
            cv2.dnn_unregisterLayer("DepthToSpace")

    parameters = sum(
        blob.size for name in net.getLayerNames() for blob in net.getLayer(net.getLayerId(name)).blobs
    )
    return run, 1, int(parameters)
