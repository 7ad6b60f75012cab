"""`twinnet suite` and the file of expected failures, without pytest's own command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.suite.project import outcomes, write_net
from twinnet.cli.main import app
from twinnet.errors import UsageError
from twinnet.suite.alone import run_suite
from twinnet.suite.expected import accept, compared, fitting_none, read_expected
from twinnet.suite.groups import grouped, normalised
from twinnet.suite.outcome import Case, Outcome
from twinnet.suite.session import Listener, Session, read_session

CASE = Case("net", "iree", "default", "iree")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TWINNET_CACHE", str(tmp_path / "cache"))
    return folder


def test_exit_codes(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        run_suite([])
    (place / "models").mkdir()
    with pytest.raises(UsageError, match="no model in"):
        run_suite([])
    write_net(place)
    (place / "conftest.py").write_text("raise RuntimeError('tests of the project are not loaded')")
    words = ["--twin-engines=onnxruntime", "-kfull_model"]
    assert run_suite([*words, "--twin-bundle=b.zip"]) == 0 and (place / "b.zip").exists()
    assert (
        run_suite(words, quiet=True) == 0 and outcomes(place)["net_full_model-onnxruntime-default"]["reused"]
    )
    (place / "models/broken.onnx").write_bytes(b"x")
    assert run_suite(words) == 3
    (place / "twin.py").write_text("import numpy\ndef zeros(x):\n    return numpy.zeros((1, 5), 'float32')\n")
    assert run_suite(["--twin-engines=callable:twin.py:zeros", "-kfull_model"]) == 1
    said = capfd.readouterr().out
    again = "twinnet suite --engines callable:twin.py:zeros -k net_full_model-callable-default"
    assert f"again    {again}\n" in said
    pasted = CliRunner().invoke(app, again.split()[1:])
    assert pasted.exit_code == 1, pasted.output
    with pytest.raises(UsageError, match="no case was selected"):
        run_suite([*words, "-knothing"])


def test_a_finished_case_is_announced_at_once(tmp_path: Path) -> None:
    class Told(Listener):
        def __init__(self) -> None:
            self.names: list[str] = []

        def finished(self, outcome: Outcome) -> None:
            self.names.append(outcome.name)

    told = Told()
    session = Session(tmp_path, ("twinnet", "suite"), (told,))
    session.finished(Outcome(CASE, "FAIL", message="output <b>differs</b>", expected="no"))
    session.finished(
        Outcome(replace(CASE, layer="Conv_0"), "ERROR", "compile", message="no | kernel\nfor it")
    )
    assert told.names == ["net_full_model-iree-default", "net_layer_Conv_0-iree-default"]
    session.write()
    data, back = read_session(tmp_path)
    assert data["schema"] == 1 and back == list(session.outcomes.values())
    assert "output &lt;b&gt;differs" in (tmp_path / "index.html").read_text()
    (tmp_path / "session.json").write_text('{"schema": 9, "results": []}')
    with pytest.raises(UsageError, match="newer"):
        read_session(tmp_path)


def test_accepting(tmp_path: Path) -> None:
    file = tmp_path / "expected.txt"
    conv = Outcome(replace(CASE, layer="Conv_0"), "ERROR", "compile", message="no | kernel\nfor it")
    mul, add = (Outcome(replace(CASE, layer=name), "PASS") for name in ("Mul_1", "Add_2"))
    file.write_text(
        "# ours\n\nnet_layer_Mul_1-iree-default | FAIL | was wrong\nnet_layer_Add* | FAIL | pattern\n"
        "other_* | FAIL | did not run\n"
    )
    assert [compared(o, read_expected(file)).expected for o in (conv, mul, add)] == ["no", "no", "no"]
    said = accept(file, [conv, mul, add])
    assert [line.split()[0] for line in said] == ["left", "removed", "added"]
    assert file.read_text() == (
        "# ours\n\nnet_layer_Add* | FAIL | pattern\nother_* | FAIL | did not run\n"
        "net_layer_Conv_0-iree-default | ERROR:compile | no / kernel for it\n"
    )
    assert compared(conv, read_expected(file)).good
    advised = replace(conv, case=replace(CASE, layer="Div_3"), message="not taken\n  give a file")
    accept(tmp_path / "fresh.txt", [advised])
    assert read_expected(tmp_path / "fresh.txt")[0].reason == "not taken"
    assert [e.pattern for e in fitting_none(read_expected(file), [conv, mul, add])] == ["other_*"]
    # It fails in another way now; a pattern that is wrong about one case gets a line before it.
    changed = replace(conv, verdict="FAIL", step="", message="differs")
    added = replace(add, verdict="ERROR", step="run", message="stopped")
    accept(file, [changed, added])
    expected = read_expected(file)
    assert [e.kind for e in expected] == ["ERROR:run", "FAIL", "FAIL", "FAIL"]
    assert compared(changed, expected).good and compared(added, expected).good
    file.write_text("net_layer_Conv_0-* | ERROR:compile or FAIL | depends on the processor\n")
    assert compared(conv, read_expected(file)).good and compared(changed, read_expected(file)).good
    assert accept(file, [conv, changed]) == []
    file.write_text("net_* | FAIL or PASS\n")
    with pytest.raises(UsageError, match="is not an expected failure"):
        read_expected(file)


def test_what_the_user_reads_of_lines_that_fit_nothing(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="no session in"):
        read_session(place / "runs/suite")
    write_net(place)
    lines = "net_layer_*-onnxruntime-* | FAIL | they pass\nnett_* | FAIL | a typo\n"
    (place / "expected-failures.txt").write_text(lines)
    assert run_suite([]) == 1
    assert "note     expected-failures.txt:2 fits no case: nett_*\n" in capfd.readouterr().out
    assert run_suite(["-kfull_model"]) == 0, "only some have run"
    assert "fits no case" not in capfd.readouterr().out
    assert run_suite([]) == 1
    said = CliRunner().invoke(app, ["suite", "accept"]).output
    assert "passes: edit the pattern" in said and "nothing to change" in said
    assert (place / "expected-failures.txt").read_text() == lines


def test_groups() -> None:
    words = ["m.mlir:{}:7: error: op 'onnx.{}' not legal", "output differs by {}e-2"]
    found = [
        Outcome(replace(CASE, layer=f"GRU_{i}"), "ERROR", "compile", message=words[0].format(i, i))
        for i in range(3)
    ]
    found.append(Outcome(CASE, "FAIL", message=words[1].format(4)))
    found.append(Outcome(replace(CASE, layer="Relu_9"), "PASS"))
    groups = grouped(found)
    assert [(g.kind, len(g.outcomes)) for g in groups] == [("ERROR:compile", 3), ("FAIL", 1)]
    assert normalised("at /tmp/a/b.py: 0xff12") == "at PATH: HEX"


def test_the_summary_says_the_first_line_of_a_message() -> None:
    from twinnet.suite.summary import summary_lines

    said = "\n".join(summary_lines([Outcome(CASE, "ERROR", "import", message="not taken\n  give a file")]))
    assert "ERROR:import: not taken\n" in said and "give a file" not in said


def test_settings(place: Path) -> None:
    from twinnet.suite.config import read_config

    (place / "pyproject.toml").write_text(
        """
