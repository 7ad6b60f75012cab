"""A suite of real networks from wheels: its models, inputs and settings."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from tests.models import MODELS, model_path, wheel
from twinnet.store import write_tensors

__all__ = ["ENGINES", "NAMES", "make_suite"]

NAMES = (
    "ppocr-det",
    "ppocr-rec",
    "ppocr-cls",
    "magika",
    "orientation",
    "basic-pitch",
    "ddddocr",
    "smart-turn",
    "vad-ifless",
    "vad-openvino",
)
LAYERED_IREE = ("magika", "vad-ifless", "vad-openvino")
ENGINES = """engines = [
  "onnxruntime",
  "openvino",
  {spec = "iree", layers = false, time-limit = 300},
  {spec = "litert", layers = false},
]
"""


def make_suite(folder: Path, engines: str = ENGINES, names: tuple[str, ...] = NAMES) -> Path:
    """Write the project: ten ONNX models and one TFLite file."""
    (folder / "models").mkdir(parents=True)
    lines = ["[tool.twinnet]", engines]
    for name in names:
        shutil.copy(model_path(name), folder / "models" / f"{name}.onnx")
        write_tensors(folder / "inputs" / f"{name}.safetensors", MODELS[name].inputs())
        lines += [f"[tool.twinnet.model.{name}]", f'inputs = "inputs/{name}.safetensors"']
    with zipfile.ZipFile(wheel("basic-pitch==0.4.0")) as archive:
        data = archive.read("basic_pitch/saved_models/icassp_2022/nmp.tflite")
    (folder / "models" / "nmp.tflite").write_bytes(data)
    lines += ["[tool.twinnet.model.nmp]", "layers = false"]
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n")
    return folder
