"""The command to type next."""

from __future__ import annotations

import pytest

from twinnet.report.words import next_command
from twinnet.result import InputsInfo, Result, SideInfo


def _error(command: str, stage: str, description: str, log: str = "") -> Result:
    return Result(
        verdict="ERROR",
        network=SideInfo("a", "onnxruntime"),
        twin=SideInfo("onnxruntime", "onnxruntime", description=description),
        inputs=InputsInfo(1, "synthetic", True),
        error="they are not the same network",
        stage=stage,
        log=log,
        command=command,
    )


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (
            _error("twinnet check 'my a.onnx' --twin b.onnx", "pair", "b.onnx"),
            "twinnet diff 'my a.onnx' b.onnx",
        ),
        (_error("twinnet check a.onnx --twin onnxruntime", "pair", ""), "twinnet env"),
        (_error("twinnet check --twin b.onnx a.onnx", "pair", "b.onnx"), "twinnet env"),
        (
            _error("twinnet check a.onnx --twin b.onnx", "load", "b.onnx", "said"),
            "twinnet check a.onnx --twin b.onnx -v",
        ),
        (_error("", "pair", "b.onnx"), "twinnet env"),
    ],
)
def test_two_networks_that_are_not_one_are_compared_by_diff(result: Result, said: str) -> None:
    assert next_command(result)[0] == said
