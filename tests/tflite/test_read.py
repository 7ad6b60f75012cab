"""The canonical layers compute what LiteRT computes, tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.needs import need_data, need_engine
from tests.tflite_nets import small, small_tflite
from twinnet.engines import find_engine
from twinnet.engines.base import Session
from twinnet.inputs import load_inputs
from twinnet.job import Arrays, Job
from twinnet.layers.evaluate import evaluate
from twinnet.network import load_network
from twinnet.network.base import Network
from twinnet.structure import diff
from twinnet.tflite.names import module_of
from twinnet.trace import TraceBuilder


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("litert")


def _opened(net: Network, kernels: str = "builtin") -> tuple[Session, Arrays]:
    sample = load_inputs(net.signature, (), samples=1).samples[0]
    return find_engine("litert").open(net, {"kernels": kernels}, None, Job(sample)), sample


def _worst(session: Session, sample: Arrays) -> Iterator[tuple[str, float]]:
    trace = session.trace(sample, {s.tensor for s in session.sites}, TraceBuilder())
    graph = session.graph()
    assert graph is not None
    assert not [layer.attrs["unknown"] for layer in graph if layer.kind == "opaque"]
    given = {name: torch.from_numpy(np.array(trace[name])) for name in session.inputs.values()}
    names = [s.tensor for s in session.sites]
    found = evaluate(graph, given, keep=names)
    for name in names:
        want, got = found[name].numpy(), np.asarray(trace[name])
        assert want.shape == got.shape, name
        yield name, float(np.abs(want - got).max() / max(np.abs(want).max(), 1e-30))


@pytest.mark.parametrize("kernels", ["xnnpack", "builtin", "reference"])
def test_every_tensor_of_a_converted_network(kernels: str) -> None:
    session, sample = _opened(small_tflite(), kernels)
    try:
        off = dict(_worst(session, sample))
    finally:
        session.close()
    assert len(off) == 23
    assert max(off.values()) < 2e-6, off


@pytest.mark.parametrize("name", ["aggregation_net", "distortion_net_minimal_single_batch"])
def test_every_tensor_of_a_published_network(name: str) -> None:
    session, sample = _opened(load_network(str(need_data("uvq", f"{name}.tflite"))), "xnnpack")
    try:
        off = dict(_worst(session, sample))
    finally:
        session.close()
    assert len(off) > 25
    assert max(off.values()) < 1e-5, off


def test_images_are_seen_with_channels_first() -> None:
    net = small_tflite()
    session, _ = _opened(net)
    try:
        graph = session.graph()
    finally:
        session.close()
    assert graph is not None
    convs = [layer for layer in graph if layer.kind == "conv"]
    assert convs[0].attrs["pads"] == (1, 1, 1, 1)
    assert tuple(graph.constants[convs[0].inputs[1] or ""].shape) == (8, 3, 3, 3)
    assert convs[1].attrs["group"] == 8
    assert not [layer for layer in graph if layer.kind == "transpose"]


def test_names_tell_the_module() -> None:
    known = {"stem.2", "norm", "gate", "gate.fc1", "head", "up", "pool", "stem.0", "gate.fc2"}
    names = [t.name for t in small_tflite().model.main.tensors]
    assert {module_of(n, known) for n in names} >= {"stem.2", "norm", "gate.fc1", "head", "up", "pool"}


def test_a_file_beside_a_network_with_channels_first(tmp_path: Path) -> None:
    """The same file under a network that gives its images the other way round."""
    net = load_network(str(need_data("uvq", "distortion_net_minimal_single_batch.tflite")))
    sample = load_inputs(net.signature, (), samples=1).samples[0]

    class Other(Network):
        pass

    other = Other("other", net.signature)
    other.signature = type(net.signature)(
        tuple(type(s)(s.name, s.dtype, (1, 3, 360, 640)) for s in net.signature.inputs)
    )
    turned = {n: np.ascontiguousarray(a.transpose(0, 3, 1, 2)) for n, a in sample.items()}
    plain = find_engine("litert").open(net, {}, None, Job(sample))
    seen = find_engine("litert").open(other, {}, str(net.path), Job(turned))
    try:
        want = next(iter(plain.run(sample).values()))
        got = next(iter(seen.run(turned).values()))
    finally:
        plain.close()
        seen.close()
    assert np.array_equal(want.transpose(0, 3, 1, 2), got)


def test_a_file_is_compared_with_the_module_it_was_made_from(tmp_path: Path) -> None:
    """Layer by layer, without running either: most are in the same place."""
    path = tmp_path / "small.tflite"
    path.write_bytes(small_tflite().data)
    found = diff(small(), str(path))
    assert len(found.changes) < 15, found
