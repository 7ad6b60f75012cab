"""Every engine that measures times, on a small network: steps belong to layers, parts and whole fit together."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.models import MODELS, model_path
from tests.needs import need_engine
from tests.profile.nets import steps
from twinnet.checking.options import Limits, Options
from twinnet.engines import all_engines
from twinnet.profile import Profile
from twinnet.profile.noise import low
from twinnet.profile.target import Target
from twinnet.profiling import Plan, compile_profile_with, profile_with

MACHINE = Target("test", 50e9, 10e9, 1e-6)
OPTIONS = Options(limits=Limits(threads=1))


def profile_of(twin: str, repeats: int = 4) -> Profile:
    net, image = steps({3: 160}, 4)
    return profile_with(OPTIONS, net, image, twin, Plan(repeats, 1, MACHINE))[0].profile


@pytest.mark.parametrize(
    "twin", ["openvino", "iree", pytest.param("executorch", marks=pytest.mark.slow), "litert"]
)
def test_the_dearest_layer_is_on_top_and_nearly_all_time_is_joined(twin: str) -> None:
    need_engine(twin)
    profile = profile_of(twin)
    # Other work on the machine lengthens runs now and then: the least disturbed ones are compared.
    top = max(profile.rows, key=lambda row: low(row.seconds))
    assert top.module.startswith("blocks.3."), [r.label for r in profile.dearest()]
    assert profile.joined >= (0.95 if twin == "openvino" else 0.8)
    assert profile.alone == (twin == "litert")
    assert profile.size and all(
        row.flops for row in profile.rows if "conv2d" in row.network_ops and not row.helps
    )


@pytest.mark.slow
def test_dispatches_may_run_in_another_order_than_they_are_called() -> None:
    """As those of this detector do."""
    need_engine("iree")
    plan = Plan(4, 1, MACHINE)
    model, inputs = str(model_path("ppocr-det")), MODELS["ppocr-det"].inputs()
    assert profile_with(OPTIONS, model, inputs, "iree", plan)[0].profile.joined >= 0.8


class _Waits(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        time.sleep(5e-3)
        return torch.relu(y)


def test_python_before_an_operator_belongs_to_it() -> None:
    (made,) = profile_with(OPTIONS, _Waits().eval(), torch.ones(2, 3), "torch", Plan(4, 1, MACHINE))
    add, relu = made.profile.rows
    assert add.p50 < 5e-3 <= relu.p50 and relu.network_ops == ("relu",)
    assert abs(made.profile.gap) < 0.1


def test_a_delegate_lists_all_it_computes() -> None:
    need_engine("executorch")
    profile = profile_of("executorch?delegate=xnnpack")
    top = profile.dearest(1)[0]
    assert top.op == "XnnpackBackend" and top.network_ops.count("conv2d") == 8


def test_tables_by_their_stages() -> None:
    need_engine("lut-native")
    from tests.tables.test_engine import NETS, net_of

    net = net_of(NETS["mulut"])
    image = np.random.default_rng(0).random((1, 3, 96, 96), dtype=np.float32)
    (made,) = profile_with(OPTIONS, net, image, "lut-native", Plan(6, 1, MACHINE))
    profile = made.profile
    assert [row.op for row in profile.rows] == ["stage"] * len(profile.rows) and len(profile.rows) >= 2
    assert profile.joined == 1 and abs(profile.gap) < 0.5 and profile.size


def test_every_engine_that_says_so_is_here() -> None:
    tested = {"onnxruntime", "torch", "openvino", "iree", "executorch", "litert", "lut-native"}
    assert {engine.name for engine in all_engines() if engine.abilities.profile} == tested


def test_a_compiler_may_bring_its_own_estimates(tmp_path: Path) -> None:
    need_engine("command")
    (tmp_path / "compiler.py").write_text(
        "import csv, shutil, sys, onnx\n"
        "model, artefact, report = sys.argv[1:]\n"
        "shutil.copy(model, artefact)\n"
        "nodes = onnx.load(model).graph.node\n"
        "with open(report, 'w', newline='') as file:\n"
        "    rows = csv.writer(file)\n"
        "    rows.writerow(['name', 'seconds'])\n"
        "    rows.writerows([n.output[0], 0.25] for n in nodes if n.op_type == 'Conv')\n"
    )
    (tmp_path / "tool.toml").write_text(
        'name = "tool"\nopset = 18\n'
        "[compile]\n"
        'run = ["{python}", "{here}/compiler.py", "{model}", "{artefact}", "{folder}/report.csv"]\n'
        'artefact = "net.bin"\nreport = "report.csv"\n'
        "[run]\n"
        'run = ["{python}", "-m", "twinnet.engines.vendors.run_provider", "{artefact}"]\n'
    )
    net, image = steps()
    made = compile_profile_with(OPTIONS, net, image, f"command:{tmp_path}/tool.toml", MACHINE)
    assert [one.seconds for one in made.estimates if one.by == "compiler"] == [0.25] * 12
    assert {one.op for one in made.estimates if one.by == "shapes"} == {"relu"}
    assert dict(made.steps)["compile"] > 0 and made.size
    with pytest.raises(Exception, match="name and seconds"):
        bad = (tmp_path / "compiler.py").read_text().replace("'seconds'", "'cycles'")
        (tmp_path / "compiler.py").write_text(bad)
        compile_profile_with(OPTIONS, net, image, f"command:{tmp_path}/tool.toml", MACHINE)
