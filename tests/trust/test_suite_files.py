"""Files of suites, climbs and bundles from somebody else: read or refused; no file of ours is sent with them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from twinnet.errors import EngineError, UsageError
from twinnet.files import parse_json
from twinnet.ladder.journal import Journal
from twinnet.report.bundle import run_session, write_bundle
from twinnet.result import InputsInfo, Result, ResultSet, SideInfo
from twinnet.suite.config import read_config
from twinnet.suite.expected import read_expected
from twinnet.suite.session import read_session
from twinnet.suite.shipping import pack_run, unpack_run


@pytest.mark.parametrize(
    "text",
    [
        "[tool]\ntwinnet = []",
        "[tool.twinnet]\nengines = 5",
        "[tool.twinnet]\nengines = [{spec = 3}]",
        "[tool.twinnet]\nmodel = 3",
        "[tool.twinnet]\nseed = -4",
        "[tool.twinnet]\nthreads = 0",
        "[tool.twinnet]\nmax-layers = -1",
        "[tool.twinnet]\ntime-limit = nan",
        "[tool.twinnet]\nunknown = 1",
        "a = " + "[" * 5000,
    ],
)
def test_settings_that_mean_nothing_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError):
        read_config(tmp_path)


def test_a_project_without_tools_has_no_settings(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("tool = 3")
    assert read_config(tmp_path).seed == 0


@pytest.mark.parametrize("data", [b"\xff\xfe", b"[" * 90_000, b'{"schema": 1, "results": [1]}', b"3"])
def test_a_damaged_session_or_climb_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "session.json").write_bytes(data)
    with pytest.raises(UsageError):
        read_session(tmp_path)
    (tmp_path / "rungs.json").write_bytes(
        data.replace(b'"schema": 1, "results": [1]', b'"key": "k", "rungs": {"a": 1}')
    )
    if data != b"3":
        with pytest.raises(UsageError):
            Journal(tmp_path, "k")


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a | b", b"only words"])
def test_a_damaged_list_of_expected_failures_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "expected.txt").write_bytes(data)
    with pytest.raises(UsageError):
        read_expected(tmp_path / "expected.txt")


def test_a_pattern_with_many_stars_ends(tmp_path: Path) -> None:
    (tmp_path / "expected.txt").write_text("*" + "a*" * 40 + "b | FAIL\n")
    (line,) = read_expected(tmp_path / "expected.txt")
    assert not line.fits("a" * 5000)


def test_a_damaged_run_from_a_cluster_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").write_text("{}" * 300)
    whole = pack_run(tmp_path / "run")
    unpack_run(whole, tmp_path / "out")
    assert (tmp_path / "out" / "result.json").read_text() == "{}" * 300
    for data in (b"", whole[:-9], whole[:45] + b"\xff" * 9 + whole[54:]):
        with pytest.raises(EngineError, match="damaged"):
            unpack_run(data, tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "nameless.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("x"), "data")
    nameless = (tmp_path / "nameless.zip").read_bytes().replace(b"x", b"\0")
    with pytest.raises(EngineError, match="holds a file"):
        unpack_run(nameless, tmp_path / "out")


DEEP = "[" * 100_000


def test_texts_that_are_nested_too_deeply_are_bad_ones() -> None:
    from twinnet.engines import find_engine
    from twinnet.inputs.sources import literal

    assert literal(DEEP) is None
    assert find_engine("command").starts({"description": DEEP}) == ("a program that is not described",)
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(DEEP)


def test_links_out_of_a_run_folder_are_not_packed(tmp_path: Path) -> None:
    secret, run = tmp_path / "secret", tmp_path / "run"
    secret.mkdir()
    (secret / "key").write_text("ours")
    (run / "traces").mkdir(parents=True)
    (run / "result.json").write_text("{}")
    (run / "report.html").symlink_to(secret / "key")
    (run / "traces" / "all").symlink_to(secret)
    made = write_bundle(tmp_path / "bundle.zip", {"schema": 1, "results": []}, {"run": run})
    with zipfile.ZipFile(made) as archive:
        assert archive.namelist() == ["session.json", "runs/run/result.json"]


def test_a_run_that_names_another_folder_is_not_sent(tmp_path: Path) -> None:
    from twinnet.report.json_file import dump_result

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    side = SideInfo("net", "onnxruntime")
    one = Result("PASS", side, side, InputsInfo(1, "given", False), folder=str(ours))
    for folder, result in ((ours, one), (theirs, ResultSet((one,)))):
        folder.mkdir()
        (folder / "result.json").write_text(dump_result(result))
    with pytest.raises(UsageError, match="names a run elsewhere"):
        run_session(theirs)
