"""Twins with small error everywhere: nobody is accused, and who contributes is ranked."""

from __future__ import annotations

import pytest

import twinnet
from tests.narrow import Files
from twinnet.result import Result


def _twin(narrow: Files, name: str) -> str:
    files = {"half": narrow.half, "int8": narrow.int8, "int8 opt=off": narrow.int8}
    if name not in files:
        return name
    return f"onnxruntime?opt=off:{files[name]}" if name.endswith("off") else str(files[name])


@pytest.mark.parametrize(
    ("network", "twin"),
    [
        ("module", "torch?dtype=float16"),
        ("module", "torch?dtype=bfloat16"),
        ("module", "half"),
        ("module", "int8"),
        ("file", "half"),
        ("file", "int8 opt=off"),
    ],
)
def test_contributors_are_ranked_and_never_accused(narrow: Files, network: str, twin: str) -> None:
    subject = narrow.module if network == "module" else str(narrow.network)
    result = twinnet.check(subject, narrow.image, _twin(narrow, twin))
    assert isinstance(result, Result)
    assert (result.verdict, result.findings) == ("PASS", ()), repr(result)
    assert result.coverage.paired >= 6
    impacts = [c.impact for c in result.contributors]
    assert len(impacts) >= 5 and all(i is not None and i > 0 for i in impacts)
    assert impacts == sorted(impacts, reverse=True)  # pyright: ignore[reportArgumentType]
    shares = [c.born_share or 0.0 for c in result.contributors]
    assert 0.1 < max(shares) < 3 and sum(shares) > 0.5
    assert not any(c.cause for c in result.contributors)


def test_a_twin_of_the_same_precision_has_no_contributors(narrow: Files) -> None:
    result = twinnet.check(narrow.module, narrow.image, "onnxruntime")
    assert isinstance(result, Result) and result.contributors == ()
