"""Table networks as ONNX models of standard operators, run by ONNX Runtime: exact at every site."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lut.zoo import CASES, random_net
from twinnet import lut
from twinnet.errors import UsageError
from twinnet.lut.executors import make

ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def _session(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("name", "compressed"),
    [(name, False) for name in CASES]
    + [("mulut-sdy", True), pytest.param("auto-spf", True, marks=pytest.mark.slow)],
)
def test_equal_at_every_site(name, compressed, noise):
    net = random_net(name, compressed)
    plan = lut.lower(net)
    model = lut.to_onnx(net, record=True)
    assert {node.domain for node in model.graph.node} == {""}
    session = _session(model)
    names = [output.name for output in session.get_outputs()]
    for h, w in [(9, 7), (1, 1), (1, 4)]:
        plane = np.ascontiguousarray(noise[:h, :w])
        seen: dict[str, np.ndarray] = {}
        expected = make(plan, "reference").record(plane, seen.__setitem__)
        found = dict(zip(names, session.run(None, {"image": plane[None]}), strict=True))
        assert np.array_equal(found.pop("result")[0], expected)
        assert list(found) == list(seen)
        for key in seen:
            assert np.array_equal(found[key][0], seen[key]), key


def test_planes_run_independently(noise):
    plan = lut.lower(random_net("srlut-F-0bit"))
    planes = np.stack([noise, noise[::-1], 255 - noise])
    (result,) = _session(lut.to_onnx(plan)).run(None, {"image": planes})
    assert np.array_equal(result, make(plan, "reference").run(planes))


def test_tables_stay_int8(tmp_path):
    path = tmp_path / "net.onnx"
    model = lut.to_onnx(random_net("mulut-sdy"), path)
    kinds = {i.name: i.data_type for i in model.graph.initializer}
    assert kinds["stage2.in_c0.b2"] == 3  # int8
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]
    assert path.stat().st_size < 400_000


def test_a_network_without_tables_is_refused():
    with pytest.raises(UsageError, match="table mode"):
        lut.to_onnx(CASES["srlut-S"]())
