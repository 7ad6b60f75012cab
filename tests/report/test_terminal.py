"""The one screen: golden outputs, every width, and names that try to break out of it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from tests.report import examples
from twinnet.report import figures, words
from twinnet.report.terminal import print_result, render_text, render_unmatched
from twinnet.result import Difference, Finding, Result, ResultSet, said

EXAMPLES = {
    "pass": examples.passing,
    "fail": examples.failing,
    "inner": examples.inner,
    "error": examples.error,
    "weak": examples.weak,
    "several": examples.several,
}
MADE = {name: make() for name, make in EXAMPLES.items()} | {"hostile": examples.hostile()}


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_screen_reads_as_agreed(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    assert render_text(EXAMPLES[name](), width) == snapshot


@given(width=st.integers(1, 200), name=st.sampled_from(list(MADE)))
def test_every_width_holds_the_whole_verdict(width: int, name: str) -> None:
    result = MADE[name]
    text = render_text(result, width)
    assert all(cell_len(line) <= max(24, width) for line in text.splitlines())
    flat = re.sub(r"\s+", "", text)
    for one in result.results if isinstance(result, ResultSet) else (result,):
        assert one.verdict in text
        if isinstance(result, Result):
            assert re.sub(r"\s+", "", words.verdict_words(one)) in flat


def test_the_screen_is_the_repr() -> None:
    assert repr(examples.failing()) == render_text(examples.failing(), 80)
    assert repr(examples.several()) == render_text(examples.several(), 80)


def test_hostile_names_reach_no_terminal_unescaped() -> None:
    for text in (render_text(MADE["hostile"]), render_unmatched(MADE["hostile"])):
        assert "\x1b" not in text
        assert "\\x1b[31m" in text


@pytest.mark.parametrize("name", MADE)
def test_colour_changes_no_character(name: str) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    print_result(MADE[name], console)
    coloured = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[" in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in plain.splitlines()] == render_text(MADE[name], 80).splitlines()


@pytest.mark.parametrize("name", MADE)
def test_print_result_prints_the_screen(name: str) -> None:
    console = Console(file=io.StringIO(), width=70, color_system=None)
    print_result(MADE[name], console, verbose=False)
    assert console.file.getvalue().rstrip("\n") == render_text(MADE[name], 70)  # type: ignore[attr-defined]


def test_verbose_adds_the_whole_log_and_the_times() -> None:
    def shown(make: Callable[[], Result]) -> str:
        console = Console(file=io.StringIO(), width=100, color_system=None)
        print_result(make(), console, verbose=True)
        return console.file.getvalue()  # type: ignore[attr-defined]

    assert "step 0\n" in shown(examples.error)
    assert "step 0\n" not in render_text(examples.error())
    text = shown(examples.failing)
    assert "export 4.21 s" in text
    assert "adds" in text
    assert "onnxruntime 1.31.1" in text


def test_wide_characters_are_counted_in_cells() -> None:
    result = replace(examples.passing(), command="", inputs=replace(examples.INPUTS, description="写真" * 40))
    assert all(cell_len(line) <= 60 for line in render_text(result, 60).splitlines())


def test_unmatched_sites_of_both_sides_are_listed() -> None:
    assert render_unmatched(examples.passing()).splitlines() == [
        "network: 3 of 321 sites without a counterpart",
        "  head.0.bn",
        "  head.1.bn",
        "  head.anchor_grid",
        "twin: 1 of 319 sites without a counterpart",
        "  /head/Constant_3_output_0",
    ]
    assert "openvino" not in render_unmatched(examples.several())
    everything = replace(
        examples.passing(), coverage=replace(examples.coverage(), unmatched=(), unmatched_twin=())
    )
    assert render_unmatched(everything) == "every site of both sides has a counterpart"


def outputs(result: Result, **changes: object) -> Result:
    output = replace(result.outputs[0], **changes)
    return replace(result, outputs=(output,))


def test_an_output_that_only_inherits_its_error_is_still_said_to_differ() -> None:
    inherited = outputs(examples.failing(), status="pass")
    assert words.verdict_words(inherited) == words.verdict_words(examples.failing())
    assert "still agrees" in words.verdict_words(examples.inner())


def test_other_reasons_to_fail_are_said_in_their_own_words() -> None:
    base = examples.failing()
    shape = outputs(
        base,
        rule="structure",
        reason=said("1x10 where the network has 1x11"),
        difference=Difference(),
        ratio=None,
    )
    assert words.verdict_words(shape) == "output: 1x10 where the network has 1x11"
    odd = outputs(base, difference=replace(base.outputs[0].difference, nonfinite_mismatch=12))
    assert "NaN or Inf in other places" in words.verdict_words(odd)
    stated = replace(
        outputs(base, reason=said("cosine 0.91, at least 0.99 required")), tolerance="cosine 0.99"
    )
    assert (
        words.verdict_words(stated)
        == "output breaks the stated tolerance: cosine 0.91, at least 0.99 required"
    )
    assert "limits   cosine 0.99" in render_text(stated)


def test_one_of_several_outputs_is_named() -> None:
    base = examples.failing()
    good = replace(
        base.outputs[0], status="pass", ratio=0.2, difference=replace(base.outputs[0].difference, max_abs=0.0)
    )
    both = replace(base, outputs=(good, base.outputs[0]))
    assert words.verdict_words(both).startswith(f"output '{base.outputs[0].site.tensor}' differs by 2.1e-2")


def test_a_finding_without_a_floor_says_that_nothing_may_differ() -> None:
    base = examples.failing().findings[0]
    exact = replace(base, ratio=float("inf"), floor=0.0, born_share=None)
    assert words.share_words(exact) == "creates 2.5e-2 where nothing may differ"
    shape = Finding(
        base.site,
        base.twin_site,
        0.0,
        0.0,
        float("inf"),
        0.0,
        reason=said("shape 1x2 where the network has 1x3"),
    )
    result = replace(examples.failing(), findings=(shape,))
    assert "because  shape 1x2 where the network has 1x3" in render_text(result)


def test_known_findings_are_counted_in_a_pass() -> None:
    known = replace(examples.passing(), known=("conv_1", "conv_2"))
    text = "nothing new: 2\u00a0failures are known from the baseline and not counted"
    assert words.verdict_words(known) == text
    assert words.known_words(known) == "conv_1; conv_2"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.0995, "0.10"),
        (0.0994, "9.9e-2"),
        (0.996, "1.0"),
        (9.96, "10"),
        (9999.4, "9 999"),
        (9999.6, "1.0e4"),
        (-0.021, "-2.1e-2"),
        (1e-320, "1.0e-320"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Inf"),
        (None, "unknown"),
    ],
)
def test_figures_have_two_digits(value: float | None, text: str) -> None:
    assert figures.figure(value).replace("\u00a0", " ") == text


@given(st.floats(0, 1, exclude_max=True))
def test_a_share_is_never_rounded_up_to_everything(share: float) -> None:
    if share < 1 - 1e-10:
        assert not figures.percent(share).startswith("100")


def test_a_refusal_that_can_be_made_small_says_so(tmp_path: Path) -> None:
    refused = replace(examples.error(), folder=str(tmp_path))
    assert "twinnet repro" not in render_text(refused, width=200)
    (tmp_path / "seeds").mkdir()
    assert f"next     twinnet repro {tmp_path}" in render_text(refused, width=200)


def test_a_finding_whose_tensors_were_not_kept_has_no_repro(tmp_path: Path) -> None:
    failed = replace(examples.failing(), folder=str(tmp_path / "run"))
    (tmp_path / "run" / "seeds").mkdir(parents=True)
    assert "next     twinnet repro" in render_text(failed, width=200)
    (tmp_path / "run" / "seeds").rmdir()
    assert "next     twinnet show" in render_text(failed, width=200)


def test_an_error_with_advice_is_followed_by_nothing_else() -> None:
    plain = replace(examples.error(), log="", stage="load", error="no such delegate")
    assert "next     twinnet env" in render_text(plain, width=200)
    told = replace(plain, error="the format is not taken\n  give the twin as a file")
    assert "next " not in render_text(told, width=200)
    lost = replace(examples.error(), log="ssh: no route", stage="connect", error="cannot connect")
    assert "next " not in render_text(lost, width=200)


def test_one_cause_in_several_layers_is_said_once() -> None:
    result = examples.failing()
    first = replace(result.findings[0], also=(), merged=(), confirmed=None)
    assert first.cause is not None

    def at(name: str, **changed: object) -> Finding:
        site = replace(first.place, module=name)
        return replace(first, site=site, cause=replace(first.cause, layer=site), **changed)  # type: ignore[arg-type]

    same = [at(f"blocks.{i}") for i in range(6)]
    alone = at("head", confirmed=False)
    shown = render_text(replace(result, findings=(first, *same, alone)), 200)
    assert shown.count(first.cause.sentence) == 2  # the one that does not show it by itself says so
    (line,) = (line for line in shown.splitlines() if line.startswith("also in"))
    assert all(f"blocks.{i}" in line for i in range(3)) and "3 more, for the same cause" in line
    assert "head" in shown and "more in the report" not in shown
