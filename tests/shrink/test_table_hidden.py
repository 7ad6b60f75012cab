"""Confidential repros of table networks: the fault shows, nothing of the user's does."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from benchmarks.faults.tables.kinds import ENGINE_FAULTS, PLAN_FAULTS, Place, Planted
from benchmarks.faults.tables.run import _foreign, picture
from onnx import helper, numpy_helper

import twinnet
from tests.blame.test_table_causes import place
from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.errors import UsageError
from twinnet.lut.file import LutFile, write
from twinnet.lut.plan import Plan, Plane, Stage, Table, Term
from twinnet.result import Result
from twinnet.shrink.seed import Runner, Seed, load_seeds
from twinnet.shrink.table_draw import Draw
from twinnet.shrink.table_folder import table_repro
from twinnet.shrink.table_hidden import hide_table

IMAGE = picture(np.random.default_rng(3))
SECRETS = ("acme", "patented", "hush", "johndoe")
"""Parts of the names of stages, tables, groups, files, folders and notes."""
EDGE = {"clipped bin", "node 255 for 256", "wrong node value", "wrong centre"}
"""These are seen in the first stage."""


QUICK = {
    "wrong padding", "flipped sampler", "a rotation left out", "stale table", "one entry", "wrong node value",
    "residual left out", "wrong bin", "clipped bin", "swapped rotation", "rounds half up",
    "outside: a wave on the lookups",
}  # fmt: skip


def each(faults: Iterable[str]) -> list[Any]:
    """Every fault; those of a kind that another one stands for are slow tests."""
    return [f if f in QUICK else pytest.param(f, marks=pytest.mark.slow) for f in faults]


def renamed(plan: Plan) -> Plan:
    """The plan under names that must not get out."""
    stages = {s.name: f"acmenoise{k}" for k, s in enumerate(plan.stages)}
    tables = {name: f"patented_{k}" for k, name in enumerate(plan.tables)}

    def planes(old: tuple[Plane, ...]) -> tuple[Plane, ...]:
        return tuple(Plane(stages.get(p.register, p.register), p.channel) for p in old)

    def term(old: Term) -> Term:
        blend = old.blend and replace(old.blend, planes=planes(old.blend.planes))
        sample = replace(old.sample, planes=planes(old.sample.planes))
        return replace(old, sample=sample, blend=blend, table=tables[old.table], group=f"hush_{old.group}")

    def stage(old: Stage) -> Stage:
        return replace(old, name=stages[old.name], terms=tuple(term(t) for t in old.terms))

    return Plan.build([stage(s) for s in plan.stages], {tables[n]: t for n, t in plan.tables.items()})


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    known = {name: renamed(lut.lower(random_net(name))) for name in ("mulut-sdy", "auto-mulut", "srlut-S")}
    return known | {"band": renamed(lut.lower(random_net("mulut-sdy", compressed=True)))}


def home(base: Path, name: str = "") -> Path:
    folder = base / "johndoe" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def saved(plan: Plan, path: Path) -> Path:
    return write(LutFile(plan, name="acme super", notes=("by johndoe",)), path)


def with_last_node(at: Place) -> Place:
    """Another last node is another table where a tap is at it."""

    def relast(name: str) -> tuple[np.ndarray, int]:
        table = at.plan.tables[name]
        nodes = np.stack(np.unravel_index(np.arange(len(table.values)), (table.nodes,) * table.axes))
        rows = (nodes == table.nodes - 1).any(axis=0)
        values = table.values.astype(np.int64)
        values[rows] += np.random.default_rng(1).integers(1, 9, values[rows].shape)
        return values.clip(-127, 127).astype(np.int8), 255

    return replace(at, relast=relast)


def planted(plans: dict[str, Plan], fault: str, name: str = "") -> tuple[Plan, Planted]:
    name = name or ("auto-mulut" if fault == "residual left out" else "mulut-sdy")
    at = with_last_node(place(plans[name], 0 if fault in EDGE or name == "srlut-S" else 1, name != "srlut-S"))
    found = (PLAN_FAULTS | ENGINE_FAULTS)[fault](at)
    assert found is not None
    return plans[name], found


def hidden(plan: Plan, twin: object, folder: Path, image: np.ndarray = IMAGE) -> twinnet.Repro:
    good = saved(plan, folder / "acme.lut.safetensors")
    result = twinnet.check(str(good), {"image": image}, twin, out=folder / "run")
    assert isinstance(result, Result) and result.verdict == "FAIL"
    made = twinnet.repro(folder / "run", folder / "repro", confidential=True)
    assert made.confirmed and made.kind == "table" and not made.kept and not made.place
    return made


# ---- what a folder holds -----------------------------------------------------------------------------------------


def arrays(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Every array of every file."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as data:
            yield from ((f"{path.name}:{key}", data[key]) for key in data.files)
    if (folder / "twin.onnx").is_file():
        for tensor in onnx.load(str(folder / "twin.onnx")).graph.initializer:
            yield f"twin.onnx:{tensor.name}", numpy_helper.to_array(tensor)


def texts(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file as it is, and what is packed in it."""
    for path in sorted(folder.iterdir()):
        yield path.name, path.read_bytes()
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as packed:
                for name in packed.namelist():
                    yield name, name.encode() + packed.read(name)


