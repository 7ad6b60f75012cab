"""Stated tolerances: which rule holds where, what is said when it does not, and errors in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinnet.errors import UsageError
from twinnet.judge.tolerance import Rule, Tolerance, Tolerances, by_tolerance, read_rules
from twinnet.result import Difference
from twinnet.site import Site

FAR = Difference(
    elements=4, max_abs=0.5, snr=20.0, psnr=25.0, cosine=0.99, ulp=100, hull=((1.0, 0.1), (4.0, 0.5))
)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"atol": 0.5}, ""),
        ({"atol": 0.4}, "differs by 0.5 where atol 0.4"),
        ({"rtol": 0.125}, ""),
        ({"rtol": 0.11}, "rtol 0.11 x |4| allows 0.44"),
        ({"rtol": 0.05}, "rtol 0.05 x |4| allows 0.2"),
        ({"rtol": 0.1, "atol": 0.1}, ""),
        ({"ulp": 100}, ""),
        ({"ulp": 99}, "100 ULP apart, 99 allowed"),
        ({"snr": 20}, ""),
        ({"snr": 20.5}, "SNR 20.00 dB, at least 20.5 dB"),
        ({"psnr": 26}, "PSNR 25.00 dB"),
        ({"cosine": 0.99}, ""),
        ({"cosine": 0.995}, "cosine 0.990000"),
        ({"atol": 1.0, "cosine": 1.0}, "cosine"),
    ],
)
def test_every_stated_limit_must_hold(limits: dict[str, float], words: str) -> None:
    said = Tolerance(**limits).complaint(FAR)
    said = "" if said is None else str(said)
    assert words in said and bool(words) == bool(said)


def test_nan_in_other_places_fits_no_tolerance() -> None:
    assert "NaN or Inf" in str(Tolerance(atol=1e9).complaint(Difference(elements=2, nonfinite_mismatch=1)))


def test_the_last_rule_that_fits_holds() -> None:
    rules = (
        Rule(Tolerance(atol=1.0), op="softmax"),
        Rule(Tolerance(atol=2.0), module="head.*"),
        Rule(Tolerance(atol=3.0), site="logits"),
        Rule(Tolerance(atol=4.0), dtype="float16", op="conv?d"),
    )
    stated = Tolerances.of(Tolerance(rtol=0.5), rules)

    def atol(site: Site, dtype: str = "float32") -> float | None:
        found = stated.find(site, dtype)
        return found.tolerance.atol if found else None

    assert atol(Site("a", op="Softmax")) == 1.0
    assert atol(Site("a", op="Softmax", module="head.2")) == 2.0
    assert atol(Site("logits", op="softmax", module="head.2")) == 3.0
    assert atol(Site("a", op="conv2d"), "float16") == 4.0
    assert atol(Site("a", op="conv2d")) is None
    output = stated.find(Site("y", role="output"), "float32")
    assert output is not None and output.tolerance.rtol == 0.5


def test_nothing_stated_means_automatic() -> None:
    assert not Tolerances.of(Tolerance()) and str(Tolerances()) == "automatic"
    assert str(Tolerances.of(Tolerance(rtol=1e-3, ulp=4))) == "rtol 0.001, ulp 4"


def test_what_has_no_rule_is_not_judged() -> None:
    stated = Tolerances.of(Tolerance(atol=1e-3))
    inner, output = Site("h"), Site("y", role="output")
    assert by_tolerance(stated, inner, FAR).status == "not judged"
    assert by_tolerance(stated, output, FAR).status == "fail"
    assert by_tolerance(stated, output, Difference(elements=4)).status == "pass"


def test_rules_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tolerance.toml"
    file.write_text('[[rule]]\nop = "softmax"\natol = 1e-4\n\n[[rule]]\nsnr = 40\n')
    first, second = read_rules(file)
    assert (first.op, first.tolerance.atol) == ("softmax", 1e-4)
    assert second.tolerance.snr == 40.0 and second.fits(Site("y", role="output"), "float32")
    assert not second.fits(Site("h"), "float32")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rule]\n", "not a readable tolerance file"),
        ("", r"list of \[\[rule\]\] tables"),
        ("rtol = 1e-3\n", r"\[\[rule\]\] tables \(found rtol\)"),
        ('[[rule]]\nop = "conv"\n', "rule 1 states no limit"),
        ("[[rule]]\natol = 1\n[[rule]]\nrtl = 1\n", "rule 2 has an unknown key: 'rtl'"),
        ('[[rule]]\natol = "1"\n', "atol = '1' is not a number"),
        ("[[rule]]\natol = true\n", "is not a number"),
        ("[[rule]]\natol = -1\n", "atol"),
        ("[[rule]]\natol = nan\n", "atol"),
        ("[[rule]]\natol = 1\nop = 3\n", "op = 3 is not a string"),
        ("[rule]\natol = 1\n", r"\[\[rule\]\] tables"),
    ],
)
def test_errors_name_file_and_rule(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "tolerance.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=words) as caught:
        read_rules(file)
    assert str(file) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such tolerance file"):
        read_rules(tmp_path / "none.toml")
