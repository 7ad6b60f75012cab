"""Targets in TOML: what is mistyped or no number is refused, with the file and the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinnet.errors import UsageError
from twinnet.profile import Target, read_target
from twinnet.profile.target import machine, write_target


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("peak = nan\nbandwidth = 1e9", "must be positive numbers"),
        ("peak = 1e9\nbandwidth = inf", "must be positive numbers"),
        ("peak = 0\nbandwidth = 1e9", "must be positive numbers"),
        ("peak = 1e9\nbandwidth = true", "must be positive numbers"),
        ("peak = 1e9\nbandwidth = 1e9\noverhead = nan", "must be positive numbers"),
        ("peak = 1e9\nbandwidth = 1e9\noverhed = 1e-6", "a target has no 'overhed'"),
        ("bandwidth = 1e9", "peak: Field required"),
        ("", "peak: Field required"),
        ("peak = [", "is not a readable target"),
    ],
)
def test_a_wrong_target_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_target(file)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    board = Target('a "board"', 8e9, 2e9, 5e-6)
    write_target(board, tmp_path / "board.toml")
    assert read_target(tmp_path / "board.toml") == board


@pytest.mark.parametrize(("product", "convolution"), [(1e-3, 4e-3), (4e-3, 1e-3)])
def test_the_peak_is_the_better_of_products_and_convolutions(
    product: float, convolution: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((product, convolution, 1e-3, 1e-4))
    monkeypatch.setattr("twinnet.profile.target._best", lambda work: (work(), next(times))[1])
    found = machine.__wrapped__(1)
    rates = 2 * 384**3 / product, 2 * 64 * 64 * 28 * 28 * 5 * 5 / convolution
    assert found.peak == max(rates) and found.bandwidth == 2 * 2**25 / 16e-3 and found.overhead == 1e-6
