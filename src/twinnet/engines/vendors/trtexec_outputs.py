"""Convert tensors that trtexec exported as JSON to .npy files: `trtexec_outputs.py outputs.json FOLDER`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np

__all__ = ["convert"]


def convert(source: Path, folder: Path) -> None:
    """One file for each tensor, named after it with everything but letters, digits and _ replaced by _.

    JSON does not hold types: values are written as float64 and later cast to the network's types.
    """
    for entry in json.loads(source.read_text(encoding="utf-8")):
        shape = [int(n) for n in str(entry["dimensions"]).split("x") if n]
        name = re.sub(r"[^A-Za-z0-9_]", "_", entry["name"])
        np.save(folder / f"{name}.npy", np.asarray(entry["values"], np.float64).reshape(shape))


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
