"""`import twinnet` and `twinnet --help` are quick: they load neither numpy nor torch nor an engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import need_engine
from tests.onnx_edit import make_model, save

HEAVY = "numpy torch onnx onnxruntime onnxscript ml_dtypes safetensors jinja2 PIL tomlkit filelock pydantic"


@pytest.mark.parametrize(
    "code",
    [
        "import twinnet",
        "import twinnet; twinnet.__version__; dir(twinnet)",
        "import twinnet.engines; twinnet.engines.parse_spec('onnxruntime?opt=off:net.onnx')",
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


def test_a_check_loads_what_it_needs_only(tmp_path: Path) -> None:
    """PyTorch's compilers and symbols take as long to import as all the rest of a check."""
    need_engine("onnxruntime")
    from onnx import helper

    nodes = [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("Sigmoid", ["y"], ["z"])]
    save(make_model(nodes, {"x": (1, 3, 200, 200)}, ["z"]), tmp_path / "net.onnx")
    code = (
        "import twinnet, sys\nassert twinnet.check('net.onnx', None, 'onnxruntime', out='run').verdict == 'PASS'\n"
        "unwanted = 'sympy torch._dynamo torch.onnx onnx.reference onnxscript scipy openvino matplotlib'\n"
        "print(*(m for m in unwanted.split() if m in sys.modules))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


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
