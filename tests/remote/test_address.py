"""Addresses of boards: what they mean, and what is refused."""

from __future__ import annotations

import pytest

from twinnet.engines import parse_spec, parse_specs
from twinnet.errors import UsageError
from twinnet.remote.address import read_address


def test_every_part_of_an_address_is_read() -> None:
    found = read_address(
        "ssh://pi@board.lan:2222/data/my%20files?python=/opt/v/bin/python&lease=5&wait=7&store=9"
    )
    assert (found.user, found.host, found.port, found.folder) == ("pi", "board.lan", 2222, "/data/my files")
    assert (found.python, found.lease, found.wait, found.store) == ("/opt/v/bin/python", 5, 7, 9)
    assert read_address("ssh://[fe80::1]:22").host == "fe80::1"
    assert read_address("ssh://Board_2").host == "Board_2", "names of an ssh configuration keep their case"


@pytest.mark.parametrize(
    "text",
    [
        "board",
        "http://board",
        "ssh://",
        "ssh://-oProxyCommand=touch",
        "ssh://-l@board",
        "ssh://pi:secret@board",
        "ssh://a b",
        "ssh://board;reboot",
        "ssh://$(reboot)",
        "ssh://board:99999",
        "ssh://board/../etc",
        "ssh://board/a%0Ab",
        "ssh://board?python=-c",
        "ssh://board?python=a%0Ab",
        "ssh://board?lease=0",
        "ssh://board?wait=-1",
        "ssh://board?store=x",
        "ssh://board?lock=1",
        "ssh://board?wait=1&wait=2",
        "ssh://board#x",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_address(text)


def test_a_spec_names_its_board() -> None:
    text = "onnxruntime?opt=off:a.onnx@ssh://pi@board:2222/data?python=/v/python"
    spec = parse_spec(text)
    assert spec.file == "a.onnx" and spec.on == "ssh://pi@board:2222/data?python=/v/python"
    assert str(spec) == text
    assert "pi-board-2222" in spec.slug
    here, there, file = parse_specs("onnxruntime,litert@ssh://board,net.onnx@ssh://b.lan")
    assert (here.on, there.on, there.engine) == ("", "ssh://board", "litert")
    assert (file.file, file.on) == ("net.onnx", "ssh://b.lan")
    assert parse_spec("user@place.onnx").file == "user@place.onnx"
