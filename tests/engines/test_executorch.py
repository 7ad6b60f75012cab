"""ExecuTorch: agreement, planted faults, int8, delegates, what it refuses and how it fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from typer.testing import CliRunner

import twinnet
from tests.executorch.nets import FAULTS, Fault, made, small
from tests.needs import need_engine
from twinnet.cli.main import app
from twinnet.engines import find_engine
from twinnet.engines._executorch_home import Home
from twinnet.engines._executorch_worker import _impossible
from twinnet.engines.base import Session
from twinnet.errors import EngineError, UsageError
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.result import Result
from twinnet.trace import TraceBuilder


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("executorch")


def _check(twin: str, net: nn.Module | None = None, x: object = None) -> Result:
    known, image = small()
    found = twinnet.check(net or known, image if x is None else x, twin, limits=twinnet.Limits(threads=1))
    assert isinstance(found, Result)
    return found


def _open(threads: int = 1, **options: str) -> Session:
    net, image = small()
    job = Job({"image": image.numpy()}, threads=threads)
    return find_engine("executorch").open(load_network((net, (image,))), options, None, job)


# -- agreement -----------------------------------------------------------------------------------------------------


def test_portable_kernels_show_every_layer() -> None:
    found = _check("executorch")
    assert found.verdict == "PASS", found
    assert found.twin.engine == "executorch" and found.twin.precision == "float32"
    modules = {p.site.module for p in found.pairs if p.status == "pass"}
    assert modules >= {"stem", "norm", "act", "deep", "pool", "up", "gate", "last", "mix", "gelu", "head"}


def test_values_inside_a_delegate_are_shown() -> None:
    found = _check("executorch?delegate=xnnpack")
    assert found.verdict == "PASS", found
    # The batch norm is folded into the convolution before it, which has no value of its own any more.
    assert {p.site.module for p in found.pairs} >= {"norm", "act", "deep", "gate", "last", "gelu", "head"}
    assert "stem" not in {p.site.module for p in found.pairs}


def test_without_taps_only_what_leaves_the_delegate_is_seen() -> None:
    x = {"image": small()[1].numpy()}
    with closing(_open(delegate="xnnpack", taps="no")) as few:
        sites, (plain,) = len(few.sites), few.run(x).values()
    with closing(_open(delegate="xnnpack")) as many:  # in the process that the first one left
        (tapped,) = many.run(x).values()
        watched = many.trace(x, {s.tensor for s in many.sites}, TraceBuilder())
        assert sites < len(many.sites)
        assert np.array_equal(watched[many.output_tensors[0]], plain)
    assert np.array_equal(plain, tapped)


@pytest.mark.slow
@pytest.mark.parametrize("delegate", ["none", "xnnpack"])
def test_int8_agrees_within_its_steps(delegate: str) -> None:
    found = _check(f"executorch?delegate={delegate}&quantize=static")
    assert found.verdict == "PASS", found
    assert found.twin.precision == "int8"
    # A folded batch norm is compared with its convolution's result, not with the convolution in the network.
    assert {p.site.module for p in found.pairs} >= {"norm", "deep", "last", "head"}


# -- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, id=f.name, marks=() if i < 4 else pytest.mark.slow) for i, f in enumerate(FAULTS)],
)
def test_a_planted_fault_is_named(fault: Fault) -> None:
    program = fault.made()
    found = _check(f"executorch?etrecord={program.record}:{program.pte}")
    assert found.verdict == "FAIL"
    first = found.findings[0]
    assert len(found.findings) == 1 and first.place.module == fault.module
    assert first.cause is not None and first.cause.kind == fault.kind, first.cause


_DELEGATED = [
    pytest.param(fault, id=fault.name, marks=() if fault.name == "padding" else pytest.mark.slow)
    for fault in FAULTS
    if fault.name != "tanh"
]
"""XNNPACK has one GELU, so another in the program changes nothing."""


@pytest.mark.parametrize("fault", _DELEGATED)
def test_a_fault_planted_inside_a_delegate_is_named(fault: Fault) -> None:
    program = fault.made("xnnpack")
    found = _check(f"executorch?etrecord={program.record}:{program.pte}")
    assert [f.place.module for f in found.findings] == [fault.module]
    cause = found.findings[0].cause
    assert cause is not None and cause.kind == fault.kind


@pytest.mark.parametrize("fault", FAULTS[:2], ids=lambda fault: fault.name)
def test_a_file_alone_is_enough(fault: Fault) -> None:
    found = _check(f"executorch:{fault.made().pte}")
    assert found.verdict == "FAIL" and found.findings[0].place.module == fault.module
    cause = found.findings[0].cause
    assert cause is not None and cause.kind == fault.kind
    assert len(found.findings) == 1 and any("ETRecord" in str(guard.fact) for guard in found.guards)


def test_a_fault_of_the_delegate_itself() -> None:
    # XNNPACK computes GELU with erf, whatever the network says.
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU("tanh"), nn.Linear(16, 4)).eval()
    found = _check("executorch?delegate=xnnpack", net, torch.randn(4, 8))
    assert [f.place.module for f in found.findings] == ["1"]
    cause = found.findings[0].cause
    assert cause is not None and cause.sentence == "GELU erf instead of GELU tanh approximation"
    # The operator alone, lowered by itself on the values it had, shows the same.
    assert found.findings[0].confirmed is True


class Unshuffled(nn.Module):
    """The image before the last operator has its channels last in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pixel_unshuffle(self.conv(x.contiguous(memory_format=torch.channels_last)), 2)


