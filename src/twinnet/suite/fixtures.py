"""Fixtures for tests of your own: a test that asks for one of them runs once for each case of the suite.

Each is made when it is asked for, from what the ones before it made; conversions and compilations come from the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from twinnet.progress import TRACES, quiet
from twinnet.suite.outcome import Case

if TYPE_CHECKING:
    import numpy as np

    from twinnet.suite.opened import OpenedCase

__all__ = [
    "twin_artefact",
    "twin_case",
    "twin_chip",
    "twin_hw_type",
    "twin_inputs",
    "twin_network",
    "twin_opened",
    "twin_reference_results",
    "twin_results",
]


@pytest.fixture
def twin_case(request: pytest.FixtureRequest) -> Case:
    """The case: model, layer, engine and options by name."""
    return request.param[1]


@pytest.fixture
def twin_opened(request: pytest.FixtureRequest, twin_case: Case) -> Iterator[OpenedCase]:
    """The case with both of its sides, opened when they are needed and closed after the test."""
    from twinnet.suite.opened import OpenedCase
    from twinnet.suite.subject import subject_of

    suite: Any = request.config.pluginmanager.get_plugin("twinnet-suite")
    model = request.node.callspec.params["twin_case"][0]
    with OpenedCase(twin_case, subject_of(model, suite.config)) as opened:
        yield opened


@pytest.fixture
def twin_chip(twin_case: Case) -> str:
    """The chip of the case; empty if its engine has none."""
    return twin_case.chip


@pytest.fixture
def twin_hw_type(twin_case: Case) -> str:
    """The kind of hardware of the case; empty if its engine has none."""
    return twin_case.hw_type


@pytest.fixture
def twin_network(twin_opened: OpenedCase) -> Any:
    """The network: the model, or the layer cut out of it."""
    with quiet(TRACES):
        return twin_opened.network


@pytest.fixture
def twin_inputs(twin_opened: OpenedCase) -> dict[str, np.ndarray]:
    """The first sample, by the name of the input; for a layer what it read in the reference."""
    with quiet(TRACES):
        return twin_opened.inputs


@pytest.fixture
def twin_reference_results(twin_opened: OpenedCase) -> dict[str, np.ndarray]:
    """The outputs of the network itself, by name."""
    with quiet(TRACES):
        return twin_opened.reference_results


@pytest.fixture
def twin_artefact(twin_opened: OpenedCase) -> tuple[Path, ...]:
    """Folders of the cache with what was converted or compiled for the twin, in order; none if nothing had to be."""
    with quiet(TRACES):
        return twin_opened.artefacts


@pytest.fixture
def twin_results(twin_opened: OpenedCase) -> dict[str, np.ndarray]:
    """The outputs of the twin, by name."""
    with quiet(TRACES):
        return twin_opened.results
