"""Failures have their own words and codes: 2 wrong usage or a bad file, 3 it could not run, 4 a bug. Never 1."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.warm import LARGEST_FILE
from twinnet.cli._ending import bug_report
from twinnet.cli.main import main
from twinnet.store import write_tensors

from .running import Said, call, start

Command = Callable[..., Said]


def model(wrong: float = 1.0) -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    weight = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 6, 6])],
        [numpy_helper.from_array(weight * np.float32(wrong), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, a wrong twin of it, a run that failed, and a recording."""
    folder = tmp_path_factory.mktemp("made")
    onnx.save(model(), folder / "net.onnx")
    onnx.save(model(1.01), folder / "wrong.onnx")
    (folder / "models").mkdir()
    shutil.copy(folder / "net.onnx", folder / "models")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in (
            "check net.onnx --twin wrong.onnx --out run -q",
            "record net.onnx --out rec -q",
            "repro run -o repro -q",
        ):
            patch.setattr(sys, "argv", ["twinnet", *words.split()])
            with pytest.raises(SystemExit):
                main()
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to spoil."""
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def command(place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    return lambda *words: call(monkeypatch, capfd, *words)


# -- bugs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [KeyError("x"), RecursionError("deep"), AssertionError(), ZeroDivisionError()]
)
@pytest.mark.parametrize(
    "words", ["check net.onnx", "judge run", "inspect net.onnx", "show run", "env", "engines"]
)
def test_a_bug_is_4_with_the_report_to_send(
    command: Command, monkeypatch: pytest.MonkeyPatch, words: str, error: Exception
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    import typer

    import twinnet.checking.run
    import twinnet.overview
    import twinnet.result

    monkeypatch.setattr(twinnet.checking.run, "run_case", broken)
    monkeypatch.setattr(twinnet.result.Result, "load", broken)
    monkeypatch.setattr("twinnet.overview.inspect_network", broken, raising=False)
    if words in ("env", "engines", "inspect net.onnx"):
        monkeypatch.setattr(typer, "echo", broken)
    said = command(*words.split())
    assert said.code == 4, said
    assert "this is a bug in twinnet" in said.err and type(error).__name__ in said.err
    assert f"command  twinnet {words}" in said.err and "numpy" in said.err and "Traceback" in said.err


def test_the_report_holds_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["attach", "https://me:hunter2@host/?token=abc123", "--token", "s3cr3t", "--api-key=k3y"]
    monkeypatch.setattr(sys, "argv", ["twinnet", *words])
    monkeypatch.setenv("TWINNET_TOKEN", "v3rysecret")
    text = bug_report(ValueError(f"password: letmein in {Path.home()}/nets"))
    for secret in ("hunter2", "abc123", "s3cr3t", "k3y", "v3rysecret", "letmein", str(Path.home())):
        assert secret not in text, text


# -- the machine -----------------------------------------------------------------------------------------------------

WRITERS = [
    "check net.onnx --twin wrong.onnx --out new -q",
    "check net.onnx --twin wrong.onnx --out run -q",
    "check net.onnx --twin wrong.onnx,onnxruntime --out several -q",
    "check net.onnx --stages --out staged -q",
    "record net.onnx --out new -q",
    "record net.onnx --out rec -q",
    "compare rec rec --out new -q",
    "repro run -o new -q",
    "repro run -o repro -q",
]


@pytest.mark.parametrize("words", WRITERS)
def test_a_full_disk_is_3_and_nothing_is_lost(place: Path, commands: Path, words: str) -> None:
    before = {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}
    said = _without_room(place, commands, words)
    assert said.code == 3 and said.plain and "File too large" in said.err, said
    after = {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}
    assert {p: d for p, d in after.items() if p in before} == before
    assert not [p for p in after if p not in before], "nothing new either"
    assert not list(place.rglob(".*")), "nothing half is left"


def _without_room(place: Path, commands: Path, words: str) -> Said:
    """In a process of its own: its output must still go somewhere, which is a pipe."""
    done = subprocess.run(
        [commands / "twinnet", *words.split()],
        cwd=place,
        env={**os.environ, LARGEST_FILE: "512"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("words", ["judge run", "inspect net.onnx", "env", "show run", "--help"])
def test_an_output_that_is_full_is_3(place: Path, words: str) -> None:
    with Path("/dev/full").open("w") as full:
        started = start(place, *words.split(), stdout=full)
        err = started.communicate(timeout=300)[1]
    assert Said(started.returncode, "", err).plain and "No space left" in err, err
    assert started.returncode == 3 and "Exception ignored" not in err


def test_a_closed_pipe_is_no_verdict(place: Path) -> None:
    line = f"{sys.executable} -m twinnet.cli.main env | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 141 and done.stderr == ""


def test_a_folder_that_may_not_be_written_is_3(
    command: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Path.mkdir

    def refused(self: Path, *given: object, **more: object) -> None:
        if "closed" in self.parts:
            raise PermissionError(13, "Permission denied", str(self))
        make(self, *given, **more)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Path, "mkdir", refused)
    for words in ("check net.onnx -q --out closed/run", "record net.onnx -q --out closed/rec"):
        said = command(*words.split())
        assert said.code == 3 and said.plain and "Permission denied" in said.err, said


def test_too_little_memory_is_3(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("twinnet.checking.run.run_case", full)
    said = command("check", "net.onnx")
    assert said.code == 3 and said.plain and "not enough memory" in said.err


# -- files that are not what they should be --------------------------------------------------------------------------

DEEP = "[" * 100_000
BROKEN = {
    "empty": "",
    "null": "null",
    "list": "[]",
    "number": "1e999",
    "deep": DEEP,
    "deep dict": '{"a":' * 100_000,
    "binary": "\x00\xff",
    "many digits": '{"schema": ' + "9" * 5000 + "}",
}
VALUES = {
    "none": None,
    "text": "text",
    "negative": -1,
    "huge": 10**30,
    "infinite": float("inf"),
    "nan": float("nan"),
    "list": [1, [2]],
    "dict": {"a": {"b": 1}},
    "true": True,
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("run/result.json", "judge run"),
        ("run/result.json", "show run"),
        ("run/result.json", "check net.onnx --baseline run -q"),
        ("run/seeds/0/seed.json", "repro run -o new"),
        ("rec/recording.json", "compare rec rec"),
        ("names.json", "compare rec rec --names names.json"),
        ("rules.toml", "check net.onnx --tolerance rules.toml"),
        ("rec/0000/00000.safetensors", "compare rec rec"),
        ("run/traces/network.safetensors", "show run y"),
        ("in.npy", "check net.onnx --inputs in.npy"),
        ("in.npz", "check net.onnx --inputs in.npz"),
        ("in.png", "check net.onnx --inputs in.png"),
        ("net.onnx", "check net.onnx"),
        ("bad.pt2", "inspect bad.pt2"),
    ],
)
def test_a_file_that_is_none_is_2(command: Command, place: Path, file: str, words: str, text: str) -> None:
    (place / file).write_text(text, encoding="latin-1")
    said = command(*words.split())
    assert said.code == 2 and said.plain, said


def _leaves(data: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Every place in a JSON value; of a list the first two."""
    yield path
    inner = data.items() if isinstance(data, dict) else enumerate(data[:2]) if isinstance(data, list) else ()
    for key, value in inner:
        yield from _leaves(value, (*path, key))


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("run/result.json", "judge run -q"),
        ("run/result.json", "show run"),
        ("rec/recording.json", "compare rec rec -q"),
        ("run/seeds/0/seed.json", "seeds"),
    ],
)
def test_no_value_in_a_file_is_a_bug(command: Command, place: Path, file: str, words: str) -> None:
    path = place / file
    whole = json.loads(path.read_text())
    cases = [(where, name) for where in _leaves(whole) if where for name in VALUES]
    for where, name in random.Random(0).sample(cases, min(len(cases), 150 if words == "seeds" else 40)):
        data = json.loads(json.dumps(whole))
        inner = data
        for key in where[:-1]:
            inner = inner[key]
        inner[where[-1]] = VALUES[name]
        path.write_text(json.dumps(data))
        if words == "seeds":
            _loads_seeds(path.parent.parent.parent, where, name)
            continue
        said = command(*words.split())
        assert said.code in (0, 1, 2, 3) and "Traceback" not in said.err, (where, name, said)


