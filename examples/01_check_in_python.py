"""Check a PyTorch module against ONNX Runtime. Nothing is configured, no tolerance is chosen."""

import torch

import twinnet
from model import build

network, _ = build()
images = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))

result = twinnet.check(network, images, "onnxruntime")
print(result)

# The same answer as data:
worst = max(result.pairs, key=lambda pair: pair.ratio or 0.0)
print(f"\nverdict {result.verdict}, evidence {result.evidence}")
print(f"closest to its limit: {worst.site.label}, {worst.ratio:.2f} of {worst.limit:g} noise floors")
assert result.verdict == "PASS"
