"""Run an ONNX file under one execution provider of ONNX Runtime; used by the descriptions of such providers.

    run_provider.py network.onnx --provider=CPUExecutionProvider --in=x=x.npy --out=y=y.npy

A missing provider is an error: ONNX Runtime itself would silently run on the CPU.
"""

from __future__ import annotations

import argparse
import os
import sys

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it would call home
import onnxruntime

__all__ = ["main"]


def main() -> int:
    """Run once; exit code 2 without the provider."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="version", version=onnxruntime.__version__)
    parser.add_argument("model")
    parser.add_argument("--provider", required=True)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--in", dest="inputs", action="append", default=[])
    parser.add_argument("--out", dest="outputs", action="append", default=[])
    given = parser.parse_args()
    there = onnxruntime.get_available_providers()
    if given.provider not in there:
        print(f"error: this onnxruntime has no {given.provider}, only {', '.join(there)}", file=sys.stderr)
        return 2
    options = dict(text.split("=", 1) for text in given.option)
    session = onnxruntime.InferenceSession(given.model, providers=[(given.provider, options)])
    feeds = {}
    for text in given.inputs:
        name, _, file = text.rpartition("=")
        feeds[name] = np.load(file, allow_pickle=False)
    wanted = [text.rpartition("=") for text in given.outputs]
    for (_, _, file), array in zip(wanted, session.run([n for n, _, _ in wanted], feeds), strict=True):
        np.save(file, np.asarray(array))
    return 0


if __name__ == "__main__":
    sys.exit(main())
