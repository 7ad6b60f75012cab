"""A .pt2 file must not run code: not by its names, guards, structures, sizes, nor by being two archives at once."""

from __future__ import annotations

import json
import shutil
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from tests.network.test_pt2 import Attack, edit_json, nodes_of, rewrite
from twinnet.cli.main import app
from twinnet.errors import UsageError
from twinnet.network import load_network
from twinnet.overview import inspect


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, mode: str = "sum", *, more: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (self.linear(x) + more["m"],))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("honest") / "net.pt2"
    batch = torch.export.Dim("batch", min=2, max=64)
    shapes = {"x": {0: batch}, "mode": None, "more": {"m": None}}
    program = torch.export.export(
        Net(), (torch.ones(5, 4), "sum"), {"more": {"m": torch.ones(3)}}, dynamic_shapes=shapes
    )
    torch.export.save(program, path)
    return path


@pytest.fixture
def saved(honest: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copy(honest, tmp_path / "net.pt2"))


@pytest.fixture
def hit(tmp_path: Path) -> Path:
    """The file that every attack here tries to make."""
    return tmp_path / "hit"


def edit_program(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    rewrite(path, edit_json("models/model.json", edit))


def renamed(value: Any, old: str, new: str) -> Any:
    """A JSON tree with one name replaced, as key and as value."""
    if isinstance(value, dict):
        return {new if k == old else k: renamed(v, old, new) for k, v in value.items()}
    if isinstance(value, list):
        return [renamed(item, old, new) for item in value]
    return new if value == old else value


def signature_of(program: dict[str, Any]) -> dict[str, Any]:
    return program["graph_module"]["module_call_graph"][0]["signature"]


def opened(path: Path) -> None:
    """All that `twinnet inspect` does with a file, and a run."""
    inspect(path)
    network = load_network(path)
    network.call({"x": torch.ones(3, 4), "more.m": torch.ones(3)})
    network.exported()  # type: ignore[attr-defined]


def test_the_honest_file_is_read_and_computes_the_same(saved: Path) -> None:
    network = load_network(saved)
    program = torch.export.load(saved)
    x, more = torch.randn(7, 4), {"m": torch.randn(3)}
    expected = program.module()(x, "sum", more=more)
    torch.testing.assert_close(network.call({"x": x, "more.m": more["m"]})["output"], expected)


def touching(hit: Path) -> str:
    return f"__import__('pathlib').Path('{hit}').touch()"


def test_guards_are_not_evaluated(saved: Path, hit: Path) -> None:
    edit_program(saved, lambda p: p.update(guards_code=[f"{touching(hit)} is None"]))
    torch.export.load(saved).module()(torch.ones(3, 4), "sum", more={"m": torch.ones(3)})
    assert hit.exists(), "the attack works where nothing stops it"
    hit.unlink()
    opened(saved)
    assert not hit.exists()


@pytest.mark.parametrize(
    "name", ["x=EVIL", "x, y=EVIL", "x\n    EVIL\n    y", "x # ", "lambda", "__import__"]
)
def test_names_that_become_variables_are_refused(saved: Path, hit: Path, name: str) -> None:
    name = name.replace("EVIL", touching(hit))

    def edit(program: dict[str, Any]) -> None:
        program["graph_module"] = renamed(program["graph_module"], "x", name)

    edit_program(saved, edit)
    with pytest.raises(UsageError, match="--trust"):
        load_network(saved)
    assert not hit.exists()


@pytest.mark.parametrize("place", ["argument", "keyword", "parameter", "kwarg of an operator", "graph"])
def test_names_that_become_source_elsewhere_are_refused(saved: Path, hit: Path, place: str) -> None:
    evil = f"x'+str({touching(hit)})+'"

    def edit(program: dict[str, Any]) -> None:
        graph = program["graph_module"]["graph"]
        (branch,) = [n for n in nodes_of(program) if n["target"].endswith("cond")]
        if place == "argument":
            signature_of(program)["forward_arg_names"][0] = evil.replace("'", "")
        elif place == "keyword":
            signature_of(program)["in_spec"] = signature_of(program)["in_spec"].replace(
                "more", evil.replace('"', "")
            )
        elif place == "parameter":
            program["graph_module"] = renamed(
                program["graph_module"], "linear.weight", f'linear.x"),{touching(hit)},("'
            )
        elif place == "kwarg of an operator":
            branch["inputs"][0].update(name=f"x={touching(hit)}, y", kind=2)
        else:
            branch["inputs"][1]["arg"]["as_graph"]["name"] = f'a"),{touching(hit)},("'
        assert graph

    edit_program(saved, edit)
    with pytest.raises(UsageError, match="--trust"):
        load_network(saved)
    assert not hit.exists()


def test_a_fixed_text_among_the_inputs_stays_a_text(saved: Path, hit: Path) -> None:
    evil = f"' or not {touching(hit)} or '"

    def edit(program: dict[str, Any]) -> None:
        program["graph_module"] = renamed(program["graph_module"], "sum", evil)

    edit_program(saved, edit)
    torch.export.load(saved).module()(torch.ones(3, 4), evil, more={"m": torch.ones(3)})
    assert hit.exists(), "the attack works where nothing stops it"
    hit.unlink()
    with pytest.raises(UsageError, match="does not fit between quotes"):
        load_network(saved)
    assert not hit.exists()


@pytest.mark.parametrize(
    ("kind", "context"),
    [
        (
            "collections.defaultdict",
            '{"default_factory_\\u006dodule": "os", "default_factory_name": "abort", "dict_context": []}',
        ),
        (
            "collections.defaultdict",
            '{"default_factory_module": "builtins", "default_factory_name": "exit", "dict_context": []}',
        ),
        ("builtins.dict", '[{"__\\u0065num__": true, "fqn": "os:abort", "name": "x"}]'),
        ("builtins.tuple", '{"__enum__": true, "fqn": "os:abort", "name": "x"}'),
        ("torch.fx.immutable_collections.immutable_list", "null"),
        ("collections.namedtuple", "builtins.list"),
    ],
)
def test_structures_name_no_class(saved: Path, kind: str, context: str) -> None:
    def edit(program: dict[str, Any]) -> None:
        tree = [1, {"type": kind, "context": context, "children_spec": []}]
        signature_of(program)["out_spec"] = json.dumps(tree)

    edit_program(saved, edit)
    try:
        made = load_network(saved)
    except UsageError:
        return
    # A context that means nothing is replaced.
    spec = made.program.call_spec.out_spec  # type: ignore[attr-defined]
    assert spec.type is tuple and spec.context is None


def test_one_archive_is_checked_and_the_same_is_loaded(saved: Path, hit: Path) -> None:
    """Two archives in one file: Python's reader finds the second, PyTorch's the first."""
    evil = f"{touching(hit)} is None"
    halves = []
    for guard in (evil, "True".ljust(len(evil))):
        edit_program(saved, lambda p, guard=guard: p.update(guards_code=[guard]))
        halves.append(saved.read_bytes())
    assert len(halves[0]) == len(halves[1])
    saved.write_bytes(b"".join(halves))
    with zipfile.ZipFile(saved) as archive:
        (model,) = [n for n in archive.namelist() if n.endswith("model.json")]
        assert str(hit) not in archive.read(model).decode()
    torch.export.load(saved).module()(torch.ones(3, 4), "sum", more={"m": torch.ones(3)})
    assert hit.exists(), "the attack works where nothing stops it"
    hit.unlink()
    opened(saved)
    assert not hit.exists()


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9",
        "2^9^9^9",
        "s0**10**9",
        "LShift(1, 10**12)",
        "Pow(Integer(9), Pow(Integer(9), Integer(99)))",
        "(((((2**99)**99)**99)**99)**99)",
        "(s0 + s1 + s2 + s3 + s4)**64",
        "*".join(["(s0 + s1)"] * 40),
        "(" * 3000 + "s0" + ")" * 3000,
        "-" * 30000 + "s0",
        "+".join(["s0"] * 20000),
        "Float('1e999999999')",
        "9" * 4000,
        "u999999999999",
        "s\uff10",
    ],
)
def test_formulas_that_never_end_are_not_begun(saved: Path, text: str) -> None:
    def edit(program: dict[str, Any]) -> None:
        values = program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
        values[0]["as_expr"]["expr_str"] = text

    edit_program(saved, edit)
    start = time.monotonic()
    with pytest.raises(UsageError, match="not arithmetic, or too long"):
        load_network(saved)
    assert time.monotonic() - start < 5


