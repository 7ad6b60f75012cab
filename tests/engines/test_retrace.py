"""Runs with a tensor replaced: what lies behind follows, what lies before stays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

from tests.needs import need_engine
from twinnet.engines import find_engine
from twinnet.engines.base import Session
from twinnet.errors import EngineError, UsageError
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.restore.nets import mulut
from twinnet.trace import TraceBuilder

X = np.random.default_rng(0).random((2, 6), np.float32)


class Fork(nn.Module):
    """Two ways from one value, one of them in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(self.first(x))
        return self.second(y) + y


class Unexportable(Fork):
    """The same, but torch cannot export it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if float(x.sum()) > -1e9:
            return super().forward(x)
        return x


def fork(kind: type[Fork] = Fork) -> Fork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind().eval()


def opened(spec: str, kind: type[Fork] = Fork) -> Session:
    network = load_network(fork(kind)).with_example((torch.from_numpy(X),))
    engine, _, options = spec.partition("?")
    chosen = dict(o.split("=") for o in options.split("&") if o)
    return find_engine(engine).open(network, chosen, None, Job({"x": X}))


@pytest.fixture(
    params=[
        "torch",
        "torch?dtype=float64",
        "eager",
        "onnxruntime",
        "onnxruntime?opt=off",
        "onnx-reference",
        "openvino",
        "iree",
    ]
)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    if request.param != "eager":
        need_engine(request.param.partition("?")[0])
    made = opened("torch", Unexportable) if request.param == "eager" else opened(request.param)
    yield made
    made.close()


def test_what_lies_behind_follows(session: Session) -> None:
    session.run({"x": X})  # an eager network learns its outputs' names from a run
    watch = {s.tensor for s in session.sites}
    plain = session.trace({"x": X}, watch, TraceBuilder())
    (site,) = (s.tensor for s in session.sites if s.op.lower() == "sigmoid")
    patch = np.full(plain[site].shape, 0.25, plain[site].dtype)
    changed = session.retrace({"x": X}, {site: patch}, watch, TraceBuilder())
    assert np.array_equal(changed[site], patch)
    order = [s.tensor for s in session.sites]
    for name in order[: order.index(site)]:
        assert name not in changed or np.array_equal(changed[name], plain[name])
    with torch.no_grad():
        module = fork().double()
        y = torch.full((2, 6), 0.25, dtype=torch.float64)
        wanted = (module.second(y) + y).numpy()
    (output,) = session.output_tensors
    assert np.allclose(changed[output], wanted, atol=1e-6)
    assert not np.allclose(plain[output], wanted, atol=1e-3)
    # The session is as it was.
    again = session.trace({"x": X}, watch, TraceBuilder())
    assert all(np.array_equal(again[n], plain[n]) for n in plain)


def test_the_output_itself_can_be_replaced(session: Session) -> None:
    session.run({"x": X})
    (output,) = session.output_tensors
    shape = session.trace({"x": X}, (), TraceBuilder())[output]
    patch = np.zeros_like(shape)
    changed = session.retrace({"x": X}, {output: patch}, {output}, TraceBuilder())
    assert np.array_equal(changed[output], patch)


def test_an_engine_that_cannot_says_so() -> None:
    compiled = opened("torch?compile=1")
    with pytest.raises(EngineError, match="cannot run with a tensor replaced"):
        compiled.retrace({"x": X}, {}, (), TraceBuilder())


@pytest.mark.parametrize("spec", ["torch?sites=lut", "lut", "lut?executor=numpy", "lut-native"])
def test_tables_and_their_network(spec: str) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = mulut.build(patterns="s", stages=2, scale=2, width=4).eval()
    image = np.random.default_rng(1).random((1, 2, 6, 5), np.float32)
    network = load_network((net, torch.from_numpy(image)))
    engine, _, options = spec.partition("?")
    chosen = dict(o.split("=") for o in options.split("&") if o)
    session = find_engine(engine).open(network, chosen, None, Job({"x": image}))
    watch = {s.tensor for s in session.sites}
    plain = session.trace({"x": image}, watch, TraceBuilder())
    other = np.full(plain["stage1"].shape, 77.0)
    changed = session.retrace({"x": image}, {"stage1": other}, watch, TraceBuilder())
    assert np.allclose(changed["stage1"], 77)
    assert np.allclose(changed["stage2.in_c0.input.x"], 77)
    assert np.array_equal(changed["stage1.in_c0"], plain["stage1.in_c0"])
    assert np.ptp(changed["stage2.in_c0.b0.rot0.sr"], axis=(2, 3)).max() < 1e-6, "constant in, constant out"
    same = session.retrace({"x": image}, {"stage1": plain["stage1"]}, watch, TraceBuilder())
    assert all(np.allclose(same[n], plain[n], atol=1e-5) for n in plain)
    for site in ("stage1.in_c0.b0.rot1.sr", "stage1.in_c0.b0.rot1", "stage1.in_c0"):
        moved = session.retrace({"x": image}, {site: plain[site] + 40}, watch, TraceBuilder())
        assert not np.array_equal(moved["stage1"], plain["stage1"]), site
    with pytest.raises(UsageError, match="only shows what the group reads"):
        session.retrace({"x": image}, {"stage2.in_c0.input.x": other}, watch, TraceBuilder())
