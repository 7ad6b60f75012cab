"""Errors of ours are loud: what is not expected by name is caught around foreign code only, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import helper

import twinnet
from tests.needs import need_engine
from tests.onnx_edit import make_model
from twinnet.errors import EngineError, TwinnetError, UsageError, foreign, foreign_as, guarded

SOURCE = Path(twinnet.__file__).parent
UNNAMED = {"Exception", "BaseException"}

ALLOWED = {
    "errors.py": "foreign_as: the one place for code of others",
    "debugger/console.py": "a command typed by a person may raise anything, and its trace is the answer",
    "engines/_ort_session.py": "runs where twinnet is not installed, and answers with what was raised",
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
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("suppress", "contextlib.suppress"):
            if any(names_of(kind) & UNNAMED for kind in node.args):
                yield node


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


class Net(torch.nn.Module):
    """Two layers of which a twin can get the second wrong."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


@pytest.fixture
def wrong(tmp_path: Path) -> tuple[Net, Path]:
    """A network and an ONNX file of it with one weight changed."""
    need_engine("onnxruntime")
    import onnx
    from onnx import numpy_helper

    net = Net().eval()
    twinnet.check(net, torch.randn(2, 6), "onnxruntime", out=str(tmp_path / "run"))
    program = torch.onnx.export(net, (torch.randn(2, 6),), dynamo=True, verbose=False)
    assert program is not None
    model = program.model_proto
    for tensor in model.graph.initializer:
        if tensor.name == "second.bias":
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + 1, tensor.name))
    onnx.save(model, tmp_path / "wrong.onnx")
    return net, tmp_path / "wrong.onnx"
