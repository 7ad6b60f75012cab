"""What takes minutes: kills at any moment, planted faults in real layers, real networks, several processes."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from tests.models import MODELS, model_path
from tests.suite.project import PLANTED, outcomes, write_net
from tests.suite.real import make_suite
from twinnet.store import write_tensors

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
_LONGEST = 4 * 3600
"""Seconds for one session; all real models take twenty minutes on a quiet machine."""


def _start(folder: Path, cache: Path, *words: str) -> subprocess.Popen[str]:
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "TWINNET_CACHE": str(cache)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "twinnet.suite.plugin",
        "-p",
        "no:cacheprovider",
        "-q",
        *words,
    ]
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **alone},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _run(folder: Path, cache: Path, *words: str) -> str:
    child = _start(folder, cache, *words)
    try:
        said = child.communicate(timeout=_LONGEST)[0]
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode in (0, 1), said[-4000:]
    return said


def _used() -> float:
    """CPU seconds of sessions so far: a busy machine does not change them much."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _verdicts(folder: Path) -> dict[str, tuple[str, str, str]]:
    return {n: (o["verdict"], o["step"], o["message"]) for n, o in outcomes(folder).items()}


def test_killed_at_any_moment_nothing_half_written_is_used(tmp_path: Path) -> None:
    folder, seed = tmp_path / "project", int(os.environ.get("TWINNET_SEED", "1"))
    folder.mkdir()
    write_net(folder, "a", 0)
    write_net(folder, "b", 1)
    engines = '["onnxruntime", {spec = "iree", layers = false}]'
    (folder / "pyproject.toml").write_text(f"[tool.twinnet]\nengines = {engines}\n")
    start = time.monotonic()
    _run(folder, tmp_path / "clean")
    whole = time.monotonic() - start
    wanted = _verdicts(folder)
    assert {v for v, _, _ in wanted.values()} == {"PASS", "SKIP"}
    draw = random.Random(seed)
    for kill in range(20):
        cache = tmp_path / f"cache{kill // 4}"
        child = _start(folder, cache)
        time.sleep(draw.uniform(0.2, 1.0) * whole)
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        for kept in cache.glob("??/" + "?" * 32):
            assert not (kept / "run").exists() or (kept / "outcome.json").exists(), kept
        if kill % 4 == 3:
            _run(folder, cache)
            assert _verdicts(folder) == wanted
            for run in (folder / "runs/suite/runs").iterdir():
                json.loads((run / "result.json").read_text())
            assert not list(cache.glob("*/.building-*"))


def test_ten_planted_faults_are_each_caught_by_their_layer(tmp_path: Path) -> None:
    name = "ppocr-cls"
    folder = tmp_path / "project"
    (folder / "models").mkdir(parents=True)
    (folder / "models" / f"{name}.onnx").write_bytes(model_path(name).read_bytes())
    write_tensors(folder / "inputs.safetensors", MODELS[name].inputs())
    (folder / "conftest.py").write_text(PLANTED)
    settings = f'[tool.twinnet]\n[tool.twinnet.model.{name}]\ninputs = "inputs.safetensors"\n'
    (folder / "pyproject.toml").write_text(settings)
    # Without a fault everything passes; the layers that stand for others are those to plant faults in.
    _run(folder, tmp_path / "cache", "--twin-engines", "onnxruntime")
    clean = outcomes(folder)
    assert {o["verdict"] for o in clean.values()} == {"PASS", "SKIP"}
    alone = [
        o["case"]["layer"] for o in clean.values() if o["verdict"] == "PASS" and o["evidence"] == "strong"
    ]
    layers = _outputs(folder / "models" / f"{name}.onnx")
    chosen = [layer for layer in random.Random(3).sample(alone[1:], len(alone) - 1) if layer][:10]
    for layer in chosen:
        spec = f"planted?at={layers[layer]}"
        _run(folder, tmp_path / "cache", "--twin-engines", spec, "-k", "layer")
        bad = {o["case"]["layer"] for o in outcomes(folder).values() if o["verdict"] not in ("PASS", "SKIP")}
        assert bad == {layer}, (layer, bad)


def _outputs(path: Path) -> dict[str, str]:
    from twinnet.cutting.onnx import OnnxCutter
    from twinnet.onnx.network import OnnxNetwork

    return {layer.name: layer.outputs[0] for layer in OnnxCutter(OnnxNetwork.load(path)).layers()}


def test_real_models_on_four_engines(tmp_path: Path) -> None:
    folder = make_suite(tmp_path / "project")
    (folder / "expected-failures.txt").write_text((ROOT / "tests/suite/expected-real.txt").read_text())
    start = _used()
    said = _run(folder, tmp_path / "cache", "--tb=short")
    first = _used() - start
    found = outcomes(folder)
    unexpected = {n: o["message"] for n, o in found.items() if o["expected"] == "no"}
    assert not unexpected, (unexpected, said[-2000:])
    assert len({o["case"]["model"] for o in found.values()}) == 11
    assert len({o["case"]["engine"] for o in found.values()}) == 4
    start = _used()
    _run(folder, tmp_path / "cache")
    again = _used() - start
    second = outcomes(folder)
    assert sum(o["built"] for o in second.values()) == 0
    assert again < first / 10, (first, again)
    path = folder / "models" / "magika.onnx"
    model = onnx.load(str(path))
    model.producer_name = f"{model.producer_name}2"
    onnx.save(model, str(path))
    _run(folder, tmp_path / "cache")
    changed = {
        o["case"]["model"] for o in outcomes(folder).values() if o["verdict"] == "PASS" and not o["reused"]
    }
    assert changed == {"magika"}


def test_layers_of_real_models_on_iree(tmp_path: Path) -> None:
    engines = 'engines = [{spec = "iree", time-limit = 300}]\nmax-layers = 100\n'
    folder = make_suite(tmp_path / "project", engines, ("magika", "vad-ifless", "orientation"))
    (folder / "models" / "nmp.tflite").unlink()
    (folder / "expected-failures.txt").write_text((ROOT / "tests/suite/expected-real.txt").read_text())
    _run(folder, tmp_path / "cache", "-k", "layer")
    assert not {n: o["message"] for n, o in outcomes(folder).items() if o["expected"] == "no"}


def test_several_processes_give_the_same_report(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    write_net(folder, "a", 0)
    write_net(folder, "b", 1)
    (folder / "pyproject.toml").write_text(
        '[tool.twinnet]\nengines = ["onnxruntime", "onnxruntime?opt=off"]\n'
    )
    _run(folder, tmp_path / "one")
    wanted = _verdicts(folder)
    _run(folder, tmp_path / "two", "-p", "xdist.plugin", "-n", "2")
    assert _verdicts(folder) == wanted and len(wanted) == 24
    assert sum(o["verdict"] == "PASS" for o in outcomes(folder).values()) == 20


def test_thousand_layers_are_collected_in_three_seconds(tmp_path: Path) -> None:
    from benchmarks.suite import collect_seconds

    assert collect_seconds(tmp_path) < 3
