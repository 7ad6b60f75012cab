"""What is said of a PyTorch that is too old or not tried yet, and that its private names are used in one place."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import twinnet
from twinnet import torch_versions
from twinnet.errors import EngineError, UsageError

ROOT = Path(__file__).parents[1]
SOURCE = Path(twinnet.__file__).parent
NET = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
X = torch.linspace(-1, 1, 8).reshape(2, 4)
NEWER = "is newer than 2.1, the newest"


def fails(x: object) -> object:
    raise EngineError("no such device")


def has_a_bug(*args: object) -> object:
    raise ZeroDivisionError


@pytest.mark.parametrize("version", ["2.9.0", "2.10.1+cpu", "2.13.0", "3.0.0", "2.16.0.dev20260101+cu130"])
def test_every_newer_version_is_accepted(version: str) -> None:
    torch_versions.refuse_older(version)


@pytest.mark.parametrize("version", ["2.8.0", "2.8.1+cu128", "1.13.1"])
def test_an_older_version_is_refused_with_what_to_do(version: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"PyTorch {version} is too old")) as error:
        torch_versions.refuse_older(version)
    assert error.value.hint == "pip install 'torch>=2.9'"


def test_the_command_line_refuses_it_before_anything_has_run() -> None:
    code = (
        "import sys, torch; torch.__version__ = '2.8.0'; import twinnet.cli.main as m\n"
        "sys.argv = ['twinnet', 'check', 'torch.nn:ReLU', '--twin', 'torch?dtype=float64', '--shape', '1x2']; m.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("twinnet: PyTorch 2.8.0 is too old: twinnet needs 2.9 or newer\n")


def test_a_version_that_was_tried_is_not_mentioned() -> None:
    assert torch_versions.notes() == ()
    assert not any(
        "PyTorch" in guard.message for guard in twinnet.check(NET, X, "torch?dtype=float64").guards
    )


def test_a_newer_version_is_a_note_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_versions, "NEWEST_TRIED", "2.1")
    found = twinnet.check(NET, X, "torch?dtype=float64")
    assert (found.verdict, found.evidence) == ("PASS", "strong")
    (guard,) = [guard for guard in found.guards if NEWER in guard.message]
    assert guard.name == "note" and not guard.weakens
    assert re.search(rf"^guard +PyTorch {re.escape(torch.__version__)} {NEWER}", repr(found), re.M)


def test_a_newer_version_is_said_where_something_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_versions, "NEWEST_TRIED", "2.1")
    found = twinnet.check(NET, X, fails)
    assert found.verdict == "ERROR" and NEWER in repr(found)
    monkeypatch.setattr("twinnet.checking.judging.judge_sample", has_a_bug)
    with pytest.raises(ZeroDivisionError) as error:
        twinnet.check(NET, X, "torch?dtype=float64")
    assert [NEWER in note for note in error.value.__notes__] == [True]


@pytest.fixture(autouse=True)
def onnx_operators_stay() -> None:
    """Not here: this file shows what that changes."""


def test_tables_that_are_kept_change_nothing() -> None:
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    def converted() -> bytes:
        made = torch.onnx.export(program, (), dynamo=True, verbose=False)
        assert made is not None
        return made.model_proto.SerializeToString()

    program = torch.export.export(NET, (X,)).run_decompositions({})
    given, plain = vars(ONNXRegistry)["from_torchlib"], converted()
    for _ in range(2):
        with torch_versions.onnx_operators_kept():
            assert converted() == plain
            ONNXRegistry.from_torchlib().functions.clear()  # whoever changes one changes a copy
        assert vars(ONNXRegistry)["from_torchlib"] is given
    with torch_versions.composites_kept():
        again = torch.export.export(NET, (X,)).run_decompositions({})
    assert str(again.graph) == str(program.graph)


class _Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def one(x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.layer_norm(x, (3,)).add_(1)

        y = torch.cond(x.sum() > 0, one, lambda x: torch.einsum("ij,jk->ik", x, x[:3]), (x,))
        return torch.nn.functional.hardshrink(y.chunk(2)[0].reshape(-1, 3))


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (NET, X.shape),
        (torch.nn.LSTM(4, 3), (5, 1, 4)),
        (torch.nn.TransformerEncoderLayer(8, 2, 16), (3, 1, 8)),
        (
            torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding="same"), torch.nn.InstanceNorm2d(4)),
            (1, 3, 6, 6),
        ),
        (_Branches(), (6, 3)),
    ],
    ids=["plain", "lstm", "transformer", "instance norm", "branches"],
)
def test_guarding_only_what_occurs_changes_nothing(module: torch.nn.Module, shape: tuple[int, ...]) -> None:
    program = torch.export.export(module.eval(), (torch.ones(shape),))
    made, theirs = torch_versions.undecomposed(program), program.run_decompositions({})
    assert made.graph_module.print_readable(print_output=False) == theirs.graph_module.print_readable(
        print_output=False
    )


def private_names(file: Path) -> Iterator[str]:
    """Names below torch that start with one underscore, as a file imports or spells them."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        yield from (n for n in names if re.fullmatch(r"torch(\.\w+)*\._[a-zA-Z]\w*(\.\w+)*", n))


def test_private_names_of_torch_are_used_in_one_place() -> None:
    used = {file.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*.py") if any(private_names(file))}
    # ExecuTorch's worker runs without twinnet, with the one PyTorch that ExecuTorch is built for.
    assert used == {"torch_versions.py", "engines/_executorch_worker.py"}


def test_what_is_stated_elsewhere_is_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"torch>={torch_versions.OLDEST}" in project["optional-dependencies"]["torch"]