def assert_nothing_private(base: Path, *known: Plan) -> None:
    folder = base / "repro"
    for name, content in texts(folder):
        for word in (*SECRETS, str(base)):
            assert word.encode() not in content.lower(), (name, word)
    seeds = load_seeds(base / "run")
    pixels = [np.rint(IMAGE * 255).astype(np.uint8), *(a for s in seeds for a in s.inputs.values())]
    runs = [a.astype(np.int64).astype(">i8").tobytes() for a in pixels if (a == np.rint(a)).all()]
    rows = {row.tobytes() for plan in known for t in plan.tables.values() for row in t.values if len(row) > 3}
    samplers = {
        numbers
        for plan in known
        for stage in plan.stages
        for term in stage.terms
        for numbers in (*(term.sample.weights or ()), *([term.blend.gains] if term.blend else ()))
        if len(set(numbers)) > 2
    }
    for name, array in arrays(folder):
        whole = array.astype(np.int64).astype(">i8")
        if whole.size > 3 and len(np.unique(whole)) > 3:
            assert not any(whole.tobytes() in run for run in runs), name
        if array.dtype == np.int8 and array.ndim == 2 and "onnx" not in name:
            assert not {row.tobytes() for row in array} & rows, name
        if "onnx" in name:
            # A whole table: by chance a row may be somewhere else in one of yours, but not in the same place.
            for plan in known:
                for table in plan.tables.values():
                    if table.values.shape == array.shape:
                        assert (table.values == array).mean() < 0.02, name
        for numbers in (array, array.T):
            found = (
                {tuple(row) for row in numbers.reshape(len(numbers), -1).tolist()}
                if numbers.size > 1 and numbers.ndim
                else set()
            )
            assert not samplers & found, name
    script = (folder / "repro.py").read_text()
    assert not any(re.sub(r"\s", "", str(list(s))) in re.sub(r"\s", "", script) for s in samplers)


# ---- running it --------------------------------------------------------------------------------------------------


