"""One assertion for tests that have no suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from twinnet.checking.options import CheckKeywords, spelt
from twinnet.errors import EngineError
from twinnet.progress import TRACES, quiet
from twinnet.result import Result, ResultSet

__all__ = ["CouldNotRun", "assert_same"]


class CouldNotRun(EngineError):
    """A side could not be converted, compiled or run: this says nothing about its numbers."""


@spelt(CheckKeywords)
def assert_same(
    network: Any,
    inputs: Any = None,
    twin: Any = "onnxruntime",
    *,
    strict: bool = False,
    out: str | Path | None = None,
    trust: bool = False,
    **keywords: Unpack[CheckKeywords],
) -> Result | ResultSet:
    """Assert that a twin computes what its network computes; the message of a failure is the one-screen report.

    Args:
        network: An `nn.Module`, a file, or `file.py:factory`, as for `twinnet.check`.
        inputs: Arrays or files; None for synthetic samples.
        twin: An engine spec (several separated by commas), a function, or another network.
        strict: Fail also if the data could not have shown a fault.
        out: Run folder to write.
        trust: Let code in a .pt2 file run.
        keywords: The other keywords of `twinnet.check`.

    Returns:
        The result of the check.

    Raises:
        AssertionError: The twin differs.
        CouldNotRun: A side could not run.

    >>> import torch
    >>> assert_same(torch.nn.ReLU(), torch.linspace(-1, 1, 8), "torch?dtype=float64").verdict
    'PASS'
    """
    __tracebackhide__ = True
    from twinnet.check import check

    with quiet(TRACES):
        result = check(network, inputs, twin, out=out, trust=trust, **keywords)
    if result.verdict == "FAIL":
        raise AssertionError(f"the twin differs\n{result!r}")
    if result.verdict == "ERROR":
        results = result.results if isinstance(result, ResultSet) else (result,)
        first = next(one for one in results if one.verdict == "ERROR")
        raise CouldNotRun(repr(result), stage=first.stage, log=first.log)
    if strict:
        results = result.results if isinstance(result, ResultSet) else (result,)
        if any(one.evidence == "weak" for one in results):
            raise AssertionError(f"this data could not have shown a fault\n{result!r}")
    return result
