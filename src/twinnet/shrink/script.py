"""The body of `repro.py`: the source of these functions is copied into it unchanged, so they may use numpy only."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["beyond", "compare_sides", "expect_refusal", "normalised", "report", "turned"]


def beyond(observed: Any, expected: Any, allowed: Any) -> Any:
    """Where a tensor is further from the expected one than rounding can explain; NaN and Inf must match."""
    if not np.issubdtype(expected.dtype, np.floating):
        return (observed != expected) & (allowed == 0)
    largest = np.finfo(observed.dtype).max if np.issubdtype(observed.dtype, np.floating) else np.inf
    observed = observed.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        # A finite float64 value may overflow in the format that the tensor was computed in.
        expected = np.where(np.abs(expected) > largest, np.sign(expected) * np.inf, expected)
        settled = (np.isnan(observed) & np.isnan(expected)) | (observed == expected)
        finite = np.isfinite(observed) & np.isfinite(expected)
        return np.where(finite, np.abs(observed - expected) > allowed, ~settled)


def report(side: str, observed: Any, expected: Any, allowed: Any) -> bool:
    """Print how far one side is from what is expected; True if it is more than rounding."""
    if observed.shape != expected.shape:
        print(f"{side:8} has shape {observed.shape}, expected {expected.shape}")
        return True
    wrong = beyond(observed, expected, allowed)
    count = int(wrong.sum())
    if not count:
        print(f"{side:8} agrees: every element within what rounding can explain")
        return False
    with np.errstate(invalid="ignore"):
        off = np.abs(observed.astype(np.float64) - expected.astype(np.float64))
    off = np.where(np.isnan(off), np.inf, off)
    where = np.unravel_index(int(np.where(wrong, off, -1.0).argmax()), off.shape)
    print(f"{side:8} differs in {count} of {off.size} elements")
    at = tuple(int(i) for i in where)
    print(f"{'':8} worst at {at}: {observed[where]!r}, expected {expected[where]!r} +- {allowed[where]:.3g}")
    return True


def normalised(message: str, names: Any) -> str:
    """An error message with names, numbers and paths replaced, to compare it between networks."""
    import re

    for name in sorted(names, key=len, reverse=True):
        message = re.sub(r"(?<![\w.])" + re.escape(name) + r"(?![\w])", "NAME", message)
    message = re.sub(r"(/[\w.+-]+){2,}(:\d+)?", "PATH", message)
    message = re.sub(r"'[^']*'|\"[^\"]*\"", "NAME", message)
    message = re.sub(r"0x[0-9a-fA-F]+|-?\d+(\.\d+)?", "N", message)
    message = re.sub(r"\{[N,\s-]*\}|\[[N,\s-]*\]", "SHAPE", message)
    return " ".join(message.split())


def turned(array: Any, spec: dict[str, Any], name: str) -> Any:
    """A tensor in the form of the other side: axes permuted, reshaped, in real numbers or counted in steps."""
    perm, shape, steps = spec.get(name, (None, None, None))

    def along(values: Any) -> Any:
        rank = [-1 if a == steps["axis"] % array.ndim else 1 for a in range(array.ndim)]
        return np.array(values[0] if len(values) == 1 else np.reshape(values, rank), np.float64)

    if steps and not steps["integers"]:
        array = ((array - along(steps["zero"])) * along(steps["scale"])).astype(np.float32)
    array = array if perm is None else array.transpose(perm)
    array = array if shape is None else array.reshape(shape)
    if steps and steps["integers"]:
        ends = np.iinfo(steps["integers"])
        counted = np.rint(array / along(steps["scale"])) + along(steps["zero"])
        array = np.clip(counted, ends.min, ends.max).astype(ends.dtype)
    return np.asarray(array, order="C")


def compare_sides(spec: dict[str, Any], run: dict[str, Any], here: Any) -> int:
    """Run both sides as far as possible and compare: 1 while the fault exists, 0 when it is gone."""
    with np.load(here / "inputs.npz", allow_pickle=False) as data:
        inputs = {key: data[key] for key in data.files}
    with np.load(here / "expected.npz", allow_pickle=False) as data:
        stored = {key: data[key] for key in data.files}
    observed = {}
    for side in ("network", "twin"):
        what = spec[side]
        if what is None:
            continue
        if "file" not in what:
            with np.load(here / what["values"], allow_pickle=False) as data:
                observed[side] = data["observed"]
            continue
        feeds = {name: turned(inputs[key], what["input_form"], name) for name, key in what["inputs"].items()}
        results = run[what["engine"]](str(here / what["file"]), what["options"], feeds)
        observed[side] = turned(np.asarray(results[what["output"]]), what["output_form"], what["output"])
    fault = False
    for side, values in observed.items():
        own = "network_" if side == "network" and "network_expected" in stored else ""
        wrong = report(side, values, stored[own + "expected"], stored[own + "allowed"])
        fault = wrong if side == "twin" else fault
    print("the fault exists" if fault else "the fault is gone")
    return 1 if fault else 0


def expect_refusal(spec: dict[str, Any], run: dict[str, Any], here: Any) -> int:
    """Run the network: 1 while the engine refuses it with this message, 0 when it runs, 3 for anything else."""
    what = spec["twin"]
    with np.load(here / "inputs.npz", allow_pickle=False) as data:
        feeds = {name: data[key] for name, key in what["inputs"].items()}
    if not (here / what["file"]).is_file():
        raise FileNotFoundError(what["file"])
    __import__(what["package"])
    try:
        run[what["engine"]](str(here / what["file"]), what["options"], feeds)
    except Exception as error:  # any exception of the engine is the answer
        print(error)
        if normalised(str(error).strip(), spec["names"]) == spec["message"]:
            print("the engine refuses it: the fault exists")
            return 1
        print("the engine refuses it for another reason than the one recorded")
        return 3
    print("the engine runs it: the fault is gone")
    return 0
