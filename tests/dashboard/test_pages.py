"""The pages: what they say about sessions that became worse, and who may see them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from urllib.parse import quote, urlencode

import pytest
from sqlalchemy.exc import OperationalError

from tests.dashboard.bundles import bundle, case, result_json
from tests.dashboard.places import Running
from tests.report import examples
from twinnet.dashboard.queries.trends import band_of

_DAY = 86400.0
_START = 1_790_000_000.0


@pytest.fixture(scope="module")
def week(dashboard: Running) -> list[int]:
    """Ten nightly sessions; in the last, one model fails in a layer and another is slower. Their numbers."""
    numbers = []
    for day in range(10):
        last = day == 9
        bad = case("detector", "FAIL" if last else "PASS", figures={"ratio": 1.1 + day / 100})
        others = [
            case(
                "speech", "ERROR", step="compile", message=f"no kernel for 'Op{day}'", expected="yes", run=""
            ),
            case("detector", engine="openvino", run=""),
        ]
        at = {"started": _START + day * _DAY, "finished": _START + day * _DAY + 100, "commit": f"{day:040x}"}
        files = {"result.json": result_json()} if last else None
        status, told = dashboard.post(bundle(f"night{day}", [bad], files, **at))
        assert status == 201
        assert dashboard.post(bundle(f"night{day}", others, **at))[0] == 201
        took = 1e-3 * (3 if last else 1 + day / 500)
        slow = {"schema": 1, "engine": "x", "spec": "", "whole": {"p50": took}, "rows": []}
        profile = {"profile/profile.json": json.dumps(slow).encode()}
        assert dashboard.post(bundle(f"night{day}", [case("segmenter")], profile, **at))[0] == 201
        numbers.append(told["session"])
    return numbers


def test_the_first_page_says_what_became_worse_and_where(dashboard: Running, week: list[int]) -> None:
    page = dashboard.page("/")
    assert ">WORSE<" in page
    assert "1 new failure" in page and "1 slower" in page
    assert f"against session {week[-2]}" in page
    assert "features.4." in page and "the twin pads" in page


def test_a_session_with_its_changes_matrix_and_groups(dashboard: Running, week: list[int]) -> None:
    page = dashboard.page(f"/sessions/{week[-1]}")
    assert "new failure" in page and "slower" in page
    assert "no kernel for *" in page
    assert "openvino-default" in page
    chosen = dashboard.page(f"/sessions/{week[-1]}?against={week[0]}")
    assert f"session {week[0]} on main" in chosen
    calm = dashboard.page(f"/sessions/{week[5]}")
    assert ">SAME<" in calm
    assert "there is no earlier session" in dashboard.page(f"/sessions/{week[0]}")
    changes = dashboard.json(f"/compare?session={week[-1]}")
    assert changes["baseline"] == week[-2]
    assert [c["kind"] for c in changes["items"]][:2] == ["new failure", "slower"]


def test_a_case_a_model_a_trend_and_a_comparison(dashboard: Running, week: list[int]) -> None:
    runs = dashboard.json(f"/sessions/{week[-1]}/runs")["items"]
    bad = next(r for r in runs if r["verdict"] == "FAIL")
    page = dashboard.page(f"/cases/{bad['id']}")
    for words in (
        "the twin pads",
        "Where it is born",
        "Along the network",
        "result.json",
        "twinnet show",
        "Over sessions",
    ):
        assert words in page, words
    model = dashboard.page(f"/models/detector?session={week[-1]}&with=openvino-default")
    assert "features.4." in model and "openvino-default" in model
    trend = dashboard.page("/trends?model=segmenter")
    assert "left its band" in trend and "3 ms" in trend.replace("\u00a0", " ")
    layer = dashboard.json(f"/runs/{bad['id']}/layers")["items"][5]
    assert layer["label"] in dashboard.page(f"/trends?run={bad['id']}")
    engines = {"a": week[-1], "engine": "onnxruntime-default", "other": "openvino-default"}
    engines = {"a": week[-1], "engine": "onnxruntime-default", "other": "openvino-default"}
    both = dashboard.page(f"/compare?{urlencode(engines)}")
    assert "new failure" in both
    assert "1 fixed" in dashboard.page(f"/compare?a={week[0]}&b={week[-1]}")
    trends = dashboard.json("/trends?model=segmenter")["items"]
    assert trends[0]["left_time"] == [week[-1]]


def profiled(**times: float) -> bytes:
    """The profile of a run with these layers, in seconds."""
    row = {"op": "conv2d", "kernel": "k", "network_ops": ["conv2d"], "share": 0.5, "sites": []}
    rows = [{**row, "name": name, "module": name, "sites": [name], "p50": p50} for name, p50 in times.items()]
    whole = {"p50": sum(times.values())}
    return json.dumps({"schema": 1, "engine": "x", "spec": "", "whole": whole, "rows": rows}).encode()


def test_what_still_fails_is_said_beside_what_changed(dashboard: Running) -> None:
    numbers = []
    for day, other in enumerate(("FAIL", "PASS")):
        cases = [case("broken", "FAIL"), case("mended", other)]
        made = dashboard.post(bundle(f"still{day}", cases, started=_START + day * _DAY, branch="still"))
        numbers.append(made[1]["session"])
    page = dashboard.page(f"/sessions/{numbers[1]}")
    assert ">BETTER<" in page and "1 fixed against session" in page and "; 1 still fails<" in page


def test_what_is_slower_names_the_layer_that_made_it_so(dashboard: Running) -> None:
    numbers = []
    for day, head in enumerate((1e-3, 9e-3)):
        files = {"profile/profile.json": profiled(stem=2e-3 + day * 1e-4, head=head)}
        at = {"started": _START + day * _DAY, "branch": "layers"}
        made = dashboard.post(bundle(f"layers{day}", [case("lanes")], files, **at))
        numbers.append(made[1]["session"])
    page = dashboard.page(f"/sessions/{numbers[1]}")
    assert ">SLOWER<" in page
    [first] = re.findall(r'<ul class="top-changes">.*?<b>(.*?)</b>.*?</ul>', page, re.S)
    assert first.startswith("head")
    changed = dashboard.json(f"/compare?session={numbers[1]}")["items"]
    assert [row["place"].split()[0] for row in changed if row["kind"] == "slower"] == ["head"]


def test_cases_that_were_not_run_are_no_all_clear(dashboard: Running) -> None:
    """A suite that lost half of its cases is not "the same as yesterday"."""
    whole = [case("lost"), case("lost", engine="openvino"), case("kept")]
    first = dashboard.post(bundle("whole", whole, branch="incomplete"))[1]["session"]
    skipped = {**case("lost", engine="openvino", run=""), "verdict": "SKIP", "message": "not installed"}
    made = dashboard.post(
        bundle("half", [case("kept"), skipped], branch="incomplete", started=_START + _DAY)
    )[1]["session"]
    page = dashboard.page(f"/sessions/{made}")
    assert ">INCOMPLETE<" in page and "2 of its cases have not run<" in page
    assert "not run; PASS before" in page and "2 not run" in page
    told = dashboard.json(f"/compare?session={made}")
    assert told["counts"] == {"not run": 2, "same": 1}
    gone = [row for row in told["items"] if row["kind"] == "not run"]
    assert sorted((row["engine"], row["run"] is None) for row in gone) == [
        ("onnxruntime-default", True),
        ("openvino-default", False),
    ]
    again = bundle("runs", [case("kept")], branch="incomplete", started=_START + 2 * _DAY, finished=None)
    running = dashboard.post(again)[1]["session"]
    assert "have not run yet<" in dashboard.page(f"/sessions/{running}?against={first}")


def test_a_night_that_was_cut_off_is_no_baseline(dashboard: Running) -> None:
    """Two such nights in a row are not "the same": what neither ran is still missing."""
    numbers = []
    for day, models in enumerate((("one", "two"), ("one",), ("one",))):
        told = {"branch": "nights", "started": _START + day * _DAY, "finished": None if day else _START + 60}
        made = dashboard.post(bundle(f"cutoff{day}", [case(name) for name in models], **told))
        numbers.append(made[1]["session"])
    page = dashboard.page(f"/sessions/{numbers[2]}")
    assert ">INCOMPLETE<" in page and f"against session {numbers[0]}" in page


def test_search_and_filters(dashboard: Running, week: list[int]) -> None:
    assert len(dashboard.json("/sessions?q=anna+main")["items"]) >= 10
    assert dashboard.json("/sessions?q=nobody")["items"] == []
    assert dashboard.json("/sessions?q=%25")["items"] == [], "a percent sign is no pattern"
    found = dashboard.json("/sessions?bad=true&branch=main")["items"]
    assert week[-1] in [s["id"] for s in found] and week[3] not in [s["id"] for s in found]
    seen, before = [], ""
    while True:
        page = dashboard.json(f"/sessions?limit=3{before}")
        seen += [s["id"] for s in page["items"]]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert len(seen) == len(set(seen)) >= 10
    assert "No session fits" in dashboard.page("/?q=nobody")


@pytest.mark.parametrize("name", ["a/b/", '"<b>&', "ü%20#?", "m" * 299 + "/", "..", "two\nlines"])
def test_odd_names_have_pages(dashboard: Running, name: str) -> None:
    key = f"odd{abs(hash(name))}"
    odd = bundle(key, [case(name, "FAIL", layer='l/1 "x"', run="")], branch=name, who=name)
    told = dashboard.post(odd)[1]
    run = dashboard.json(f"/runs/{told['cases'][0]['id']}")
    assert dashboard.ask(f"/models/{quote(run['model'], safe='')}")[0] == 200
    assert dashboard.ask(f"/s/{key}/{quote(run['name'], safe='')}")[0] in (200, 303)
    assert dashboard.ask(f"/trends?{urlencode({'model': run['model'], 'layer': run['layer']})}")[0] == 200


def test_addresses_by_name_lead_to_the_page(dashboard: Running, week: list[int]) -> None:
    status, _, headers = dashboard.ask("/s/night3")
    assert (status, headers["location"]) == (303, f"/sessions/{week[3]}")
    status, _, headers = dashboard.ask("/s/night3/segmenter_full_model-onnxruntime-default")
    assert status == 303 and headers["location"].startswith("/cases/")
    assert dashboard.ask("/s/nobody")[0] == 404


@pytest.mark.parametrize(
    "path",
    ["/sessions/0", "/sessions/99999999999999999999", "/cases/123456", "/cases/5/files/../../etc/passwd",
     "/models/none", "/static/../app.py", "/s/x/y/z", "/cases/1/run.zipp", "/sessions/x"],
)  # fmt: skip
def test_what_is_not_there(dashboard: Running, path: str) -> None:
    assert dashboard.ask(path)[0] == 404


ODD = ["a=9999999", "a=x&b=y", "a=1&engine=a&other=b", "start=99999", "session=-1&place=1e9"]


@pytest.mark.parametrize("query", ODD)
def test_odd_questions_have_answers(dashboard: Running, week: list[int], query: str) -> None:
    for page in ("/compare", "/trends", "/models", "/"):
        assert dashboard.ask(f"{page}?{query}")[0] in (200, 404)


def test_a_run_that_broke_and_one_without_pairs_have_a_page(dashboard: Running) -> None:
    failing = examples.failing()
    broken = replace(failing, verdict="ERROR", error="it broke", stage="compile")
    bare = replace(failing, pairs=(), outputs=(), findings=())
    for name, result in (("broken", broken), ("bare", bare)):
        files = {"result.json": result_json(result)}
        told = dashboard.post(bundle(f"odd-{name}", [case(name, "ERROR")], files))[1]
        dashboard.page(f"/cases/{told['cases'][0]['id']}")


def test_the_band_of_a_trend() -> None:
    steady = [1.0, 1.05, 0.98, 1.02, 1.0, 1.01]
    assert band_of(steady, "time").marks == ()
    left = band_of([*steady, 1.6, 1.0], "time")
    assert left.marks == (6,)
    assert left.low[0] is None and left.high[6] is not None and left.high[6] < 1.6
    # A new level is marked once, and the way back as better.
    moved = band_of([*steady, 2.0, 2.0, 2.0, 2.0, 1.0], "time")
    assert (moved.marks, moved.better) == ((6,), (10,))
    assert band_of([None, 1.0, None], "ratio").marks == ()
    assert band_of([0.1, 0.9, 0.3, 0.2, 0.5, 1.5, 3.0], "ratio").marks == (), "below the floor nothing counts"


def test_a_trend_says_whether_it_came_back(dashboard: Running) -> None:
    for day, ratio in enumerate((1.2, 1.3, 1.1, 1.2, 900.0, 1.2)):
        at = {"started": _START + day * _DAY, "branch": "trend"}
        dashboard.post(bundle(f"trend{day}", [case("wave", figures={"ratio": ratio})], **at))
        if day == 4:
            assert '<section class="verdict FAIL">' in dashboard.page("/trends?model=wave")
    page = dashboard.page("/trends?model=wave")
    assert "left its band in" in page and "; back in" in page
    assert '<section class="verdict FAIL">' not in page
    # What left it is named at its mark, inside the picture, and every value is in a table as well.
    marks = [float(y) for y in re.findall(r'<text class="name" x="[\d.]+" y="([-\d.]+)"', page)]
    assert marks and all(y > 8 for y in marks)
    assert page.count("<tr>") >= 6


def test_trends_come_in_pages(dashboard: Running) -> None:
    for day in range(5):
        dashboard.post(bundle(f"paged{day}", [case("pages")], started=_START + day * _DAY, branch="paged"))
    seen: list[int] = []
    before = ""
    while True:
        [one] = dashboard.json(f"/trends?model=pages&limit=2{before}")["items"]
        seen = [point["session"] for point in one["points"]] + seen
        if one["next"] is None:
            break
        before = f"&before={one['next']}"
    assert len(seen) == 5 and len(set(seen)) == 5
    assert dashboard.json("/trends?model=pages&offset=7")["items"] == []


def test_a_database_that_is_away_is_said_in_words(
    dashboard: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise OperationalError("SELECT 1", {}, Exception("gone"))

    assert dashboard.service is not None
    monkeypatch.setattr(type(dashboard.service.database), "reading", away)
    for path, kind in (
        ("/", "text/html"),
        ("/health", "application/json"),
        ("/api/v1/sessions", "application/json"),
    ):
        status, body, headers = dashboard.ask(path)
        assert status == 503 and headers["content-type"].startswith(kind)
        assert "did not answer" in body.decode() and "SELECT" not in body.decode()
