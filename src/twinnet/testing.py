"""One assertion for tests that have no suite."""

from __future__ import annotations

from typing import Any

from twinnet.errors import EngineError
from twinnet.result import Result, ResultSet

__all__ = ["CouldNotRun", "assert_same"]


class CouldNotRun(EngineError):
    """A side could not be converted, compiled or run: this says nothing about its numbers."""


def assert_same(
    network: Any, inputs: Any = None, twin: Any = "onnxruntime", *, strict: bool = False, **options: Any
) -> Result | ResultSet:
    """Assert that a twin computes what its network computes; the message of a failure is the one-screen answer.

    Args:
        network: An `nn.Module`, a file, or `file.py:factory`, as for `twinnet.check`.
        inputs: Arrays or files; None for synthetic samples.
        twin: An engine spec (several separated by commas), a function, or another network.
        strict: Fail also if the data could not have shown a fault.
        options: The other keywords of `twinnet.check`.

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

    result = check(network, inputs, twin, **options)
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
