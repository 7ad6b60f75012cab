"""Two ONNX files, and one file under two sets of options: no PyTorch network is needed."""

import tempfile
from pathlib import Path

import twinnet
from faulty import export

with tempfile.TemporaryDirectory() as folder:
    good, bad = export(Path(folder))
    optimised = twinnet.check(
        good, twin="onnxruntime?opt=all"
    )  # against opt=off, the default for ONNX networks
    changed = twinnet.check(good, twin=f"onnxruntime:{bad}")

print(optimised, changed, sep="\n\n")
assert (optimised.verdict, changed.verdict) == ("PASS", "FAIL")
