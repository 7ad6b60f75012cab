"""A twin with a fault in one layer: the answer names that layer, not the many that inherit its error."""

import tempfile
from pathlib import Path

import twinnet
from faulty import export
from model import build

with tempfile.TemporaryDirectory() as folder:
    _, bad = export(Path(folder))
    result = twinnet.check(build(), twin=f"onnxruntime:{bad}")

print(result)
(finding,) = result.findings
print(f"\nfault in {finding.site.module} ({finding.site.source})")
assert finding.site.module == "blocks.0.norm"
