"""Two profiles compared: noise is no change, a planted one is found, other fusions are matched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.profile.nets import steps
from twinnet.checking.options import Limits, Options
from twinnet.profile import compare_profiles
from twinnet.profile.compare import Comparison
from twinnet.profile.model import Profile, Quantiles, Row
from twinnet.profile.target import Target
from twinnet.profiling import Plan, profile_with
from twinnet.report.profiles import comparison_text

MACHINE = Target("test", 50e9, 10e9, 1e-6)
TIMES = Quantiles(0.0, 0.0, 0.0)


def made(seconds: dict[str, float], seed: int, *, pace: float = 1.0, group: str = "") -> Profile:
    """A profile whose runs scatter as on a busy machine: mostly near the truth, now and then far above it."""
    chance = np.random.default_rng(seed)

    def runs(time: float) -> tuple[float, ...]:
        often = pace * time * (1 + chance.gamma(1.5, 0.02, 30))
        return tuple(often + (chance.random(30) < 0.15) * chance.exponential(0.01, 30))

    rows = tuple(
        Row(name, "Conv", sites=tuple(name.split("+")), module=name, seconds=runs(time))
        for name, time in seconds.items()
    )
    whole = runs(sum(seconds.values()))
    return Profile("net", "e", "e", "1", 30, TIMES, TIMES, 0.0, 0.0, 1.0, rows, MACHINE, group=group,
                   runs=whole, bare_runs=whole, cpu_runs=whole)  # fmt: skip


BASE = {f"layer{i}": t for i, t in enumerate((4e-3, 2e-3, 1e-3, 8e-4, 5e-4, 4e-4, 3e-4, 2e-4, 1e-4, 2e-5))}


def changed(found: Comparison) -> list[str]:
    return [c.module for c in (*found.slower, *found.faster)]


def test_equal_profiles_are_equal_and_a_slower_layer_is_found() -> None:
    alarms = missed = 0
    for seed in range(40):
        before = made(BASE, 2 * seed)
        same = compare_profiles(before, made(BASE, 2 * seed + 1))
        slow = compare_profiles(before, made({**BASE, "layer4": 7.5e-4}, 2 * seed + 1))
        alarms += bool(changed(same)) or same.whole.verdict != "same"
        missed += changed(slow) != ["layer4"]
    assert alarms <= 1 and missed <= 1


def test_a_twin_that_is_slower_everywhere_is_not_a_slower_machine() -> None:
    """Without optimisation all layers take twice as long, on a machine that is as fast as it was."""
    found = compare_profiles(made(BASE, 1), made(BASE, 2, pace=2.2))
    assert found.whole.verdict == "slower" and found.past(1.2) and len(found.slower) > 5
    slower = replace(MACHINE, peak=MACHINE.peak / 2.2)
    elsewhere = compare_profiles(made(BASE, 1), replace(made(BASE, 2, pace=2.2), target=slower))
    assert elsewhere.whole.verdict == "same" and not elsewhere.past(1.2) and elsewhere.pace > 2
    assert "FAIL     the whole and" in comparison_text(found, 1.2)
    assert "PASS     nothing is slower" in comparison_text(elsewhere, 1.2)


def test_a_slower_machine_is_not_a_slower_layer() -> None:
    found = compare_profiles(made(BASE, 1), made({**BASE, "layer4": 7.5e-4}, 2, pace=1.4))
    assert changed(found) == ["layer4"] and found.pace == pytest.approx(1.4, rel=0.05)
    assert found.whole.verdict == "same" and found.slower[0].ratio == pytest.approx(1.5, rel=0.1)
    in_turns = compare_profiles(made(BASE, 1, group="g"), made(BASE, 2, pace=1.4, group="g"))
    assert in_turns.pace == 1 and in_turns.whole.verdict == "slower" and len(in_turns.slower) >= 8


def test_rows_that_were_fused_are_added_up() -> None:
    apart = made({"a": 1e-3, "b": 5e-4, "c": 2e-3}, 1, group="g")
    fused = made({"a+b": 1.5e-3, "c": 1e-3}, 2, group="g")
    found = compare_profiles(apart, fused)
    assert [(c.verdict, round(c.ratio, 1)) for c in found.changes] == [("same", 1.0), ("faster", 0.5)]
    assert found.past(1.2) == () and compare_profiles(fused, apart).past(1.5)[-1].ratio == pytest.approx(
        2, rel=0.1
    )


def test_what_only_one_side_has_is_said() -> None:
    added = replace(made({"x": 1e-3}, 3).rows[0], sites=(), op="Reorder")
    before, after = made(BASE, 1), made(BASE, 2)
    found = compare_profiles(before, replace(after, rows=(*after.rows, added)))
    assert [c.label for c in found.changes if c.verdict == "new"] == ["Reorder (added by the engine)"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", ["onnxruntime", "torch", "openvino"])
def test_on_a_real_engine_in_nineteen_of_twenty(engine: str) -> None:
    """One of eighteen layers takes 1.5 times as long: it had a share of 5 or 6 %."""
    base = dict.fromkeys(range(18), 32)

    def one(wide: dict[int, int]) -> Profile:
        net, image = steps(wide, len(base))
        options = Options(limits=Limits(threads=1))
        return profile_with(options, net, image, engine, Plan(30, 3, MACHINE))[0].profile

    equal = found = 0
    shares = []
    for _ in range(20):
        before, again, slow = one(base), one(base), one({**base, 3: 48})
        same = compare_profiles(before, again)
        equal += not changed(same) and same.whole.verdict == "same"
        found += any(c.module == "blocks.3.0" for c in compare_profiles(before, slow).slower)
        shares.append(sum(row.share for row in before.rows if row.module == "blocks.3.0" and not row.helps))
    assert np.median(shares) < 0.08, shares
    assert equal >= 19 and found >= 19, (equal, found)
