"""The command to type next."""

from __future__ import annotations

import pytest

from twinnet.report.next_steps import next_command
from twinnet.result import InputsInfo, Result, SideInfo


def _error(given: str, stage: str, description: str, log: str = "", command: str = "") -> Result:
    return Result(
        verdict="ERROR",
        network=SideInfo("a", "onnxruntime", given=given),
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
            _error("my a.onnx", "pair", "b.onnx"),
            "twinnet diff 'my a.onnx' b.onnx",
        ),
        (_error("a.onnx", "pair", ""), "twinnet env"),
        (
            _error("a.onnx", "load", "b.onnx", "said", "twinnet check a.onnx --twin b.onnx"),
            "twinnet check a.onnx --twin b.onnx -v",
        ),
        (_error("", "pair", "b.onnx"), "twinnet env"),
    ],
)
def test_two_networks_that_are_not_one_are_compared_by_diff(result: Result, said: str) -> None:
    assert next_command(result)[0] == said
