"""Whatever a result holds, every way of showing it works and stays well-formed."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.report.test_html import Page
from tests.report.test_json_file import RESULT
from twinnet.report.html import render_fragment, render_report
from twinnet.report.junit import render_junit
from twinnet.report.markdown import render_markdown
from twinnet.report.model_explorer import render_overlay
from twinnet.report.pairs_csv import render_csv
from twinnet.report.terminal import render_text, render_unmatched
from twinnet.result import Result, ResultSet

SEVERAL = st.lists(RESULT, max_size=3).map(lambda found: ResultSet(tuple(found)))


@settings(deadline=None, max_examples=60)
@given(result=RESULT | SEVERAL, width=st.integers(20, 130))
def test_any_result_can_be_shown_in_every_way(result: Result | ResultSet, width: int) -> None:
    text = render_text(result, width)
    assert all(cell_len(line) <= max(24, width) for line in text.splitlines())
    assert result.verdict in text or isinstance(result, ResultSet)
    assert render_unmatched(result)
    Page(render_report(result))
    Page(render_fragment(result))
    ET.fromstring(render_junit(result))
    assert render_markdown(result).endswith("\n")
    json.loads(render_overlay(result))
    pairs = sum(len(one.pairs) for one in (result.results if isinstance(result, ResultSet) else (result,)))
    assert len(list(csv.reader(io.StringIO(render_csv(result))))) == pairs + 1


@given(result=RESULT)
def test_the_screen_depends_on_nothing_but_the_result(result: Result) -> None:
    assert render_text(result) == render_text(replace(result))
