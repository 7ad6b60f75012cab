"""The package's own names."""

from __future__ import annotations

import subprocess
import sys


def test_a_function_is_not_hidden_by_the_module_of_its_name() -> None:
    code = "import twinnet; from twinnet.check import CheckOptions; import twinnet.check; assert callable(twinnet.check)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys, twinnet; assert not {'numpy', 'torch', 'onnx', 'onnxruntime'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
