"""Twins with small error everywhere: nobody is accused, and who contributes is ranked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

import twinnet
from tests.narrow import Files
from twinnet.blame import collect
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


# -- several samples ---------------------------------------------------------------------------------------------------


class Rare(nn.Module):
    """A branch that wakes up only at large values, and is then most of the output."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.always, self.rare, self.head = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        awake = torch.relu(image - 4)
        return self.head(torch.tanh(self.always(image))) + 50 * self.rare(awake).sum(-1, keepdim=True) * (
            awake.amax() > 0
        )


QUIET = [torch.rand(4, 16, generator=torch.Generator().manual_seed(k)) for k in range(2)]
LOUD = 4 + torch.rand(4, 16, generator=torch.Generator().manual_seed(5))


def _samples(order: Sequence[torch.Tensor]) -> list[dict[str, Any]]:
    return [{"image": image.numpy()} for image in order]


def _checked(order: Sequence[torch.Tensor], **options: Any) -> Result:
    result = twinnet.check(Rare().eval(), _samples(order), "torch?dtype=float16", **options)
    assert isinstance(result, Result) and result.inputs.samples == len(order)
    return result


def _impacts(result: Result) -> dict[str, float | None]:
    return {c.site.tensor: c.impact for c in result.contributors}


def _of(result: Result, module: str) -> list[str]:
    return [c.site.tensor for c in result.contributors if c.site.module == module]


def test_a_contributor_of_the_last_sample_is_not_missed() -> None:
    first, loud, every = _checked(QUIET[:1]), _checked([LOUD]), _checked([*QUIET, LOUD])
    assert _of(loud, "rare") and not _of(first, "rare")
    (rare,) = _of(every, "rare")
    assert _impacts(every)[rare] == _impacts(loud)[rare]
    # Each with the largest of its impacts, whatever comes first.
    singles = [_impacts(_checked([image])) for image in (*QUIET, LOUD)]
    largest = {t: max(i.get(t) or 0.0 for i in singles) for i in singles for t in i}
    assert _impacts(every) == largest == _impacts(_checked([LOUD, *QUIET]))
    impacts = [c.impact or 0.0 for c in every.contributors]
    assert impacts == sorted(impacts, reverse=True)


def test_advice_tries_what_matters_on_any_sample() -> None:
    every = _checked([*QUIET, LOUD], advise=twinnet.Advise())
    assert every.advice is not None and every.advice.samples == 3
    (one,) = (step for step in every.advice.steps if step.kept == 1)
    assert one.tensors == (every.contributors[0].site.tensor,)
    first = _checked(QUIET[:1], advise=twinnet.Advise())
    assert first.advice is not None and one.tensors[0] not in first.advice.steps[-1].tensors


def test_ranking_ends_in_time_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "_RANKING", 0.0)
    result = _checked([*QUIET, LOUD])
    assert "contributors are ranked by the first 1 of 3 samples" in [g.message for g in result.guards]
    assert not _of(result, "rare")
