"""A user's script that stops in the middle, and goes on changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.debugger.running import PATIENCE, command

SCRIPT = """
import numpy as np, torch
from twinnet.debugger import set_trace

def work(scale):
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    x = torch.ones(2, 4)
    note = "unchanged"
    with torch.no_grad():
        y = network(x) * scale
    set_trace(network=network, twin="torch?dtype=float64", inputs=x, answer=42)
    return note

print("came back", work(3.0), flush=True)
"""


def test_a_script_stops_with_its_variables_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    with command(["script.py"], tmp_path, TWINNET_DEBUG_PORT="0") as debugger:
        assert debugger.text("scale") == "3.0"
        assert debugger.text("tuple(y.shape), answer") == "((2, 4), 42)"
        assert debugger.text("w").splitlines()[-2].endswith("script.py(11)work()")
        assert "-> set_trace(network=network" in debugger.text("w")
        assert "note = " in debugger.text("l")
        assert (
            debugger.text("torch.equal(inputs['input'], np.ones(4))" if False else "list(inputs)")
            == "['input']"
        )
        assert "linear" in debugger.text("sites()")
        assert json.loads(debugger.ask("worst(1)", "application/json").body)["data"]["sites"]
        assert (
            debugger.text("type(network).__name__, type(twin).__name__") == "('Sequential', 'TorchSession')"
        )
        debugger.text("note = 'changed at the prompt'")
        debugger.text("u")
        assert "NameError" in debugger.ask("scale").text
        debugger.text("d")
        log = debugger.log  # type: ignore[attr-defined]
    assert "came back changed at the prompt" in log.read_text()
    assert debugger.token in log.read_text(), "the line to paste is printed"
    assert not debugger.info.exists()


def test_the_import_is_light() -> None:
    code = "import sys; from twinnet import debugger; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


JOB = """
import os, sys, torch.distributed as dist
from twinnet.debugger import Settings, serve

dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=int(os.environ["RANK"]), world_size=2)
serve({"trace": {"a": 1.0}, "twin_trace": {"a": 2.0}, "rank": dist.get_rank()}, settings=Settings(port=0))
print("process", dist.get_rank(), "went on", flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_of_several_processes_one_serves_and_the_others_wait(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    with (tmp_path / "second.log").open("w") as log:
        environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "2"}
        second = subprocess.Popen(
            [sys.executable, "job.py", str(tmp_path)], cwd=tmp_path, env=environment, stdout=log, stderr=log
        )
        try:
            with command(["job.py", str(tmp_path)], tmp_path, RANK="0", WORLD_SIZE="2") as debugger:
                assert debugger.text("rank") == "0"
                assert second.poll() is None
                assert "went on" not in (tmp_path / "second.log").read_text()
                assert len(list(tmp_path.rglob("*.env"))) == 1
            assert second.wait(PATIENCE) == 0, (tmp_path / "second.log").read_text()
        finally:
            if second.poll() is None:
                second.kill()
                second.wait()
    assert "process 1 went on" in (tmp_path / "second.log").read_text()
