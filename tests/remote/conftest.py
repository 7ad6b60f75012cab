"""One board for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.boards import SshBoard, start_board
from tests.onnx_edit import make_model, save
from twinnet.remote.ssh import CONFIG


@pytest.fixture(scope="session")
def board_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshBoard]:
    made = start_board(tmp_path_factory.mktemp("board") / "b")
    yield made
    made.stop()


@pytest.fixture
def board(board_server: SshBoard, monkeypatch: pytest.MonkeyPatch) -> SshBoard:
    monkeypatch.setenv(CONFIG, str(board_server.config))
    return board_server


@pytest.fixture(scope="session")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four layers, of which ONNX Runtime fuses two."""
    weight = (np.random.default_rng(0).standard_normal((4, 3, 3, 3)) / 5).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Softmax", ["r"], ["s"], axis=1),
        helper.make_node("GlobalAveragePool", ["s"], ["y"]),
    ]
    model = make_model(nodes, {"x": (1, 3, 12, 10)}, ["y"], {"w": weight})
    return save(model, tmp_path_factory.mktemp("net") / "net.onnx")