def test_a_range_of_a_symbol_with_a_huge_number_does_not_count_up_to_it(saved: Path) -> None:
    edit_program(
        saved, lambda p: p["range_constraints"].update({"u99999999999": {"min_val": 0, "max_val": 2}})
    )
    with pytest.raises(UsageError, match="range constraints"):
        load_network(saved)


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.higher_order.print",
        "torch.ops.higher_order.call_torchbind",
        "torch.ops.profiler._record_function_enter.default",
        "torch.ops.aten.save.default",
        "torch.ops.debugprims.load_tensor.default",
        "#namespace:operator",
        "os.system",
        "builtins.exec",
    ],
)
def test_operators_that_reach_outside_are_refused(saved: Path, target: str) -> None:
    for key in ("target", "as_operator"):

        def edit(program: dict[str, Any], key: str = key) -> None:
            if key == "target":
                nodes_of(program)[0].update(target=target)
            else:
                nodes_of(program)[0]["inputs"][0]["arg"] = {"as_operator": target}

        edit_program(saved, edit)
        with pytest.raises(UsageError, match="which is not an operator of PyTorch"):
            load_network(saved)


def test_a_few_bytes_do_not_become_a_tensor_that_fills_the_memory(saved: Path) -> None:
    def edit(config: dict[str, Any]) -> None:
        meta = config["config"]["linear.weight"]["tensor_meta"]
        meta.update(sizes=[{"as_int": 1 << 40}, {"as_int": 4}], strides=[{"as_int": 0}, {"as_int": 1}])

    rewrite(saved, edit_json("data/weights/model_weights_config.json", edit))
    with pytest.raises(UsageError, match="elements, but 48 bytes are stored"):
        load_network(saved)


def test_a_compressed_archive_is_refused_before_it_is_unpacked(saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(UsageError, match="compressed archive"):
        load_network(saved)


def test_trust_is_asked_for_and_given(saved: Path, hit: Path) -> None:
    import io

    data = io.BytesIO()
    torch.save(((torch.ones(5, 4), "sum"), {"more": {"m": torch.ones(3)}, "x": Attack(hit)}), data)
    rewrite(saved, lambda name, old: data.getvalue() if name == "data/sample_inputs/model.pt" else old)
    runner = CliRunner()
    refused = runner.invoke(app, ["inspect", str(saved)])
    assert isinstance(refused.exception, UsageError) and "--trust" in str(refused.exception)
    assert not hit.exists()
    runner.invoke(app, ["inspect", str(saved), "--trust"])
    assert hit.exists(), "a trusted file is handed to PyTorch as it is"
    hit.unlink()
    with pytest.raises(UsageError, match="--trust"):
        load_network(saved)
    assert not hit.exists(), "trust ends with the call it was given to"