def test_a_fault_of_memory_order() -> None:
    # ExecuTorch 1.5.1 turns the reshape inside into a view, which forgets the order of the axes.
    torch.manual_seed(0)
    found = _check("executorch", Unshuffled().eval(), torch.randn(1, 4, 8, 8))
    [finding] = found.findings
    assert finding.cause is not None and finding.cause.fact.code == "layout.as_stored", found
    assert finding.confirmed is False  # alone, its input is a new one


_RESIZING, _ATTENTION = "bilinear_2d.get_graphs_dict", "sdpa.get_graphs"


@pytest.mark.parametrize(
    ("network", "left_out"),
    [
        (lambda x: torch.relu(x) + 1, [_RESIZING, _ATTENTION]),
        (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), [_ATTENTION]),
        (lambda x: torch.softmax(x @ x, -1), [_RESIZING]),
        (lambda x: F.scaled_dot_product_attention(x, x, x), [_RESIZING]),
        (lambda x: torch.cond(x.sum() > 0, lambda y: y.softmax(-1), lambda y: y + 1, (x,)), [_RESIZING]),
    ],
)
def test_patterns_that_may_occur_are_looked_for(
    network: Callable[[torch.Tensor], torch.Tensor], left_out: list[str]
) -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return network(x)

    assert _impossible(torch.export.export(Net(), (torch.ones(1, 2, 4, 4),))) == left_out


@pytest.mark.slow
def test_a_repro_is_the_operator_as_a_program(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU("tanh"), nn.Linear(16, 4)).eval()
    twinnet.check(net, torch.randn(4, 8), "executorch?delegate=xnnpack", out=tmp_path / "run")
    done = CliRunner().invoke(app, ["repro", str(tmp_path / "run"), "-o", str(tmp_path / "repro")])
    assert done.exit_code == 0, done.output
    assert "1 operator (aten.gelu.default)" in done.output and "it shows the fault" in done.output
    assert (tmp_path / "repro" / "twin.pte").is_file()


# -- how it fails --------------------------------------------------------------------------------------------------


def test_an_operator_without_a_kernel_is_named() -> None:
    class Deep(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.max_pool3d(x, 2)

    found = _check("executorch", Deep(), torch.randn(1, 2, 4, 4, 4))
    assert found.verdict == "ERROR" and found.stage == "run the network"
    assert found.error is not None and "max_pool3d" in found.error


def test_a_buffer_that_is_too_small_is_made_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[int] = []
    ask = Home.ask

    def asked(self: Home, request: dict, stage: str) -> dict:
        if request.get("dump"):
            rooms.append(request["buffer_size"])
        return ask(self, request, stage)

    monkeypatch.setattr(Home, "ask", asked)
    session = _open(threads=2)  # in a process of its own: it dies, and the others' has done its imports
    monkeypatch.setattr(session._home, "_room", 512)  # type: ignore[attr-defined]
    x = {"image": small()[1].numpy()}
    trace = session.trace(x, {s.tensor for s in session.sites}, TraceBuilder())
    assert len(rooms) > 2 and rooms == sorted(rooms)
    assert np.array_equal(trace[session.output_tensors[0]], session.run(x)[session.output_tensors[0]])
    session.close()


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    net, image = small()
    data = made(net, image).pte.read_bytes()
    for name, content in (("empty", b""), ("cut", data[: len(data) // 2]), ("noise", b"\x07" * 4096)):
        file = tmp_path / f"{name}.pte"
        file.write_bytes(content)
        found = _check(f"executorch:{file}")
        assert found.verdict == "ERROR" and found.stage == "load the network", name


def test_what_is_refused(tmp_path: Path) -> None:
    net, image = small()
    program = made(net, image)
    for twin, words in (
        ("executorch?delegate=metal", "delegate"),
        ("executorch?per_channel=no", "not quantised"),
        ("executorch?etrecord=a", "no effect"),
        (f"executorch?delegate=xnnpack:{program.pte}", "run as it is"),
        (f"executorch:{tmp_path / 'absent.pte'}", "no such file"),
        (f"executorch?etrecord={program.pte}:{program.pte}", "ETRecord"),
    ):
        with pytest.raises(UsageError, match=words):
            _check(twin)
    with pytest.raises(UsageError, match="takes 1 tensors"):
        _check(str(program.pte), nn.Bilinear(2, 2, 2), (torch.ones(1, 2), torch.ones(1, 2)))
    with pytest.raises((UsageError, EngineError)):
        _open(method="backward")


def test_times_of_each_layer() -> None:
    session = _open()
    steps = session.profile({"image": small()[1].numpy()}, repeats=3).steps
    assert all(step.seconds > 0 for step in steps)
    shown = {s.tensor for s in session.sites}
    assert any(set(step.tensors) & shown for step in steps)
    # A step that makes no value that is shown leads to one.
    assert all(set(step.tensors) & shown or set(step.toward) & shown for step in steps if step.tensors)
    assert "convolution.out" in {step.kernel for step in steps}
    session.close()
