"""Engine specs: one way to name a twin, and clear words for what is not one."""

from __future__ import annotations

import pytest

from twinnet.engines import BUILT_IN, Spec, find_engine, parse_spec, parse_specs
from twinnet.errors import UsageError
from twinnet.job import Job


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("onnxruntime", Spec("onnxruntime")),
        ("onnxruntime?opt=off", Spec("onnxruntime", {"opt": "off"})),
        ("onnxruntime?opt=off&threads=2", Spec("onnxruntime", {"opt": "off", "threads": "2"})),
        ("onnxruntime?opt=off:a.onnx", Spec("onnxruntime", {"opt": "off"}, "a.onnx")),
        ("onnxruntime:/odd:dir/a.onnx", Spec("onnxruntime", {}, "/odd:dir/a.onnx")),
        ("C:/nets/a.onnx", Spec("onnxruntime", {}, "C:/nets/a.onnx")),
        ("/odd:dir/a.onnx", Spec("onnxruntime", {}, "/odd:dir/a.onnx")),
        ("dir/net.pt2", Spec("torch", {}, "dir/net.pt2")),
        ("my/twin.py:run", Spec("callable", {}, "my/twin.py:run")),
        ("callable:my/twin.py:run", Spec("callable", {}, "my/twin.py:run")),
        ("recording:runs/board", Spec("recording", {}, "runs/board")),
        ("  torch?compile=1 ", Spec("torch", {"compile": "1"})),
    ],
)
def test_read(text: str, spec: Spec) -> None:
    assert parse_spec(text) == spec


def test_written_as_read() -> None:
    for text in ("onnxruntime?opt=off&threads=2:a.onnx", "torch", "callable:t.py:f"):
        assert str(parse_spec(text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("onnxrutime", "names neither an engine nor a file"),
        ("", "names neither an engine nor a file"),
        ("weights.bin", "names neither an engine nor a file"),
        ("onnxruntime?opt", "'opt' in .* is not of the form key=value"),
        ("onnxruntime?=off", "not of the form key=value"),
        ("onnxruntime?opt=off&opt=all", "'opt' is given twice"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_spec(text)


def test_several() -> None:
    found = parse_specs("onnxruntime?opt=off, onnxruntime?opt=all,net.onnx,callable:t.py:f")
    assert [str(s) for s in found] == [
        "onnxruntime?opt=off",
        "onnxruntime?opt=all",
        "onnxruntime:net.onnx",
        "callable:t.py:f",
    ]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("onnxruntime", {"opt": "fast"}, r"unknown value 'fast' for opt\n  opt=off\|basic"),
        ("onnxruntime", {"colour": "red"}, "has no option 'colour'\n  options: opt="),
        ("onnxruntime", {"threads": "two"}, "unknown value 'two' for threads"),
        ("onnxruntime", {"threads": "0"}, "unknown value '0' for threads"),
        ("torch", {"dtype": "int8"}, "unknown value 'int8' for dtype"),
        ("torch", {"compile": "maybe"}, "unknown value 'maybe' for compile"),
        ("torch", {"threads": "-3"}, "unknown value '-3' for threads"),
        ("onnx-reference", {"opt": "off"}, "has no option 'opt'\n  options: none"),
        ("callable", {}, "needs a function"),
        ("recording", {}, "needs a folder"),
    ],
)
def test_options_that_are_not_possible(name: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        find_engine(name).open(None, options, None, Job({}))


def test_unknown_engines_are_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"there is no engine 'tensorrt'\n  engines: torch, onnxruntime"):
        find_engine("tensorrt")


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_every_engine_states_what_it_can_do(name: str) -> None:
    engine = find_engine(name)
    assert engine.name == name and engine.summary and engine.version()
