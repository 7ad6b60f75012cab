"""Native engine and numpy path against the reference interpreter: equal on plans of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from random_plans import cornered_plan, random_image, random_plan

from twinnet.lut.executors.native import NativeExecutor
from twinnet.lut.executors.numpy_path import NumpyExecutor
from twinnet.lut.native import instruction_sets
from twinnet.lut.plan import sites
from twinnet.lut.reference import run_reference

SIZES = [(1, 1), (1, 7), (9, 1), (2, 2), (5, 63), (6, 64), (7, 65), (19, 23), (3, 130)]


def recorded(run, image):
    found = {}

    def note(name, array):
        assert name not in found
        found[name] = np.array(array, np.int64)

    out = run(image, note)
    return out, found


@pytest.mark.parametrize("seed", range(60))
def test_native_equals_reference(engine, seed):
    plan = random_plan(seed)
    image = random_image(seed, *SIZES[seed % len(SIZES)])
    wanted = run_reference(plan, image)
    for kernels in instruction_sets():
        executor = NativeExecutor(plan, threads=1 + seed % 3, kernels=kernels)
        assert executor.kernels == kernels
        np.testing.assert_array_equal(
            executor.run(image[None])[0], wanted, err_msg=f"{kernels} {executor.describe()}"
        )


@pytest.mark.parametrize("seed", range(40))
def test_rows_of_corners_equal_the_reference(engine, seed):
    plan = cornered_plan(seed)
    image = random_image(seed, *SIZES[seed % len(SIZES)])
    wanted = run_reference(plan, image)
    for kernels in instruction_sets():
        executor = NativeExecutor(plan, threads=1 + seed % 3, kernels=kernels)
        for _ in range(2):  # the second run finds the memory of the first
            np.testing.assert_array_equal(
                executor.run(image[None])[0], wanted, err_msg=f"{kernels} {executor.describe()}"
            )


@pytest.mark.parametrize("seed", range(0, 60, 2))
def test_numpy_path_equals_reference(seed):
    plan = random_plan(seed)
    image = random_image(seed, *SIZES[(seed // 2) % len(SIZES)])
    np.testing.assert_array_equal(NumpyExecutor(plan).run(image[None])[0], run_reference(plan, image))


@pytest.mark.parametrize("seed", range(100, 120))
@pytest.mark.parametrize("kind", [NativeExecutor, NumpyExecutor])
@pytest.mark.parametrize("make", [random_plan, cornered_plan])
def test_every_site_is_recorded_and_equal(engine, make, kind, seed):
    plan = make(seed)
    image = random_image(seed, 5, 11)
    wanted_out, wanted = recorded(lambda i, note: run_reference(plan, i, note), image)
    out, found = recorded(kind(plan).record, image)
    assert list(found) == list(wanted) == [site.name for site in sites(plan)]
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    np.testing.assert_array_equal(out, wanted_out)


def test_the_seeds_reach_every_way_a_stage_can_run(engine):
    """Guards the tests above: if a kernel family is no longer reached, they prove less than they say."""
    about = set()
    features = set()
    for plan in (*map(random_plan, range(60)), *map(cornered_plan, range(40))):
        for text in NativeExecutor(plan).describe().values():
            lanes, _, rounding = text.split(", ")
            about |= {lanes, rounding}
        for stage in plan.stages:
            features |= {f"x{stage.upscale}", f"cell{stage.cell}", f"channels{stage.channels > 1}"}
            for term in stage.terms:
                table = plan.tables[term.table]
                features |= {
                    term.interpolation, term.compat, term.sample.padding, f"axes{table.axes}",
                    f"band{table.banded}", f"weights{term.sample.weights is not None}",
                    f"blend{term.blend is not None}",
                }  # fmt: skip
    corners = {"cells", "quads"} if len(instruction_sets()) > 1 else set()
    assert about - corners == {
        "int16",
        "int16+32",
        "int32",
        "scalar",
        "divide",
        "divide wide",
        "table",
        "search",
    }
    assert corners <= about
    assert features >= {
        "x1", "x2", "x3", "x4", "x5", "cell1", "cell2", "cell3", "channelsTrue", "simplex", "multilinear",
        "srlut-2021", "edge", "reflect", "axes1", "axes2", "axes3", "axes4", "axes5", "bandTrue",
        "weightsTrue",
        "blendTrue",
    }  # fmt: skip
