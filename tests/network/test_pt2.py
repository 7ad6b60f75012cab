"""A .pt2 file from elsewhere must not run code: each way in is tried."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from twinnet.errors import UsageError
from twinnet.network import load_network


class Attack:
    """Unpickling this creates a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return (open, (str(self.target), "w"))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x) * x.shape[0]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("honest") / "net.pt2"
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Net(), (torch.ones(5, 4),), dynamic_shapes={"x": {0: batch}})
    torch.export.save(program, path)
    return path


@pytest.fixture
def saved(honest: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copy(honest, tmp_path / "net.pt2"))


def rewrite(
    path: Path, change: Callable[[str, bytes], bytes | None], extra: dict[str, bytes] | None = None
) -> None:
    """Write the archive again with members changed (stored, as torch writes them)."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    root = next(iter(members)).split("/")[0]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            new = change(name.removeprefix(f"{root}/"), data)
            if new is not None:
                archive.writestr(name, new)
        for name, data in (extra or {}).items():
            archive.writestr(f"{root}/{name}", data)


def edit_json(member: str, edit: Callable[[dict], None]) -> Callable[[str, bytes], bytes]:
    def change(name: str, data: bytes) -> bytes:
        if name != member:
            return data
        value = json.loads(data)
        edit(value)
        return json.dumps(value).encode()

    return change


def test_a_dynamic_program_loads_with_its_symbols(saved):
    net = load_network(saved)
    first, second = net.signature.inputs[0].shape
    assert isinstance(first, str) and second == 4
    assert net.call({"x": torch.ones(7, 4)})["output"].shape == (7, 3)


def test_a_rewritten_archive_still_loads(saved):
    rewrite(saved, lambda name, data: data)
    assert load_network(saved).parameters == 15


def test_sample_inputs_that_need_unpickling_are_refused(saved, tmp_path):
    hit = tmp_path / "hit"
    data = io.BytesIO()
    torch.save(((Attack(hit),), {}), data)
    rewrite(saved, lambda name, old: data.getvalue() if name == "data/sample_inputs/model.pt" else old)
    with pytest.raises(UsageError, match="unrestricted unpickling"):
        load_network(saved)
    assert not hit.exists()


@pytest.mark.parametrize("place", ["weights", "constants"])
def test_pickled_payloads_are_refused(saved, tmp_path, place):
    hit = tmp_path / "hit"
    data = io.BytesIO()
    torch.save(Attack(hit), data)
    file = {"weights": "weight_77", "constants": "tensor_77"}[place]
    entry = {"path_name": file, "is_param": False, "use_pickle": True, "tensor_meta": None}
    member = f"data/{place}/model_{place}_config.json"
    rewrite(
        saved,
        edit_json(member, lambda c: c["config"].update(evil=entry)),
        {f"data/{place}/{file}": data.getvalue()},
    )
    with pytest.raises(UsageError, match="unrestricted unpickling"):
        load_network(saved)
    assert not hit.exists()


@pytest.mark.parametrize("prefix", ["custom_obj_0", "opaque_obj_0"])
def test_pickled_objects_are_refused(saved, tmp_path, prefix):
    hit = tmp_path / "hit"
    entry = {"path_name": prefix, "is_param": False, "use_pickle": True, "tensor_meta": None}
    member = "data/constants/model_constants_config.json"
    payload = {f"data/constants/{prefix}": pickle.dumps(Attack(hit))}
    rewrite(saved, edit_json(member, lambda c: c["config"].update(evil=entry)), payload)
    with pytest.raises(UsageError, match="a pickled object"):
        load_network(saved)
    assert not hit.exists()


@pytest.mark.parametrize(
    "name", ["data/sample_inputs/model.pt", "data/sample_inputs/model.PT", "Models/model.json"]
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_second_member_of_a_name_is_refused(saved, tmp_path, name):
    hit = tmp_path / "hit"
    data = io.BytesIO()
    torch.save(((Attack(hit),), {}), data)
    rewrite(saved, lambda name, old: old, {name: data.getvalue()})
    with pytest.raises(UsageError, match="several members of one name"):
        load_network(saved)
    assert not hit.exists()


def test_a_member_that_differs_in_case_is_looked_at(saved, tmp_path):
    hit = tmp_path / "hit"
    data = io.BytesIO()
    torch.save(((Attack(hit),), {}), data)
    place = "data/sample_inputs/model.pt"
    rewrite(
        saved, lambda name, old: None if name == place else old, {place.replace("pt", "PT"): data.getvalue()}
    )
    with pytest.raises(UsageError, match="unrestricted unpickling"):
        load_network(saved)
    assert not hit.exists()


def test_compiled_code_is_refused(saved):
    rewrite(saved, lambda name, data: data, {"data/aotinductor/model/model.so": b"\x7fELF"})
    with pytest.raises(UsageError, match="compiled machine code"):
        load_network(saved)


def nodes_of(program: dict) -> list[dict]:
    return program["graph_module"]["graph"]["nodes"]


@pytest.mark.parametrize(
    "target",
    [
        "torch.os.system",
        "torch.ops.load_library",
        "torch.hub.load",
        "_operator.methodcaller",
        "_operator.__class__",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.__class__",
        "math.__loader__.load_module",
    ],
)
def test_targets_that_are_not_operators_are_refused(saved, target):
    rewrite(saved, edit_json("models/model.json", lambda p: nodes_of(p)[0].update(target=target)))
    with pytest.raises(UsageError, match="which is not an operator"):
        load_network(saved)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "open('/tmp/x')",
        "s0.__class__",
        "().__class__",
        "[s0]",
        "exec(s0)",
        "Mul('open(1)', s0)",
        "Symbol('s0').name",
        "lambda: s0",
        "s0 if s0 else s1",
    ],
)
def test_expressions_that_are_not_arithmetic_are_refused(saved, text):
    def edit(program: dict) -> None:
        found = []

        def walk(value):
            if isinstance(value, dict):
                if "expr_str" in value:
                    value["expr_str"] = text
                    found.append(value)
                for inner in value.values():
                    walk(inner)
            elif isinstance(value, list):
                for inner in value:
                    walk(inner)

        walk(program)
        assert found

    rewrite(saved, edit_json("models/model.json", edit))
    with pytest.raises(UsageError, match="not arithmetic"):
        load_network(saved)


def test_structures_that_import_modules_are_refused(saved):
    def edit(program: dict) -> None:
        signature = program["graph_module"]["module_call_graph"][0]["signature"]
        context = json.dumps(
            {"default_factory_module": "os", "default_factory_name": "abort", "dict_context": []}
        )
        tree = [1, {"type": "collections.defaultdict", "context": context, "children_spec": []}]
        signature["in_spec"] = json.dumps(tree)

    rewrite(saved, edit_json("models/model.json", edit))
    with pytest.raises(UsageError, match="Python class or function"):
        load_network(saved)


def test_damage_is_told(saved, tmp_path):
    data = saved.read_bytes()
    cut = tmp_path / "cut.pt2"
    cut.write_bytes(data[: len(data) // 2])
    with pytest.raises(UsageError, match="truncated or damaged"):
        load_network(cut)
    at = data.index(b'"graph_module"')
    flipped = tmp_path / "flipped.pt2"
    flipped.write_bytes(data[:at] + b"X" + data[at + 1 :])
    with pytest.raises(UsageError, match="fails its checksum"):
        load_network(flipped)
    rewrite(saved, edit_json("models/model.json", lambda p: p["schema_version"].update(major=99)))
    with pytest.raises(UsageError, match="cannot be loaded by PyTorch"):
        load_network(saved)


@pytest.mark.parametrize(
    "content", [b"[]", b'{"config": 3}', b'{"config": {"a": {"path_name": "x", "use_pickle": true}}}']
)
def test_parts_that_do_not_fit_together_are_told(saved, content):
    rewrite(saved, lambda name, data: content if name == "data/weights/model_weights_config.json" else data)
    with pytest.raises(UsageError, match="is damaged"):
        load_network(saved)


def test_an_archive_without_a_program_is_told(saved):
    rewrite(saved, lambda name, data: None if name == "models/model.json" else data)
    with pytest.raises(UsageError, match="holds no exported program called 'model'"):
        load_network(saved)


def test_programs_of_many_kinds_pass_the_inspection(tmp_path):
    class Many(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(4.0))
            self.constant = torch.ones(2)

        def forward(self, x, n: dict):
            y = torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")
            y = y.reshape(y.shape[0], -1, y.shape[-1] // 2)
            y = torch.cond(n["flag"].sum() > 0, lambda v: v + 1, lambda v: v - 1, (y,))
            return {"y": y, "size": x.shape[2] * 2, "t": self.table + self.constant.sum()}

    args = (torch.rand(1, 3, 8, 8), {"flag": torch.ones(2)})
    height = torch.export.Dim("height", min=4, max=100)
    program = torch.export.export(Many(), args, dynamic_shapes=({2: 2 * height}, {"flag": {}}))
    torch.export.save(program, tmp_path / "many.pt2")
    net = load_network(tmp_path / "many.pt2")
    assert [s.name for s in net.signature.inputs] == ["x", "n.flag"]
    outputs = net.call({"x": args[0], "n.flag": args[1]["flag"]})
    torch.testing.assert_close(outputs["y"], Many()(*args)["y"])
    assert outputs["size"] == 16
