"""Files from anywhere: read, or refused in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.needs import need_data
from twinnet.errors import UsageError
from twinnet.network import load_network
from twinnet.tflite.model import read_model
from twinnet.tflite.network import TfliteNetwork
from twinnet.tflite.read import read_tflite
from twinnet.tflite.view import View


@pytest.fixture(scope="module")
def data() -> bytes:
    return need_data("uvq", "aggregation_net_int8.tflite").read_bytes()


def test_a_file_is_a_network(data: bytes) -> None:
    net = load_network(str(need_data("uvq", "aggregation_net_int8.tflite")))
    assert isinstance(net, TfliteNetwork)
    assert [str(s) for s in net.signature.inputs] == [
        "args_0: float32 1x8x8x128",
        "args_1: float32 1x24x24x128",
    ]
    assert net.quantised == "int8"
    assert net.parameters > 60_000
    ops = [op.op for op in net.model.main.operators]
    assert {"CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "RESHAPE"} <= set(ops)


def test_a_constant_holds_its_steps(data: bytes) -> None:
    weights = [t for t in read_model(data).main.tensors if t.dtype == "int8"]
    assert weights and all(t.steps is not None and t.array().dtype == np.int8 for t in weights)


def test_a_file_is_known_by_content(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(data)
    assert load_network(str(path)).format == "TFLite"
    wrong = tmp_path / "wrong.tflite"
    wrong.write_bytes(b"nothing of the kind")
    with pytest.raises(UsageError, match="is not a TFLite model"):
        load_network(str(wrong))


def _open(data: bytes) -> None:
    net = TfliteNetwork(data, name="damaged")
    read_tflite(net.model, View(net.model.main))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.2, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(data: bytes, share: float) -> None:
    with pytest.raises(UsageError):
        _open(data[: int(len(data) * share)])


def test_flipped_bits_are_refused_or_read(data: bytes) -> None:
    """Bits of the structure, not of the weights: never anything but a UsageError."""
    rng, refused = np.random.default_rng(0), 0
    weights = {id(t.data) for t in read_model(data).main.tensors if t.data is not None}
    assert weights
    for _ in range(200):
        damaged = bytearray(data)
        for place in rng.integers(0, len(data), 3):
            # Most of a file is weights: half of the flips go where the tables are.
            at = int(place) if rng.random() < 0.5 else int(len(data) - 1 - place % 12_000)
            damaged[at] ^= 1 << int(rng.integers(8))
        try:
            _open(bytes(damaged))
        except UsageError:
            refused += 1
    assert refused > 10
