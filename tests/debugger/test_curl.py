"""The whole way with curl alone: from a wrong output to the fault, and to a repaired output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.debugger.running import Debugger, command
from twinnet import lut
from twinnet.demo.fault import plant_padding_fault
from twinnet.demo.upscaler import build
from twinnet.inputs import load_inputs
from twinnet.lut.file import LutFile, write
from twinnet.lut.plan import Plan
from twinnet.network import load_network

TABLE = "stage1.in_c0.b0"
ENTRY = 2
SHIFT = 40
NAMES = ("cmp", "sites", "worst", "show", "where", "inputs", "born", "cause", "patch", "rerun", "swap", "at")
NAMES += ("save", "png", "repro", "quit")


@pytest.fixture(scope="module")
def row() -> int:
    """A row that the first synthetic image visits often."""
    from twinnet.lut.reference import run_reference
    from twinnet.tables.view import planes_of

    network = load_network("twinnet.demo.upscaler:build")
    plan = lut.lower(lut.export(build()[0]))
    visits: dict[str, np.ndarray] = {}
    for plane in planes_of(load_inputs(network.signature).samples[0]):
        run_reference(plan, plane, visits=visits)
    return int(visits[TABLE].argmax())


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, row: int) -> Iterator[Path]:
    """Two files of tables: as they should be, and with one entry changed."""
    folder = tmp_path_factory.mktemp("tables")
    plan = lut.lower(lut.export(build()[0]))
    write(LutFile(plan), folder / "healthy.lut.safetensors")
    values = plan.tables[TABLE].values.copy()
    values[row, ENTRY] += SHIFT
    wrong = {**plan.tables, TABLE: replace(plan.tables[TABLE], values=values)}
    write(LutFile(Plan.build(plan.stages, wrong)), folder / "faulty.lut.safetensors")
    yield folder


def first_site(text: str) -> str:
    """The first row under the head of `worst`."""
    return text.splitlines()[1].split()[0]


def largest(text: str) -> tuple[float, list[int]]:
    """Maximum and place from the answer of `cmp`."""
    found = re.search(r"^max (\S+)(?: pixels)? at \[([\d, ]+)\]", text, re.M)
    assert found, text
    return float(found[1]), [int(n) for n in found[2].split(",")]


def output_max(text: str) -> tuple[float, float]:
    """Largest output difference before and after, from the answer of `rerun`."""
    cells = text.splitlines()[2].split()
    return float(cells[1]), float(cells[3])


def test_one_changed_table_entry_is_found_and_repaired(tables: Path, row: int, tmp_path: Path) -> None:
    words = [
        "-m",
        "twinnet.cli.main",
        "debug",
        "twinnet.demo.upscaler:build",
        "--samples",
        "1",
        "--port",
        "0",
    ]
    with command([*words, "--twin", f"lut:{tables / 'faulty.lut.safetensors'}"], tmp_path) as debugger:
        curl = debugger.curl
        # Where: a lookup, not the sums that inherit it.
        worst = curl("worst(3)")
        site = first_site(worst)
        assert re.fullmatch(rf"{re.escape(TABLE)}\.rot\d\.sr", site), worst
        assert worst.splitlines()[1].endswith("fail")
        # How much, and at which pixel.
        size, (plane, channel, y, x) = largest(curl(f"cmp('.{site}', size=4)"))
        assert size > SHIFT / 2
        assert channel == ENTRY
        # Why: the entry behind that pixel is not the network's.
        told = curl(f"at('{site}', {y}, {x}, channel={channel}, sample={plane})")
        for word in ("taps", "bin", "fraction", "vertices", "weight", "output"):
            assert word in told
        (marked,) = (line for line in told.splitlines() if "<- the network's table has" in line)
        assert f"row {row} " in marked
        entry, own = int(marked.split("<-")[0].split()[-1]), int(marked.split()[-1])
        assert entry - own == SHIFT
        node = ",".join(str(16 * int(n)) for n in marked.split("row")[0].split())
        assert f"the twin reads {entry} at entry ({node}), output {ENTRY}" in curl(f"cause('{site}')")
        # What if: that pixel as it should be, then all of them.
        fixed = (
            f"t = twin_trace['{site}'].copy()\n"
            f"t[{plane}, {channel}, {y}, {x}] = trace['{site}'][{plane}, {channel}, {y}, {x}]\n"
            f"patch('{site}', t)"
        )
        assert "after rerun()" in curl(fixed)
        before, now = output_max(curl("rerun()"))
        assert now <= before
        for r in range(4):
            curl(f"repair('{TABLE}.rot{r}.sr')")
        before, now = output_max(curl("rerun()"))
        assert before > 15
        # As far from the network as healthy tables are.
        assert now <= 2
        assert largest(curl("cmp('stage1')"))[0] == now
        again = curl("reset(); cmp('stage1')")
        assert largest(again)[0] == before


def test_tables_against_tables_end_up_equal(tables: Path, tmp_path: Path) -> None:
    words = ["-m", "twinnet.cli.main", "debug", str(tables / "healthy.lut.safetensors"), "--port", "0"]
    words += ["--shape", "image=1x1x24x32", "--samples", "1", "-q"]
    with command([*words, "--twin", f"lut-native:{tables / 'faulty.lut.safetensors'}"], tmp_path) as debugger:
        sites = json.loads(debugger.curl("worst(8)", "-H", "Accept: application/json"))["data"]["sites"]
        failing = [s["site"] for s in sites if s["status"] == "fail"]
        assert failing
        assert all(re.fullmatch(rf"{re.escape(TABLE)}\.rot\d\.sr", site) for site in failing)
        for site in failing:
            debugger.curl(f"swap('{site}')")
        answer = debugger.curl("rerun()")
        assert output_max(answer)[0] > 15
        assert "the outputs are equal" in answer
        assert debugger.curl("bool((dnn_output == lut_output).all())") == "True\n"
        assert (
            debugger.curl(f"bool((model_dbg['.{failing[0]}'] == lut_dbg['.{failing[0]}']).all())") == "True\n"
        )


def test_a_planted_padding_is_found_and_repaired(tmp_path: Path) -> None:
    network = load_network("twinnet.demo.network:build")
    sample = load_inputs(network.signature).samples[0]
    planted = plant_padding_fault(network, sample, tmp_path / "faulty.onnx")
    words = ["-m", "twinnet.cli.main", "debug", "twinnet.demo.network:build", "--samples", "1", "--port", "0"]
    with command([*words, "--twin", f"onnxruntime:{tmp_path / 'faulty.onnx'}"], tmp_path) as debugger:
        curl = debugger.curl
        site = first_site(curl("worst(3)"))
        assert planted in curl(f"where('{site}')")
        size, (n, channel, y, x) = largest(curl(f"cmp('{site}')"))
        assert size > 0.1
        assert "fail" in curl(f"born('{site}')")
        assert "pads" in curl(f"cause('{site}')")
        told = curl(f"at('{site}', {y}, {x}, channel={channel}, sample={n})")
        assert f"{site}[{n}, {channel}, {y}, {x}]" in told
        assert "is computed from" in curl(f"inputs('{site}')")
        # The network's tensor in the twin: nothing else is wrong, so the output is that of the network.
        assert "after rerun()" in curl(f"patch('{site}', trace['{site}'])")
        before, now = output_max(curl("rerun()"))
        assert before > 1e-3
        assert now < 1e-6
        # The other way round: the twin's tensor makes the network as wrong as the twin is.
        curl("reset()")
        curl(f"swap('{site}', side='network')")
        before, now = output_max(curl("rerun()"))
        assert before > 1e-3
        assert now < 1e-6
        picture = tmp_path / "site.png"
        curl(f"png('{site}')", "-H", "Accept: image/png", "-o", str(picture))
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert "saved" in curl(f"save('{site}')")


def test_the_answers_of_help_and_errors(tmp_path: Path) -> None:
    """The commands of the documentation are the commands there are."""
    from tests.debugger.running import thread

    with thread(folder=tmp_path) as debugger:
        assert_help(debugger)


def assert_help(debugger: Debugger) -> None:
    text = debugger.curl("help")
    for name in NAMES:
        assert re.search(rf"^{name}\b", text, re.M), name
    assert "did you mean conv.out?" in debugger.curl("cmp('con.out')")
    assert "ZeroDivisionError" in debugger.curl("1 / 0")
    assert "SyntaxError" in debugger.curl("1 +")
    assert debugger.curl("6 * 7") == "42\n"
