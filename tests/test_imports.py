"""`import twinnet` and `twinnet --help` are quick: they load neither numpy nor torch nor an engine."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = "numpy torch onnx onnxruntime onnxscript ml_dtypes safetensors jinja2 PIL tomlkit filelock pydantic"


@pytest.mark.parametrize(
    "code",
    [
        "import twinnet",
        "import twinnet; twinnet.__version__; dir(twinnet)",
        "import twinnet.engines; twinnet.engines.parse_spec('onnxruntime', ['onnxruntime'])",
        "import twinnet.errors, twinnet.site, twinnet.result, twinnet.signature",
        "import twinnet.cli.main",
        *(
            f"import sys; sys.argv = {['twinnet', *words]!r}\nimport twinnet.cli.main as m\n"
            "try: m.main()\nexcept SystemExit: pass"
            for words in (["--help"], ["check", "--help"], ["--version"])
        ),
    ],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    ask = f"\nimport sys\nprint('loaded:', *(m for m in {HEAVY.split()!r} if m in sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code + ask], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == "loaded:"


def test_verbs_stay_verbs_whatever_was_imported_before() -> None:
    code = (
        "import twinnet, twinnet.check, twinnet.recording\n"
        "from twinnet.check import run_folder\n"
        "assert callable(twinnet.check) and callable(twinnet.record) and callable(twinnet.compare)\n"
        "from twinnet import check\nassert callable(check) and callable(run_folder)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_unknown_names_are_attribute_errors() -> None:
    import twinnet

    with pytest.raises(AttributeError, match="has no attribute 'chek'"):
        twinnet.chek  # noqa: B018
    assert {"check", "record", "compare", "Result"} <= set(dir(twinnet))
