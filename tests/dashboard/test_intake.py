"""Bundles come in: whole, once, and what they say is found again."""

from __future__ import annotations

import json
import threading
import uuid

import pytest

from tests.dashboard.bundles import bundle, case, result_json
from tests.dashboard.places import Running

NAME = "net_full_model-onnxruntime-default"


def key() -> str:
    return uuid.uuid4().hex


def test_a_bundle_is_stored_and_found_again(dashboard: Running) -> None:
    mine = key()
    failing = case("net", "FAIL", figures={})
    status, told = dashboard.post(
        bundle(mine, [failing], {"result.json": result_json(), "notes/a b.txt": b"hello"})
    )
    assert status == 201
    [one] = told["cases"]
    assert one["new"]
    run = dashboard.json(f"/runs/{one['id']}")
    assert (run["verdict"], run["model"], run["engine"]) == ("FAIL", "net", "onnxruntime-default")
    assert run["ratio"] > 1000
    assert run["born"].startswith("features.4")
    assert "pads" in run["cause"]
    assert run["answer"]["sentence"].startswith("output differs")
    layers = dashboard.json(f"/runs/{one['id']}/layers?limit=10")
    assert [row["position"] for row in layers["items"]] == list(range(10))
    more = dashboard.json(f"/runs/{one['id']}/layers?limit=200&after={layers['next']}")
    assert len(more["items"]) == 30
    files = dashboard.json(f"/runs/{one['id']}/files")["items"]
    assert [f["path"] for f in files] == ["notes/a b.txt", "result.json"]
    status, body, headers = dashboard.ask(f"/api/v1/runs/{one['id']}/files/notes/a%20b.txt")
    assert (status, body) == (200, b"hello")
    assert headers["content-disposition"].startswith("attachment")
    session = dashboard.json(f"/sessions/{told['session']}")
    assert (session["key"], session["branch"], session["failed"], session["total"]) == (mine, "main", 1, 1)
    assert session["engines"] == "onnxruntime-default"


def test_uploading_twice_changes_nothing(dashboard: Running) -> None:
    mine = key()
    sent = bundle(mine, [case("twice"), case("other")])
    first = dashboard.post(sent)
    second = dashboard.post(sent)
    assert (first[0], second[0]) == (201, 200)
    assert [c["id"] for c in first[1]["cases"]] == [c["id"] for c in second[1]["cases"]]
    assert not any(c["new"] for c in second[1]["cases"])
    assert dashboard.json(f"/sessions/{first[1]['session']}")["total"] == 2
    # Nor does another content under the same name: what was acknowledged stays.
    assert dashboard.post(bundle(mine, [case("twice", "FAIL")]))[0] == 200
    assert dashboard.json(f"/runs/{first[1]['cases'][0]['id']}")["verdict"] == "PASS"


def test_cases_come_one_by_one(dashboard: Running) -> None:
    mine = key()
    for i in range(3):
        status, told = dashboard.post(bundle(mine, [case(f"m{i}")], finished=None))
        assert status == 201
        session = dashboard.json(f"/sessions/{told['session']}")
        assert (session["total"], session["finished"]) == (i + 1, None)
    dashboard.post(bundle(mine, [], finished=1_790_000_900.0))
    assert dashboard.json(f"/sessions/{told['session']}")["finished"] == 1_790_000_900.0


def test_many_at_once_into_one_session(dashboard: Running) -> None:
    mine = key()
    answers: list[int] = []

    def send(i: int) -> None:
        answers.append(dashboard.post(bundle(mine, [case(f"many{i}"), case("shared")]))[0])

    threads = [threading.Thread(target=send, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [201] * 12
    found = dashboard.json("/sessions?limit=200")["items"]
    assert [s["total"] for s in found if s["key"] == mine] == [13]


def test_a_bundle_without_an_id_is_one_session_however_often_it_is_sent(dashboard: Running) -> None:
    sent = bundle("", [case("old")], started=1_700_000_000.0)
    first, second = dashboard.post(sent), dashboard.post(sent)
    assert first[1]["session"] == second[1]["session"]


def test_times_come_from_the_profile(dashboard: Running) -> None:
    step = {"name": "k", "op": "conv2d", "module": "features.0", "p50": 2e-3, "share": 1.0}
    rows = [{**step, "network_ops": ["conv2d", "relu"], "sites": ["tensor_7"]}]
    profile = {
        "schema": 1,
        "engine": "onnxruntime",
        "spec": "",
        "whole": {"p10": 1e-3, "p50": 4e-3, "p90": 5e-3},
        "bare": {"p10": 1e-3, "p50": 2e-3, "p90": 3e-3},
        "rows": rows,
    }
    files = {"profile/profile.json": json.dumps(profile).encode(), "profile/trace.pftrace": b"\x0a\x00"}
    told = dashboard.post(bundle(key(), [case("timed")], files, made_by="profile"))[1]
    run = dashboard.json(f"/runs/{told['cases'][0]['id']}")
    assert run["time"] == 2e-3
    [layer] = dashboard.json(f"/runs/{run['id']}/layers")["items"]
    assert (layer["label"], layer["time"]) == ("features.0 conv2d", 2e-3)
    page = dashboard.page(f"/cases/{run['id']}")
    assert "Perfetto trace" in page and "flame graph" in page
    assert ">conv2d+relu</text>" in page, "operators, not names of tensors"


@pytest.mark.parametrize(
    "profile", [b"[]", b'{"schema": 9, "rows": []}', b"no json", b'{"schema": 1, "rows": [3, {}]}']
)
def test_a_profile_of_another_kind_is_kept_as_a_file_only(dashboard: Running, profile: bytes) -> None:
    status, told = dashboard.post(bundle(key(), [case("odd")], {"profile/profile.json": profile}))
    assert status == 201
    dashboard.page(f"/cases/{told['cases'][0]['id']}")


def test_figures_that_json_does_not_have(dashboard: Running) -> None:
    odd = case("odd figures", figures={"ratio": "NaN", "max_abs": "Infinity"}, seconds=-1e400)
    told = dashboard.post(bundle(key(), [odd]))[1]
    run = dashboard.json(f"/runs/{told['cases'][0]['id']}")
    assert run["ratio"] == 1e300
    assert "not finite" in dashboard.page(f"/sessions/{told['session']}/cases")