def start(folder: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-I", str(folder / "repro.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


def assert_shown(folder: Path) -> None:
    code, said = start(folder)
    assert code == 1 and "the fault exists" in said, said


def repair(folder: Path) -> None:
    """The network's own way in the twin's place."""
    script = (folder / "repro.py").read_text()
    known: dict[str, Any] = runpy.run_path(str(folder / "repro.py"))
    held = {}
    for name in ("inputs", "network"):
        with np.load(folder / f"{name}.npz") if (folder / f"{name}.npz").is_file() else _none() as data:
            held[name] = {key: data[key] for key in data} if data is not None else {}
    spec = known["SPEC"]
    if "steps" in spec["twin"]:
        if (folder / "network.npz").is_file():
            shutil.copy(folder / "network.npz", folder / "twin.npz")
        begin = 'if __name__ == "__main__":'
        (folder / "repro.py").write_text(
            script.replace(begin, 'SPEC["twin"]["steps"] = SPEC["network"]\n' + begin)
        )
    elif "file" in spec["twin"]:
        model = onnx.load(str(folder / "twin.onnx"))
        for tensor in model.graph.initializer:
            values = numpy_helper.to_array(tensor).copy()
            if (
                tensor.data_type == onnx.TensorProto.INT8
                and len(values) == spec["network"][0]["table"]["rows"]["values"]
            ):
                values[held["network"]["0.values_rows"]] = held["network"]["0.values"]
                tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
        onnx.save(model, str(folder / "twin.onnx"))
    else:
        values = {name: held["inputs"][key] for name, key in spec["inputs"].items()}
        expected = known["evaluated"](spec["network"], held["network"], values)
        np.savez(folder / "twin.npz", observed=expected)


class _none:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def issue(folder: Path) -> str:
    return (folder / "ISSUE.md").read_text()


# ---- tests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", each(PLAN_FAULTS))
def test_two_files_of_tables(fault: str, plans: dict[str, Plan], tmp_path: Path) -> None:
    plan, found = planted(plans, fault)
    base = home(tmp_path)
    bad = saved(found.plan, base / "acme-bad.lut.safetensors")
    hidden(plan, f"lut:{bad}", base)
    folder = base / "repro"
    assert_shown(folder)
    assert_nothing_private(base, plan, found.plan)
    assert "What was hidden" in issue(folder) and "Where it comes from" not in issue(folder)
    # What is shown is the same kind of fault, in the words of the same cause.
    pattern = "samples|taps" if fault == "taps in another order" else found.wanted
    pattern = "leaves out" if fault == "a rotation left out" else pattern
    assert re.search(pattern, issue(folder)), issue(folder)
    # The user's own file says nothing about random tables.
    assert start(folder, str(base / "acme.lut.safetensors"))[0] == 3
    repair(folder)
    assert start(folder)[0] == 0


@pytest.mark.parametrize("fault", each(ENGINE_FAULTS))
def test_a_runtime_that_left_only_its_values(fault: str, plans: dict[str, Plan], tmp_path: Path) -> None:
    plan, found = planted(plans, fault)
    base = home(tmp_path)
    twin = _foreign(found, "all")
    if fault.startswith("outside"):
        with pytest.raises(UsageError, match="why they differ is not known"):
            hidden(plan, twin, base)
        assert not (base / "repro").exists()
        return
    hidden(plan, twin, base)
    folder = base / "repro"
    assert_shown(folder)
    assert_nothing_private(base, plan)
    assert re.search(found.wanted, issue(folder)) and "not a recording" in issue(folder)
    repair(folder)
    assert start(folder)[0] == 0, "what a right twin gives makes it say so"


@pytest.mark.parametrize("fault", each(["one entry", "a few rows", "wrong node value"]))
def test_entries_that_only_a_runtime_has(fault: str, plans: dict[str, Plan], tmp_path: Path) -> None:
    plan, found = planted(plans, fault)
    base = home(tmp_path)
    hidden(plan, _foreign(found, "all"), base)
    assert_shown(base / "repro")
    assert_nothing_private(base, plan, found.plan)
    wanted = "only where a tap is at the last node" if fault == "wrong node value" else found.wanted
    assert re.search(wanted, issue(base / "repro"))


def test_a_chain_that_nobody_sees_inside(plans: dict[str, Plan], tmp_path: Path) -> None:
    plan, found = planted(plans, "swapped rotation")
    base = home(tmp_path)
    made = hidden(plan, _foreign(found, "stages"), base)
    assert made.nodes > 1
    assert_shown(base / "repro")
    assert_nothing_private(base, plan)
    assert "samples rotation" in issue(base / "repro")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("mulut-sdy", "wrong padding"),
        ("mulut-sdy", "one entry"),
        pytest.param("mulut-sdy", "a rotation left out", marks=pytest.mark.slow),
        pytest.param("mulut-sdy", "wrong node value", marks=pytest.mark.slow),
        ("auto-mulut", "flipped sampler"),
        pytest.param("auto-mulut", "stale table", marks=pytest.mark.slow),
        pytest.param("band", "stale table", marks=pytest.mark.slow),
        pytest.param("srlut-S", "multilinear for simplex", marks=pytest.mark.slow),
    ],
)
def test_an_onnx_model(name: str, fault: str, plans: dict[str, Plan], tmp_path: Path) -> None:
    plan, found = planted(plans, fault, name)
    base = home(tmp_path)
    lut.to_onnx(found.plan, base / "acme.onnx")
    hidden(plan, f"onnxruntime:{base / 'acme.onnx'}", base)
    folder = base / "repro"
    assert (folder / "twin.onnx").is_file()
    assert_shown(folder)
    assert_nothing_private(base, plan, found.plan)
    if fault in ("one entry", "wrong node value") or (name, fault) == ("auto-mulut", "stale table"):
        repair(folder)
        assert start(folder)[0] == 0


