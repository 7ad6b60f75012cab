"""Errors of ours are loud: what is not expected by name is caught around foreign code only, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

import twinnet
from tests.needs import need_engine
from tests.onnx_edit import make_model, save
from twinnet.errors import EngineError, UsageError, foreign, foreign_as, guarded
from twinnet.layers import read_fx
from twinnet.layers.evaluate import run
from twinnet.layers.kinds import get
from twinnet.network import pt2
from twinnet.onnx import read
from twinnet.onnx.read import read_onnx
from twinnet.shrink import gather
from twinnet.shrink.seed import Runner
from twinnet.shrink.trial import Bench, Candidate

SOURCE = Path(twinnet.__file__).parent
UNNAMED = {"Exception", "BaseException"}

ALLOWED = {
    "cli/_ending.py": "while a bug is being reported: what else fails goes into the report",
    "cli/main.py": "the last one: a bug gets its exit code and its report here",
    "errors.py": "foreign_as: the one place for code of others",
    "debugger/console.py": "a command typed by a person may raise anything, and its trace is the answer",
    "programs/lines.py": "a process of its own, maybe on a board: it answers with what the engine raised",
    "shrink/script.py": "goes into repro.py, which runs without twinnet: how the engine refuses is what it shows",
}
"""Files with a handler that stops exceptions it does not name. The list only gets shorter."""


def names_of(kind: ast.expr | None) -> set[str]:
    """The names of the exceptions of a handler; a bare `except` is one of BaseException."""
    if kind is None:
        return {"BaseException"}
    return {node.id for node in ast.walk(kind) if isinstance(node, ast.Name)}


def unnamed(tree: ast.AST) -> Iterator[ast.AST]:
    """Handlers that may stop anything. One that ends with a plain `raise` only cleans up."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            last = node.body[-1]
            if names_of(node.type) & UNNAMED and not (isinstance(last, ast.Raise) and last.exc is None):
                yield node
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            yield from (node for kind in node.args if names_of(kind) & UNNAMED)


def test_the_handlers_that_are_looked_for() -> None:
    stops = "try: f()\nexcept {}: pass"
    for kind in ("Exception", "BaseException as e", "(ValueError, Exception)", ""):
        assert len(list(unnamed(ast.parse(stops.format(kind))))) == 1, kind
    assert len(list(unnamed(ast.parse("with contextlib.suppress(Exception): f()")))) == 1
    assert not list(unnamed(ast.parse("try: f()\nexcept BaseException:\n  tidy()\n  raise")))
    assert not list(unnamed(ast.parse(stops.format("(ValueError, OSError)"))))


def test_what_is_caught_has_a_name() -> None:
    found = [
        file.relative_to(SOURCE).as_posix()
        for file in sorted(SOURCE.rglob("*.py"))
        for _ in unnamed(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert found == sorted(ALLOWED)


def test_whatever_foreign_code_raises_is_an_error_for_a_person() -> None:
    for raised in (KeyError("weights"), RuntimeError("first\nsecond"), SystemExit(3), StopIteration()):
        with pytest.raises(EngineError, match="toy could not load") as caught, foreign("load", "toy"):
            raise raised
        assert caught.value.stage == "load" and caught.value.__cause__ is raised
    with pytest.raises(UsageError, match="no: x"), foreign_as(lambda error: UsageError(f"no: {error}")):
        raise ValueError("x")
    with pytest.raises(UsageError, match="ours"), foreign("load", "toy"):  # it is one already
        raise UsageError("ours")
    with pytest.raises(KeyboardInterrupt), foreign("load", "toy"):
        raise KeyboardInterrupt
    assert guarded(int, "count", "toy")("7") == 7
    with pytest.raises(EngineError, match="toy could not count: invalid literal"):
        guarded(int, "count", "toy")("x")


# ---- a bug planted in code of ours comes out as it is ----------------------------------------------------


def broken(*_: object, **__: object) -> None:
    """A typo of ours."""
    None.typo  # type: ignore[attr-defined] # noqa: B018


X = {"x": np.linspace(-2, 2, 8, dtype=np.float32)}


def model(op: str) -> onnx.ModelProto:
    """A network of one operator."""
    return make_model([helper.make_node(op, ["x"], ["y"])], {"x": (8,)}, ["y"])


def test_in_a_reader_of_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "translator", lambda domain, op: broken)
    with pytest.raises(AttributeError, match="typo"):
        read_onnx(model("Relu"))


def test_in_the_reader_of_exported_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    monkeypatch.setattr(read_fx, "place", broken)
    with pytest.raises(AttributeError, match="typo"):
        read_fx.read_fx(program)


def test_in_a_reader_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), tmp_path / "net.pt2")
    monkeypatch.setattr(pt2, "rebuilt_program", broken)
    with pytest.raises(AttributeError, match="typo"):
        pt2.load_pt2(tmp_path / "net.pt2")


def test_in_the_meaning_of_a_layer() -> None:
    (layer,) = read_onnx(model("Relu")).layers
    with pytest.raises(AttributeError, match="typo"):
        run(layer, replace(get("relu"), evaluate=broken), (torch.ones(8),))
    # Operands that do not fit are refused by torch, which is an error for a person.
    with pytest.raises(EngineError, match="could not be evaluated"):
        run(layer, replace(get("relu"), evaluate=lambda _, x: (x + torch.ones(3),)), (torch.ones(8),))


def test_in_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    need_engine("onnxruntime")
    side = Runner("onnxruntime", {"opt": "off"})
    bench = Bench(side, side, 2.0**-24, 4.0)
    candidate = Candidate.of(model("Relu"), model("Sigmoid"), X, {})
    assert bench.shows(candidate) is not None
    monkeypatch.setattr(Bench, "_worst", broken)
    with pytest.raises(AttributeError, match="typo"):
        bench.shows(candidate)


@pytest.mark.parametrize("part", ["_exact", "_live", "_value", "_options"])
def test_in_a_gatherer(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_engine("onnxruntime")
    network, twin = save(model("Relu"), tmp_path / "net.onnx"), save(model("Sigmoid"), tmp_path / "twin.onnx")
    monkeypatch.setattr(gather.Gatherer, part, broken)
    with pytest.raises(AttributeError, match="typo"):
        twinnet.check(str(network), X["x"], f"onnxruntime:{twin}", out=str(tmp_path / "run"))


def test_in_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinnet.engines._exported.Walk._call", broken)
    with pytest.raises(AttributeError, match="typo"):
        twinnet.check(torch.nn.ReLU(), torch.ones(2), "torch?dtype=float64")


def test_a_module_of_the_user_may_raise_what_it_likes() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise KeyError("mine")

    result = twinnet.check(Net(), torch.ones(2), "torch?dtype=float64")
    assert result.verdict == "ERROR" and "mine" in result.error
