"""The API against its own document: schemathesis asks everything that it allows and much that it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.dashboard.bundles import bundle, case, result_json
from tests.dashboard.places import Running, running


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("api")
    with running(f"sqlite:///{folder}/a.db", folder / "files") as found:
        for i in range(3):
            found.post(bundle(f"s{i}", [case("net", "FAIL"), case("other")], {"result.json": result_json()}))
        yield found


@schemathesis.serializer("application/zip")
def as_it_is(context: Any, value: Any) -> bytes:
    """Bodies of uploads are sent as they are generated: any bytes."""
    return value if isinstance(value, bytes) else str(value).encode()


CALLS = 17
"""How many calls there are; each is a test of its own."""


@pytest.mark.parametrize("number", range(CALLS))
def test_the_api_keeps_to_its_document(filled: Running, number: int) -> None:
    document = filled.json("/openapi.json")
    document["servers"] = [{"url": f"{filled.url}/api/v1"}]
    calls = [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]
    assert len(calls) == CALLS

    @given(case=calls[number].as_strategy())
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def ask(case: Case) -> None:
        if case.method.upper() == "DELETE" and "tests" in str(case.path_parameters):
            return  # the token that asks
        case.call_and_validate(
            base_url=f"{filled.url}/api/v1",
            headers={"Authorization": f"Bearer {filled.token}"},
            # Not every file is a bundle: a document cannot say which are.
            excluded_checks=[positive_data_acceptance] if case.path == "/bundles" else [],
        )

    ask()


def test_the_document_is_complete(filled: Running) -> None:
    document = filled.json("/openapi.json")
    calls = {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert ("/bundles", "post") in calls and len(calls) >= 16
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            assert told["description"], (path, method)
            assert told["security"], (path, method)
    page = filled.page("/api")
    assert "POST /api/v1/bundles" in page


def test_a_path_that_no_route_matches_is_answered_in_json(filled: Running) -> None:
    status, body, _ = filled.ask("/api/v1/runs/1/files/%0Ax")
    assert status == 404 and json.loads(body)["detail"]


def test_bodies_of_another_kind_are_refused(filled: Running) -> None:
    status, body, _ = filled.ask("/api/v1/bundles", method="POST", data=b"x", content_type="text/plain")
    assert status == 415 and "application/zip" in json.loads(body)["detail"]
