"""Tensors that trtexec exported as JSON, as .npy files: `trtexec_outputs.py outputs.json FOLDER`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np

__all__ = ["convert"]


def convert(source: Path, folder: Path) -> None:
    """One file for each tensor, named after it with everything but letters, digits and _ replaced by _."""
    for entry in json.loads(source.read_text()):
        shape = [int(n) for n in str(entry["dimensions"]).split("x") if n]
        values = np.asarray(entry["values"], np.float64)
        whole = all(float(v).is_integer() for v in values[:64]) and values.dtype.kind in "iu"
        name = re.sub(r"[^A-Za-z0-9_]", "_", entry["name"])
        np.save(folder / f"{name}.npy", (values if whole else values.astype(np.float32)).reshape(shape))


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