def _loads_seeds(folder: Path, where: object, name: str) -> None:
    from twinnet.errors import UsageError
    from twinnet.shrink.seed import load_seeds

    try:
        load_seeds(folder)
    except UsageError:
        pass
    except Exception as error:
        raise AssertionError((where, name)) from error


@pytest.mark.parametrize(
    "rules",
    [
        "rule = 1",
        "rule = [1]",
        "rule = ['a']",
        "[[rule]]\natol = nan",
        "[[rule]]\natol = inf",
        "[[rule]]\natol = -1",
        "[[rule]]\natol = 1" + "0" * 400,
        "[[rule]]\natol = " + "9" * 6000,
        "[[rule]]\natol = [1]",
        "[[rule]]\natol = 1979-05-27",
        "[[rule]]\nsite = 3\natol = 1",
        "[[rule]]\n" + ".".join("a" * 3000) + " = 1",
        "a = " + "[" * 5000,
        "a = " + "{b=" * 5000,
    ],
)
def test_rules_that_are_none_are_2(command: Command, place: Path, rules: str) -> None:
    (place / "rules.toml").write_text(rules)
    said = command("check", "net.onnx", "--tolerance", "rules.toml")
    assert said.code == 2 and said.plain, said


@pytest.mark.parametrize(
    "words",
    [
        "check net.onnx --seed=-5",
        "record net.onnx --out new --seed=-5",
        "check net.onnx --samples 0",
        f"check net.onnx --samples {10**12}",
        f"record net.onnx --out new --samples {10**12}",
        "check net.onnx --time-limit=-1",
        "check net.onnx --time-limit=nan",
        "check net.onnx --max-memory nan",
        "check net.onnx --max-memory inf",
        "check net.onnx --max-memory 1e400G",
        "check net.onnx --shape x=1x3x99999999x99999999",
        "check net.onnx --shape x=1x3x-8x8",
        f"check net.onnx --shape x=1x3x{10**30}x8",
        "check net.onnx --atol nan",
        "check net.onnx --ulp 1e99",
        "profile compare run run --limit inf",
        "profile compare run run --limit nan",
        "profile net.onnx --seed=-5",
        "ladder net.onnx --seed=-5",
        "matrix net.onnx --seed=-5",
        f"check net.onnx --threads {10**12}",
        "suite --models models --engines onnxruntime --report net.onnx/report",
        "repro run --finding=0",
        f"repro run --finding {10**30}",
    ],
)
def test_numbers_that_cannot_be_are_2(command: Command, words: str) -> None:
    said = command(*words.split())
    assert said.code == 2 and said.plain, said


def test_a_seed_is_checked_in_python_too() -> None:
    import torch

    import twinnet

    with pytest.raises(twinnet.UsageError, match="seed"):
        twinnet.check((torch.nn.ReLU(), torch.ones(1)), None, "torch", seed=-5)


def test_a_tensor_that_lies(command: Command, place: Path) -> None:
    write_tensors(place / "rec/0000/00000.safetensors", {"y": np.zeros(3, np.complex64)})
    said = command("compare", "rec", "rec", "-q")
    assert said.code in (0, 1, 2, 3) and "Traceback" not in said.err, said
