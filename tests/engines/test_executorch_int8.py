"""Quantised ExecuTorch programs that somebody else made, as they should be and with wrong scales or zero points."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import twinnet
from tests.executorch.nets import small
from tests.needs import need_engine
from twinnet.engines._executorch_home import Home
from twinnet.engines._executorch_made import Lowering, make
from twinnet.executorch import steps_inside
from twinnet.job import Job
from twinnet.judge.tolerance import Tolerance
from twinnet.network import load_network
from twinnet.network.pt2 import load_pt2
from twinnet.result import Result


@dataclass
class Maker:
    """Lowers edited copies of the small network's quantised program."""

    source: Path

    def checked(self, plant: Callable[[Any], None], folder: Path) -> Result:
        program = load_pt2(self.source)
        plant(program)
        program.graph_module.recompile()
        edited, pte, record = (folder / name for name in ("edited.pt2", "net.pte", "net.etrecord"))
        torch.export.save(program, edited)
        asked = {"do": "convert", "program": str(edited), "pte": str(pte), "record": str(record)}
        with _home() as home:
            home.ask(asked | {"quantize": "", "delegate": "xnnpack"}, "convert the network")
        net, image = small()
        found = twinnet.check(
            net, image, f"executorch?etrecord={record}:{pte}", limits=twinnet.Limits(threads=1)
        )
        assert isinstance(found, Result)
        return found


def _home() -> AbstractContextManager[Home]:
    """Given back after use, so that checks go on with the same process."""
    _, image = small()
    return closing(Home(Job({"image": image.numpy()}), 1))


@pytest.fixture(scope="module")
def maker() -> Maker:
    need_engine("executorch")
    net, image = small()
    job = Job({"image": image.numpy()})
    with _home() as home:
        made = make(load_network((net, (image,))), job.inputs, Lowering("xnnpack", "static"), home)
    return Maker(made.pte.with_name("quantised.pt2"))


def _steps(value: str, scale: float = 1.0, zero: int | None = None) -> Callable[[Any], None]:
    """Change how one value is quantised, and read back."""

    def plant(program: Any) -> None:
        node = next(n for n in program.graph.nodes if n.name == value)
        (quantise,) = (n for n in node.users if "quantize_per_tensor" in str(n.target))
        for one in (quantise, *quantise.users):
            old, start, *rest = one.args[1:]
            one.args = (one.args[0], old * scale, start if zero is None else zero, *rest)

    return plant


def _wrong_weight_scale(program: Any) -> None:
    program.state_dict["_scale_1"][2] *= 1.5


def _saturated_weights(program: Any) -> None:
    program.state_dict["_frozen_param2"][3] = 127


@pytest.fixture(scope="module")
def unchanged(maker: Maker, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """The program as it is, checked, and the folder that holds it."""
    folder = tmp_path_factory.mktemp("unchanged")
    return maker.checked(lambda program: None, folder), folder


def test_a_program_by_the_book_passes(unchanged: tuple[Result, Path]) -> None:
    found, _ = unchanged
    assert found.verdict == "PASS" and found.evidence == "strong", found
    assert found.twin.precision == "int8"
    # Values inside the delegate are seen: the program in the ETRecord was lowered again, with more outputs.
    assert {p.site.module for p in found.pairs} >= {"norm", "deep", "last", "head"}


_slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("plant", "module", "code"),
    [
        pytest.param(_steps("conv2d", scale=16), "norm", "quantisation.coarse", marks=_slow),
        pytest.param(_steps("silu", zero=100), "act", "steps.range", marks=_slow),
        pytest.param(_steps("conv2d_1", scale=0.25), "deep", "steps.range", marks=_slow),
        pytest.param(_wrong_weight_scale, "deep", "steps.scale", marks=_slow),
        pytest.param(_saturated_weights, "last", "steps.beyond", marks=_slow),
    ],
    ids=["scale too large", "zero point", "scale too small", "weight scale", "saturated weights"],
)
def test_a_wrong_step_is_named(
    maker: Maker, plant: Callable[[Any], None], module: str, code: str, tmp_path: Path
) -> None:
    found = maker.checked(plant, tmp_path)
    assert found.verdict == "FAIL" and len(found.findings) == 1, found
    first = found.findings[0]
    assert first.place.module == module and first.cause is not None
    assert first.cause.fact.code == code, first.cause


def test_without_its_etrecord_it_is_not_judged_as_float(unchanged: tuple[Result, Path]) -> None:
    file = unchanged[1] / "net.pte"

    def checked(**stated: Any) -> Result:
        net, image = small()
        found = twinnet.check(net, image, f"executorch:{file}", limits=twinnet.Limits(threads=1), **stated)
        assert isinstance(found, Result)
        return found

    found = checked()
    assert found.verdict == "ERROR" and "values with steps inside XNNPACK" in found.error, found
    wide = checked(tolerance=Tolerance(snr=20))
    assert wide.verdict == "PASS" and not wide.findings, wide
    narrow = checked(tolerance=Tolerance(snr=90))
    assert narrow.verdict == "FAIL", narrow


@pytest.mark.slow
def test_steps_are_seen_in_the_file(maker: Maker, tmp_path: Path) -> None:
    """In XNNPACK's graph, among the operators of portable kernels, and not in a program of floats."""
    net, image = small()
    job = Job({"image": image.numpy()})
    seen = {}
    for how in (
        Lowering("xnnpack", "static"),
        Lowering("none", "static"),
        Lowering("xnnpack", ""),
        Lowering("none", ""),
    ):
        with _home() as home:
            made = make(load_network((net, (image,))), job.inputs, how, home)
        seen[how.delegate, how.quantize] = steps_inside(made.pte)
    assert seen["xnnpack", "static"].delegated > 5 and seen["none", "static"].operators
    assert not seen["xnnpack", ""] and not seen["none", ""]
