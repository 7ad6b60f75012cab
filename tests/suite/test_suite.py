"""Models become cases; cases get verdicts; what has not changed is not run again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import onnx
import pytest

from tests.onnx_edit import save
from tests.suite.project import OUR_PLUGIN, names, outcomes, project, small_net, write_net
from twinnet.suite.models import file_hash

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[2]
PLUGINS = [f"-p{name}" for name in ("twinnet.suite.plugin", "no:cacheprovider", "no:unraisableexception")]
"""Ours, and none that looks through all objects of this process at the end."""
LAYERS = ["Conv_0", "Relu_1", "Relu_2", "Reshape_3", "MatMul_4"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TWINNET_CACHE_SINCE", raising=False)
    for name, value in OUR_PLUGIN.items():
        monkeypatch.setenv(name, value)


def _run(pytester: pytest.Pytester, *words: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*PLUGINS, *words)


def test_a_model_becomes_a_case_for_itself_and_one_for_each_layer(pytester: pytest.Pytester) -> None:
    folder = project(pytester, 'engines = ["onnxruntime", "onnxruntime?opt=off"]')
    shutil.copy(ROOT / "examples/models/example-matmul.onnx", folder / "models")
    found = names(_run(pytester, "--collect-only", "-q"))
    assert "example-matmul_full_model-onnxruntime-default" in found
    assert "example-matmul_layer_MatMul_0-onnxruntime-opt-off" in found
    # Nodes that only compute a shape are no layers.
    assert [n for n in found if n.startswith("net_") and n.endswith("-default")] == [
        "net_full_model-onnxruntime-default",
        *(f"net_layer_{layer}-onnxruntime-default" for layer in LAYERS),
    ]
    assert names(_run(pytester, "--collect-only", "-q", "-k", "MatMul and opt-off and net")) == [
        "net_layer_MatMul_4-onnxruntime-opt-off"
    ]


def test_everything_passes_identical_layers_run_once_and_nothing_is_done_twice(
    pytester: pytest.Pytester,
) -> None:
    folder = project(pytester, a=0, b=1)
    _run(pytester).assert_outcomes(passed=10, skipped=2)
    first = outcomes(folder)
    assert first["a_layer_Relu_1-onnxruntime-default"]["covers"] == ["Relu_2"]
    assert first["a_layer_Relu_2-onnxruntime-default"]["same_as"] == "Relu_1"
    assert not any(one["reused"] for one in first.values())
    inputs = json.loads(
        (folder / "runs/suite/runs/a_layer_Relu_1-onnxruntime-default/result.json").read_text()
    )
    assert inputs["inputs"]["samples"] == 2, "the activations of both layers"

    again = _run(pytester)
    again.assert_outcomes(passed=10, skipped=2)
    again.stdout.fnmatch_lines(["*12 cases, 10 with nothing changed, 0 artefacts made"])
    assert all(one["reused"] for one in outcomes(folder).values() if one["verdict"] == "PASS")

    save(small_net(7), folder / "models/b.onnx")
    _run(pytester).assert_outcomes(passed=10, skipped=2)
    ran = {name for name, one in outcomes(folder).items() if one["verdict"] == "PASS" and not one["reused"]}
    assert ran == {name for name in first if name.startswith("b_")} - {"b_layer_Relu_2-onnxruntime-default"}

    forced = _run(pytester, "--recompute-cache", "-k", "a_full_model")
    forced.assert_outcomes(passed=1, deselected=11)
    assert not outcomes(folder)["a_full_model-onnxruntime-default"]["reused"]


@pytest.mark.parametrize("in_ci", [True, False])
def test_a_wrong_layer_fails_alone_and_says_what_to_do(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, in_ci: bool
) -> None:
    folder = project(pytester, 'engines = ["planted?at=flat"]')
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    monkeypatch.setenv("CI", "true") if in_ci else monkeypatch.delenv("CI", raising=False)
    done = _run(pytester, "--junitxml=j.xml", "--twin-bundle=all.zip")
    done.assert_outcomes(passed=3, skipped=1, failed=2)
    found = outcomes(folder)
    bad = [name for name, one in found.items() if one["verdict"] == "FAIL"]
    assert bad == ["net_full_model-planted-at-flat", "net_layer_Reshape_3-planted-at-flat"]
    run = f"runs/suite/runs/{bad[1]}"
    done.stdout.fnmatch_lines(
        [f"look     twinnet show {run}", f"check    twinnet check {run}/layer.onnx --twin*"]
    )
    done.stdout.fnmatch_lines(
        ["net  planted-at-flat  full FAIL, layers 4 of 5 (1 by identical ones), first bad Reshape_3*"]
    )
    assert "born in" in done.stdout.str()
    assert done.stdout.str().count(f"twinnet repro {run}") == 1, "a command is said once"
    done.stdout.fnmatch_lines([f"FAILED models/net.onnx::{bad[1]} - FAIL*"])
    cut = [folder / run / name for name in ("layer.onnx", "inputs.safetensors")]
    assert all(path.exists() for path in cut)
    for file in ("j.xml", "runs/suite/junit.xml"):
        root = ET.parse(folder / file).getroot()
        assert len(root.findall(".//failure")) == 2 and not root.findall(".//error")
    page = (folder / "runs/suite/index.html").read_text()
    assert f'href="runs/{bad[1]}/report.html"' in page and "Reshape_3" in page
    with zipfile.ZipFile(folder / "all.zip") as archive:
        session = json.loads(archive.read("session.json"))
        assert session["schema"] == 1 and len(session["results"]) == 6
        assert f"runs/{bad[0]}/result.json" in archive.namelist()


def test_a_step_that_cannot_run_is_an_error_with_its_step(pytester: pytest.Pytester) -> None:
    folder = project(pytester, 'engines = ["planted?at=y&how=refuse"]')
    (folder / "models/broken.onnx").write_bytes(b"not a model")
    done = _run(pytester, "--junitxml=j.xml")
    done.assert_outcomes(passed=3, skipped=1, errors=3)
    found = outcomes(folder)
    assert found["broken_full_model"]["step"] == "import"
    case = found["net_layer_MatMul_4-planted-at-y-how-refuse"]
    assert (case["verdict"], case["step"]) == ("ERROR", "compile")
    assert "no kernel for MatMul" in case["message"]
    assert len(ET.parse(folder / "j.xml").getroot().findall(".//error")) == 3
    done.stdout.fnmatch_lines(["*2 x planted ERROR:compile: planted could not compile*"])


def test_an_error_is_known_the_next_time_unless_it_was_an_accident(pytester: pytest.Pytester) -> None:
    folder = project(pytester, 'engines = ["planted?at=y&how=refuse", "planted?at=y&how=wait"]')
    for _ in range(2):
        _run(pytester, "-k", "full_model").assert_outcomes(errors=2, deselected=10)
    found = outcomes(folder)
    refused, late = (found[f"net_full_model-planted-at-y-how-{how}"] for how in ("refuse", "wait"))
    assert (refused["reused"], refused["accident"]) == (True, "")
    assert (late["reused"], late["accident"], late["step"]) == (False, "time", "compile")


def test_time_limits_by_step(pytester: pytest.Pytester) -> None:
    folder = project(pytester, 'engines = [{spec = "onnx-reference", time-limit = {run = 0}}]')
    _run(pytester, "-k", "full_model").assert_outcomes(errors=1, deselected=5)
    (one,) = outcomes(folder).values()
    assert (one["verdict"], one["step"], one["accident"]) == ("ERROR", "run", "time")
    _run(pytester, "-k", "full_model", "--twin-time-limit=run=600,compile=0").assert_outcomes(
        passed=1, deselected=5
    )
    done = _run(pytester, "--twin-time-limit=judge=3")
    assert done.ret == pytest.ExitCode.USAGE_ERROR and "'judge' is not a step" in done.stderr.str()


def test_expected_failures(pytester: pytest.Pytester) -> None:
    folder = project(pytester, 'engines = ["planted?at=flat"]')
    file = folder / "expected-failures.txt"
    file.write_text(
        "# known\n*_full_model-* | FAIL | a fault of the engine | https://example.org/1\n"
        "net_layer_Reshape_3-* | ERROR:compile | was refused\nnet_layer_Conv_0-planted-at-flat | FAIL\n"
    )
    done = _run(pytester)
    done.assert_outcomes(passed=2, skipped=1, xfailed=1, failed=2)
    done.stdout.fnmatch_lines(["*net_layer_Conv_0-planted-at-flat: PASS, expected FAIL"])
    done.stdout.fnmatch_lines(["*net_layer_Reshape_3-planted-at-flat: FAIL, expected ERROR:compile"])
    from twinnet.suite.expected import accept
    from twinnet.suite.session import read_session

    said = accept(file, read_session(folder / "runs/suite")[1])
    assert len(said) == 2, said
    text = file.read_text()
    assert text.startswith("# known\n*_full_model-* | FAIL") and "Conv_0" not in text
    _run(pytester).assert_outcomes(passed=3, skipped=1, xfailed=2)
    file.write_text("nonsense\n")
    assert "is not an expected failure" in _run(pytester).stderr.str()


def test_random_activations_on_request(pytester: pytest.Pytester) -> None:
    project(pytester)
    found = names(_run(pytester, "--collect-only", "-q", "--with-random"))
    assert "net_layer_Conv_0-onnxruntime-default-random" in found and len(found) == 11
    _run(pytester, "--with-random", "-k", "random and Conv").assert_outcomes(passed=1, deselected=10)


def test_fixtures_for_tests_of_your_own(pytester: pytest.Pytester) -> None:
    project(pytester, 'engines = ["onnxruntime"]')
    pytester.makepyfile(
        test_own="""
        import numpy as np

        def test_close(twin_network, twin_inputs, twin_reference_results, twin_results, twin_artefact):
            assert list(twin_results) == list(twin_reference_results)
            assert set(twin_inputs) == {s.name for s in twin_network.signature.inputs}
            for name in twin_results:
                np.testing.assert_allclose(twin_results[name], twin_reference_results[name], rtol=1e-4, atol=1e-5)
            assert twin_artefact == ()

        def test_names(twin_case, twin_chip, twin_hw_type):
            assert twin_case.engine == "onnxruntime" and twin_chip == twin_hw_type == ""
        """
    )
    done = _run(pytester, "test_own.py", "-v")
    done.assert_outcomes(passed=12)
    assert "test_close[net_layer_Reshape_3-onnxruntime-default]" in done.stdout.str()


def test_models_join_the_tests_of_a_project(pytester: pytest.Pytester) -> None:
    folder = project(pytester)
    (folder / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n[tool.twinnet]\nengines = ["onnxruntime"]\n'
    )
    (folder / "tests").mkdir()
    (folder / "tests/test_a.py").write_text("def test_a():\n    pass\n")
    assert len(names(_run(pytester, "--collect-only", "-q"))) == 7
    assert len(names(_run(pytester, "--collect-only", "-q", "tests"))) == 1
    assert len(names(_run(pytester, "--collect-only", "-q", "models/net.onnx"))) == 6


def test_a_suite_in_a_part_of_a_repository(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest's settings, and so its rootdir, are further up."""
    (pytester.path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '-ra'\n")
    part = pytester.mkdir("part")
    write_net(part)
    (part / "pyproject.toml").write_text("[tool.twinnet]\nengines = ['onnxruntime']\n")
    assert names(_run(pytester, "--collect-only", "-q")) == []
    monkeypatch.chdir(part)
    _run(pytester, "-k", "Relu").assert_outcomes(passed=1, skipped=1, deselected=4)
    assert len(outcomes(part)) == 2


def test_pytest_finds_the_plugin_by_itself() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["entry-points"]["pytest11"] == {"twinnet": "twinnet.suite.plugin"}


def test_without_a_suite_the_plugin_is_inert(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_a():\n    pass\n")
    code = (
        "import pytest, sys\n"
        "code = pytest.main(['-q'])\n"
        "heavy = [m for m in ('numpy', 'torch', 'onnx', 'pydantic', 'twinnet.suite.config') if m in sys.modules]\n"
        "sys.exit(str(heavy) if heavy else int(code))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_settings_are_wrong_usage(pytester: pytest.Pytester) -> None:
    project(pytester, 'engine = ["onnxruntime"]')
    done = _run(pytester)
    assert done.ret == pytest.ExitCode.USAGE_ERROR and "has no setting 'engine'" in done.stderr.str()
    write_net(pytester.path)
    (pytester.path / "pyproject.toml").write_text('[tool.twinnet]\nengines = ["x?chip={chip}"]\n')
    assert "needs a chip" in _run(pytester).stderr.str()


@pytest.mark.parametrize("busybox", [False, True])
def test_cases_on_a_board(
    busybox: bool, pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.boards import start_board
    from twinnet.remote.ssh import CONFIG

    board = start_board(tmp_path / "board", busybox=busybox)
    monkeypatch.setenv(CONFIG, str(board.config))
    try:
        folder = project(pytester)
        done = _run(pytester, "--twin-addr=board", "-k", "MatMul")
        done.assert_outcomes(passed=1, deselected=5)
        (one,) = outcomes(folder).values()
        result = json.loads((Path(folder) / one["folder"] / "result.json").read_text())
        assert "ssh://board" in result["twin"]["spec"], result["twin"]
    finally:
        board.stop()


def _again(pytester: pytest.Pytester, folder: Path, name: str) -> tuple[str, bool]:
    """Verdict of a case, and whether it was reused."""
    _run(pytester, "-k", "full_model")
    found = outcomes(folder)[name]
    return found["verdict"], found["reused"]


def test_what_a_function_computes_is_never_taken_from_an_earlier_run(pytester: pytest.Pytester) -> None:
    folder, case = (
        project(pytester, 'engines = ["callable:twin.py:twin"]'),
        "net_full_model-callable-default",
    )
    (folder / "factor.txt").write_text("1")
    (folder / "twin.py").write_text(
        "from pathlib import Path\n"
        "import numpy as np, onnxruntime as ort\n"
        "HERE = Path(__file__).parent\n"
        "def twin(x):\n"
        "    session = ort.InferenceSession(HERE / 'models/net.onnx')\n"
        "    return session.run(None, {'x': x})[0] * np.float32((HERE / 'factor.txt').read_text())\n"
    )
    assert _again(pytester, folder, case) == ("PASS", False)
    (folder / "factor.txt").write_text("2")
    assert _again(pytester, folder, case) == ("FAIL", False)


def test_weights_beside_a_twin_that_change_without_a_trace(pytester: pytest.Pytester) -> None:
    folder, case = (
        project(pytester, 'engines = ["onnxruntime:twin.onnx"]'),
        "net_full_model-onnxruntime-default",
    )
    beside = {"save_as_external_data": True, "location": "twin.data", "size_threshold": 0}
    onnx.save(small_net(), str(folder / "twin.onnx"), **beside)
    assert _again(pytester, folder, case) == ("PASS", False)
    assert _again(pytester, folder, case) == ("PASS", True)
    data, before = folder / "twin.data", (folder / "twin.data").stat()
    weights = np.frombuffer(data.read_bytes()[: 4 * 108], np.float32)
    data.write_bytes((-weights).tobytes() + data.read_bytes()[4 * 108 :])
    os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert _again(pytester, folder, case) == ("FAIL", False)


def test_a_file_that_is_changed_and_dated_back_has_another_hash(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"one")
    first, before = file_hash(file), file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file_hash(file) != first