def test_an_onnx_model_with_wider_tables(plans: dict[str, Plan], tmp_path: Path) -> None:
    plan, found = planted(plans, "stale table", "srlut-S")
    base = home(tmp_path)
    model = lut.to_onnx(found.plan)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT8:
            wide = numpy_helper.to_array(tensor).astype(np.int32)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    onnx.save(model, str(base / "acme.onnx"))
    hidden(plan, f"onnxruntime:{base / 'acme.onnx'}", base)
    assert_shown(base / "repro")
    assert_nothing_private(base, plan, found.plan)


def test_an_onnx_model_with_data_that_nobody_knows(plans: dict[str, Plan], tmp_path: Path) -> None:
    """What is neither a table of the network nor known otherwise may be anything: it is not passed on."""
    plan, found = planted(plans, "wrong padding", "srlut-S")
    base = home(tmp_path)
    lut.to_onnx(found.plan, base / "acme.onnx")
    model = onnx.load(str(base / "acme.onnx"))
    # Somebody keeps the tables lying on their side.
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT8:
            name = tensor.name
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).T.copy(), f"{name}_T"))
            model.graph.node.insert(0, helper.make_node("Transpose", [f"{name}_T"], [name]))
    onnx.save(model, str(base / "acme.onnx"))
    with pytest.raises(UsageError, match="no table of the network"):
        hidden(plan, f"onnxruntime:{base / 'acme.onnx'}", base)


@pytest.fixture(scope="module")
def padded(plans: dict[str, Plan], tmp_path_factory: pytest.TempPathFactory) -> Seed:
    """A finding of wrong padding, between two files of tables."""
    plan, found = planted(plans, "wrong padding", "srlut-S")
    base = tmp_path_factory.mktemp("padded")
    good, bad = (saved(p, base / f"{k}.lut.safetensors") for k, p in enumerate((plan, found.plan)))
    twinnet.check(str(good), {"image": IMAGE}, f"lut:{bad}", out=base / "run")
    return load_seeds(base / "run")[0]


def test_pixels_stay_where_no_others_show_it(padded: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a flat image every padding is the same."""
    monkeypatch.setattr(Draw, "_pixels", lambda self, shape: np.full(shape, 7.0))
    made, contents = table_repro(padded, True, lambda step, share: None)
    assert made["kept"] == ("the pixels",)
    assert "because the fault needs them: the pixels" in contents.issue
    (ours,), (theirs,) = padded.inputs.values(), contents.inputs.values()
    assert np.array_equal(ours, theirs)
    # The rows that these pixels read are the same, and hold something else.
    rows, entries = (contents.arrays["network.npz"][f"0.values{end}"] for end in ("_rows", ""))
    assert np.array_equal(rows, padded.arrays["network:0.values_rows"])
    assert not (entries == padded.arrays["network:0.values"]).all(axis=1).any()


def test_a_fault_that_nothing_else_shows_is_refused(padded: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    flat = replace(padded, inputs={n: np.full_like(a, 7) for n, a in padded.inputs.items()})
    monkeypatch.setattr(Draw, "_pixels", lambda self, shape: np.full(shape, 7.0))
    with pytest.raises(UsageError, match="no other tables and pixels show this fault"):
        hide_table(flat)


def test_options_that_hold_a_path_are_left_out(padded: Seed) -> None:
    side = Runner("onnxruntime", {"python": "/home/johndoe/bin/python", "opt": "off"}, "1.0")
    assert str(hide_table(replace(padded, twin_side=side)).seed.twin_side) == "onnxruntime 1.0 opt=off"


@pytest.mark.parametrize("fault", ["wrong padding", "wrong bin"])
def test_the_folder_does_not_depend_on_the_data(fault: str, tmp_path: Path) -> None:
    """Two networks of the same kind, with other entries and on other images, give the same bytes."""
    found = []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        plain = lut.lower(random_net("mulut-sdy"))

        def drawn(table: Table, rng: np.random.Generator = rng) -> Table:
            return replace(table, values=rng.integers(-127, 128, table.values.shape).astype(np.int8))

        plan = Plan.build(plain.stages, {n: drawn(t) for n, t in plain.tables.items()})
        # The second stage is judged on what the first one gives: other pixels, too.
        bad = (PLAN_FAULTS | ENGINE_FAULTS)[fault](place(plan))
        assert bad is not None
        base = home(tmp_path, str(seed))
        twin: Any = f"lut:{saved(bad.plan, base / 'bad.lut.safetensors')}"
        image = picture(rng)
        hidden(plan, _foreign(bad, "all") if fault in ENGINE_FAULTS else twin, base, image)
        found.append({p.name: p.read_bytes() for p in sorted((base / "repro").iterdir())})
    assert found[0] == found[1]
