"""One meaning: torch tables, the reference, the numpy path and the native engine give the same integers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lut.zoo import CASES, random_net
from tests.needs import absent
from twinnet import lut
from twinnet.errors import EngineError, UsageError
from twinnet.lut.executors import make

KINDS = [(name, False) for name in CASES] + [
    ("srlut-S", True),
    ("mulut-sdy", True),
    ("spf", True),
    ("auto-mulut", True),
    ("auto-spf", True),
]
SIZES = [(9, 7), (1, 1), (1, 5), (6, 1), (3, 2)]


@pytest.mark.parametrize(("name", "compressed"), KINDS)
def test_every_site_is_equal_in_torch_tables_and_executors(name, compressed, noise):
    net = random_net(name, compressed)
    plan = lut.lower(net)
    sites = list(lut.sites(plan))
    for h, w in SIZES:
        plane = np.ascontiguousarray(noise[:h, :w])
        seen: dict[str, np.ndarray] = {}
        expected = make(plan, "reference").record(plane, seen.__setitem__)
        assert list(seen) == [site.name for site in sites] == [site.name for site in net.sites()]
        torch_seen: dict[str, np.ndarray] = {}
        out = net.predict(plane, lambda k, v, home=torch_seen: home.__setitem__(k, v[0].numpy()))
        assert np.array_equal(out, expected[0])
        for key in seen:
            assert np.array_equal(torch_seen[key], seen[key]), key
        for other in ("numpy", "native"):
            try:
                executor = make(plan, other)
            except (ImportError, EngineError) as error:
                absent(f"{other}: {error}")
            found: dict[str, np.ndarray] = {}
            assert np.array_equal(executor.record(plane, found.__setitem__), expected), other
            assert np.array_equal(executor.run(plane[None])[0], expected), other
            for key in seen:
                assert np.array_equal(found[key], seen[key]), (other, key)


@pytest.mark.parametrize("name", sorted(CASES))
def test_tables_are_used_and_outputs_vary(name, noise):
    """The comparison above would be empty on constant images."""
    out = make(lut.lower(random_net(name)), "reference").run(noise[None])
    assert out.std() > 5


def test_scales_in_torch_are_the_inverse_denominators():
    net = random_net("auto-spf")
    for site, plain in zip(net.sites(), lut.sites(lut.lower(net)), strict=True):
        assert site.scale == pytest.approx(1 / plain.denominator)
        assert site.rounding == "C"


def test_unknown_executor_is_refused():
    with pytest.raises(UsageError, match="no executor named 'gpu'"):
        make(lut.lower(random_net("srlut-V-step17")), "gpu")
