"""Plans as JSON: whatever a damaged description says, it is refused in words or means something that runs."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from tests.lut.zoo import random_net
from twinnet import lut
from twinnet.errors import UsageError
from twinnet.lut.executors import ReferenceExecutor
from twinnet.lut.serial import plan_from_dict, plan_to_dict

STRANGE = [None, -1, 0, 1, 3, 10**9, 1.5, "x", [], {}, True, [[0, 0]], float("nan")]


def _places(data, path=()):
    if isinstance(data, dict | list):
        for key in data if isinstance(data, dict) else range(len(data)):
            yield (*path, key)
            yield from _places(data[key], (*path, key))


@pytest.mark.parametrize(("name", "compressed"), [("auto-mulut", True), ("cascade", False)])
def test_damaged_descriptions(name, compressed, noise):
    plan = lut.lower(random_net(name, compressed))
    arrays = {}
    for key, table in plan.tables.items():
        arrays |= {key: table.values, f"{key}.coarse": table.coarse, f"{key}.index": table.index}
    arrays = {k: v for k, v in arrays.items() if v is not None}
    text = json.dumps(plan_to_dict(plan))
    chance = random.Random(0)
    places = list(_places(json.loads(text)))
    refused = 0
    for _ in range(300):
        data = json.loads(text)
        *path, last = chance.choice(places)
        home = data
        for key in path:
            home = home[key]
        home[last] = chance.choice(STRANGE)
        try:
            read = plan_from_dict(data, arrays)
        except UsageError:
            refused += 1
        else:
            assert ReferenceExecutor(read).run(noise[None, :3, :3]).dtype == np.uint8
    assert refused > 100