[tool.twinnet]
models = ["nets", "more"]
chips = ["a1", "b2"]
time-limit = 600
engines = [
  "onnxruntime?opt=off",
  "command?chip={chip}&on={hw_type}:vendor.toml",
  {spec = "iree", name = "fast", models = "big*", layers = false, time-limit = {run = 5, compile = 900}},
]
[tool.twinnet.model."*"]
samples = 3
[tool.twinnet.model."big*"]
shape = {x = "1x3"}
"""
    )
    config = read_config(place, hw_type="board")
    assert [f"{e.engine}-{e.options}" for e in config.engines] == [
        "onnxruntime-opt-off",
        "command-chip-a1-on-board-a1-board",
        "command-chip-b2-on-board-b2-board",
        "iree-fast",
    ]
    assert config.models == (place / "nets", place / "more")
    assert [config.limits_of(e.spec).at("run") for e in config.engines] == [600, 600, 600, 5]
    assert config.limits_of("iree").at("compile the network") == 900
    assert (config.of_model("big1").samples, config.of_model("big1").shape) == (3, {"x": "1x3"})
    assert config.of_model("small").shape == {}
    chosen = read_config(place, engines="iree,torch?dtype=float64", hw_type="x").engines
    assert [e.spec for e in chosen] == ["iree", "torch?dtype=float64"]
    for wrong, why in (
        ("seed = 'x'", "seed"),
        ("sead = 1", "no setting 'sead'"),
        ("engines = [1]", "engines"),
        ("engines = ['onnxruntime', 'onxruntime']", "did you mean onnxruntime"),
    ):
        (place / "pyproject.toml").write_text(f"[tool.twinnet]\n{wrong}\n")
        with pytest.raises(UsageError, match=why):
            read_config(place)
