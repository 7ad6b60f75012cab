"""One network under every setting of an engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.needs import need_data, need_engine
from twinnet.checking.options import Options
from twinnet.engines import Spec, parse_spec
from twinnet.errors import UsageError
from twinnet.matrix import matrix_with, settings_of


def test_what_a_spec_states_stays() -> None:
    assert len(settings_of(Spec("litert"))) == 12
    assert [s.options["kernels"] for s in settings_of(parse_spec("litert?quantize=dynamic"))] == [
        "xnnpack",
        "builtin",
        "reference",
    ]
    # A file is as it is: only its kernels vary.
    assert len(settings_of(Spec("litert", {}, "a.tflite"))) == 3
    for nothing in ("torch", "onnxruntime?opt=off"):
        with pytest.raises(UsageError, match="leaves nothing to vary"):
            settings_of(parse_spec(nothing))


def test_kernels_of_a_published_int8_file_differ(tmp_path: Path) -> None:
    need_engine("litert")
    network, file = (need_data("uvq", f"aggregation_net{name}.tflite") for name in ("", "_int8"))
    made, results = matrix_with(Options(level="outputs"), network, None, f"litert:{file}", out=tmp_path)
    fast, plain, reference = made.settings
    assert [s.twin.partition(":")[0] for s in made.settings] == [
        "litert?kernels=xnnpack",
        "litert?kernels=builtin",
        "litert?kernels=reference",
    ]
    # Dynamic int8: XNNPACK rounds otherwise than LiteRT's own kernels, which agree with each other.
    assert fast.error != plain.error and plain.error == pytest.approx(reference.error, rel=1e-3)
    # Any of them is nearer than the network on another input; by how much is what the null baseline shows.
    assert made.null_snr is not None and all((s.snr or 0) > made.null_snr for s in made.settings)
    assert "(the network, input shuffled)" in made.table()
    assert len(results.results) == 3 and len(list(tmp_path.glob("*/result.json"))) == 3


def test_the_verb(tmp_path: Path) -> None:
    from twinnet.cli.main import app

    words = [
        "matrix",
        "examples/model.py:build",
        "-t",
        "onnxruntime",
        "-o",
        str(tmp_path),
        "--json",
        "--samples",
        "1",
    ]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    told = json.loads(shown.output)
    assert [s["twin"].partition("=")[2] for s in told["settings"]] == ["off", "basic", "extended", "all"]
    assert told["verdict"] == "PASS" and told["null_error"] > 100 * max(s["error"] for s in told["settings"])
