"""The passes over sites: native against numpy, gradients against differences, products against the dense matrix."""

from __future__ import annotations

import numpy as np
import pytest

from twinnet.errors import EngineError, UsageError
from twinnet.lut.grid import Grid
from twinnet.lut.patterns import PATTERNS
from twinnet.restore import native
from twinnet.restore.fit import Passes, SiteData, StageProblem, TableLayout

CASES = {
    "s x4, 17 nodes": (["s"], 1, 4, Grid.bits(4), 0),
    "two line patterns x2, 9 nodes": (["P2", "P3"], 1, 2, Grid.bits(5), 0),
    "quad on an x2 image": (["Q1", "R5"], 2, 4, Grid.bits(6), 0),
    "banded": (["R2", "R3"], 2, 2, Grid.bits(4), 2),
    "three taps x3, even grid": (["F"], 1, 3, Grid.even(17), 0),
    "two taps x1, banded": (["V"], 1, 1, Grid.bits(4), 1),
    "one tap": ([((0, 1),)], 1, 1, Grid.bits(4), 0),
}


def make(case: str, random: np.random.Generator, **options: object) -> StageProblem:
    names, cell, upscale, grid, width = CASES[case]
    layouts = [
        TableLayout(PATTERNS[n] if isinstance(n, str) else n, grid, upscale, cell, width=width) for n in names
    ]
    shapes = [(9, 43), (5, 3)]
    sources = [random.integers(0, 256, (h * cell, w * cell), dtype=np.uint8) for h, w in shapes]
    targets = [random.integers(0, 256, (h * upscale, w * upscale), dtype=np.uint8) for h, w in shapes]
    data = SiteData.prepare(sources, targets, cell=cell, upscale=upscale)
    return StageProblem(layouts, data, 0.5, 3.0, Passes(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES)
def test_native_passes_equal_the_numpy_ones(case: str) -> None:
    random = np.random.default_rng(1)
    slow = make(case, random, executor="numpy")
    entries = random.normal(0, 50, slow.size).astype(np.float32)
    loss, gradient = slow.loss_grad(entries)
    curve, product = slow.normal_product(entries)
    for variant in native.instruction_sets():
        for threads in (1, 3):
            fast = make(
                case, np.random.default_rng(1), executor="native", instruction_set=variant, threads=threads
            )
            assert fast.loss(entries) == pytest.approx(loss, rel=1e-6)
            found, mine = fast.loss_grad(entries)
            assert found == pytest.approx(loss, rel=1e-6)
            np.testing.assert_allclose(mine, gradient, atol=2e-6 * np.abs(gradient).max())
            found, mine = fast.normal_product(entries)
            assert found == pytest.approx(curve, rel=1e-6)
            np.testing.assert_allclose(mine, product, atol=2e-6 * np.abs(product).max())
            np.testing.assert_allclose(fast.squares(), slow.squares(), rtol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_gradient_equals_differences(case: str, random: np.random.Generator) -> None:
    problem = make(case, random)
    entries = random.normal(0, 20, problem.size).astype(np.float32)
    _, gradient = problem.loss_grad(entries)
    for i in np.argsort(-np.abs(gradient))[:5]:
        up, down = entries.copy(), entries.copy()
        up[i] += 8
        down[i] -= 8  # the loss is quadratic: a central difference is exact for any step
        assert (problem.loss(up) - problem.loss(down)) / 16 == pytest.approx(2 * gradient[i], rel=1e-3)


def test_product_is_that_of_the_dense_matrix(random: np.random.Generator) -> None:
    problem = make("two taps x1, banded", random)
    columns = []
    for i in range(problem.size):
        unit = np.zeros(problem.size, np.float32)
        unit[i] = 1
        columns.append(problem.normal_product(unit)[1])
    dense = np.stack(columns, 1)
    np.testing.assert_allclose(dense, dense.T, atol=1e-5)
    vector = random.normal(0, 1, problem.size).astype(np.float32)
    curve, product = problem.normal_product(vector)
    np.testing.assert_allclose(product, dense @ vector, atol=1e-4)
    assert curve == pytest.approx(float(vector @ dense @ vector), rel=1e-5)


def test_prediction_is_what_the_engine_gives(random: np.random.Generator) -> None:
    """The loss of int8 tables is zero against the engine's own output, where nothing is rounded or clipped."""
    from twinnet.lut.executors import make as executor
    from twinnet.lut.plan import INPUT, Plan, Plane, Requant, Sample, Stage, Term

    layout = TableLayout(PATTERNS["y"], Grid.bits(8), 2)  # two nodes: sums are multiples of 1/256
    entries = random.integers(0, 30, (layout.rows, layout.outputs)).astype(np.float32) * 2
    term = Term(Sample((Plane(INPUT),), layout.offsets), "t")
    requant = Requant("sum", (("clip", 0, 255), ("round",)))
    plan = Plan.build([Stage("stage1", (term,), requant, upscale=2)], {"t": layout.table(entries)})
    image = random.integers(0, 2, (7, 9), dtype=np.uint8) * 128
    out = executor(plan, "reference").run(image[None])[0, 0]
    data = SiteData.prepare([image], [out], upscale=2)
    problem = StageProblem([layout], data, 1.0)
    assert problem.rmse(problem.join([entries])) <= 0.5


def test_bad_problems_are_refused(random: np.random.Generator) -> None:
    problem = make("s x4, 17 nodes", random)
    with pytest.raises(UsageError, match="entries"):
        problem.loss(np.zeros(3, np.float32))
    with pytest.raises(UsageError, match="reaches"):
        StageProblem([TableLayout(((0, 0), (0, 30)), Grid.bits(4), 4)], problem.data, 1.0)
    with pytest.raises(UsageError, match="cell and upscale"):
        StageProblem([TableLayout(PATTERNS["s"], Grid.bits(4), 2)], problem.data, 1.0)
    with pytest.raises(UsageError, match="no executor"):
        make("s x4, 17 nodes", random, executor="gpu")
    with pytest.raises(EngineError, match="instruction set"):
        make("s x4, 17 nodes", random, instruction_set="avx1024").loss(np.zeros(problem.size, np.float32))
    with pytest.raises(UsageError, match="1 to 4 taps"):
        TableLayout(((0, 0),) * 5)
    with pytest.raises(UsageError, match="does not fit"):
        SiteData.prepare([np.zeros((4, 4), np.uint8)], [np.zeros((9, 8), np.uint8)], upscale=2)
    with pytest.raises(UsageError, match="no images"):
        SiteData.prepare([], [])
    with pytest.raises(UsageError, match="uint8"):
        SiteData.prepare([np.zeros((4, 4))], [np.zeros((4, 4), np.uint8)])
