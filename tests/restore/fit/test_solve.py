"""The solver against dense least squares, and what it promises about symmetry, grids and int8."""

from __future__ import annotations

import numpy as np
import pytest

from twinnet.lut.grid import Grid
from twinnet.lut.patterns import PATTERNS
from twinnet.restore.fit import Penalty, Settings, SiteData, StageProblem, TableLayout, fit_stage, solve
from twinnet.restore.fit.gauge import level
from twinnet.restore.fit.smooth import Smoothness
from twinnet.restore.fit.solve import _improve, deployed


def small(random: np.random.Generator, upscale: int = 2) -> SiteData:
    source = random.integers(0, 256, (24, 26), dtype=np.uint8)
    target = np.repeat(np.repeat(source, upscale, 0), upscale, 1)
    noise = random.integers(-20, 20, target.shape)
    return SiteData.prepare([source], [(target + noise).clip(0, 255).astype(np.uint8)], upscale=upscale)


def test_solver_finds_the_dense_solution(random: np.random.Generator) -> None:
    layout = TableLayout(((0, 0), (1, 2)), Grid.bits(6), 2)  # no mirror: every entry is free
    assert layout.mirror() is None
    problem = StageProblem([layout], small(random), 0.5)
    penalty = Penalty(size=0.5, axis=2.0, diagonal=3.0)
    start = random.normal(0, 10, problem.size).astype(np.float32)
    *_, found = _improve(problem, start, penalty)
    dense = np.stack([problem.normal_product(unit)[1] for unit in np.eye(problem.size, dtype=np.float32)], 1)
    smooth = Smoothness([layout], penalty, 0.5)
    extra = np.zeros_like(dense)
    for i in range(problem.size):
        column = np.zeros(problem.size, np.float32)
        smooth.add_product(np.eye(problem.size, dtype=np.float32)[i], column)
        extra[:, i] = column
    np.testing.assert_allclose(extra, extra.T, atol=1e-6)
    np.testing.assert_allclose(np.diag(extra), smooth.diagonal(), rtol=1e-5)
    right = -problem.loss_grad(start)[1].astype(np.float64)
    exact = np.linalg.solve((dense + extra).astype(np.float64), right)
    np.testing.assert_allclose(found, exact, atol=2e-3 * np.abs(exact).max())


@pytest.mark.parametrize("name", ["s", "y", "P2", "P4", "Q1", "Q3", "R5"])
def test_mirrored_images_give_mirrored_results(name: str, random: np.random.Generator) -> None:
    """A fitted table of a symmetric pattern treats an image and its mirror image alike."""
    cell = 2 if name[0] in "QR" else 1
    layout = TableLayout(PATTERNS[name], Grid.bits(6), 2, cell)
    mirror = layout.mirror()
    assert mirror is not None
    rows, outputs = mirror
    np.testing.assert_array_equal(rows[rows], np.arange(layout.rows))  # a reflection is its own inverse
    entries = random.normal(0, 20, (layout.rows, layout.outputs)).astype(np.float32)
    entries = (entries + entries[rows][:, outputs]) / 2
    image = random.integers(0, 256, (8 * cell, 8 * cell), dtype=np.uint8)
    target = random.integers(0, 256, (16, 16), dtype=np.uint8)
    losses = []
    for picture, wanted in ((image, target), (image[:, ::-1], target[:, ::-1]), (image.T, target.T)):
        data = SiteData.prepare(
            [np.ascontiguousarray(picture)], [np.ascontiguousarray(wanted)], cell=cell, upscale=2
        )
        losses.append(StageProblem([layout], data, 1.0).loss(entries.reshape(-1)))
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert losses[2] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.parametrize(("old", "new", "width"), [(6, 5, 0), (5, 4, 0), (5, 4, 2), (4, 4, 1)])
def test_a_finer_grid_begins_as_the_same_function(
    old: int, new: int, width: int, random: np.random.Generator
) -> None:
    before = TableLayout(PATTERNS["y"], Grid.bits(old), 2)
    after = before.on(Grid.bits(new), width)
    entries = random.normal(0, 20, (before.rows, 4)).astype(np.float32)
    carried = after.carry(entries, before)
    source = random.integers(0, 256, (9, 40), dtype=np.uint8)
    data = SiteData.prepare([source], [np.zeros((18, 80), np.uint8)], upscale=2)
    # A band gives up nothing as long as the rest has the old grid.
    if old > new or not width:
        a = StageProblem([before], data, 1.0).loss(entries.reshape(-1))
        assert StageProblem([after], data, 1.0).loss(carried.reshape(-1)) == pytest.approx(a, rel=1e-5)


def test_levelling_changes_no_output_and_brings_tables_into_range(random: np.random.Generator) -> None:
    layouts = [TableLayout(PATTERNS[n], Grid.bits(5), 2) for n in ("s", "d", "y")]
    problem = StageProblem(layouts, small(random), 1 / 3)
    tables = [layout.linear(0.25) for layout in layouts]
    shift = layouts[0].points()[:, :1].astype(np.float32)  # any function of the shared tap
    drifted = [tables[0] + shift, tables[1] - shift, tables[2]]
    plain, moved = problem.loss(problem.join(tables)), problem.loss(problem.join(drifted))
    assert moved == pytest.approx(plain, rel=1e-4)
    found = level(layouts, drifted)
    assert problem.loss(problem.join(found)) == pytest.approx(plain, rel=1e-4)
    assert max(float(np.abs(t).max()) for t in drifted) > 127
    assert max(float(np.abs(t).max()) for t in found) < 100
    assert deployed(problem, drifted).clipped == 0


def test_fits_as_well_in_numpy(random: np.random.Generator) -> None:
    data = small(random)
    layouts = [TableLayout(PATTERNS["V"], Grid.bits(5), 2)]
    runs = [
        fit_stage(layouts, (data, data), 1.0, settings=Settings(executor=name))
        for name in ("native", "numpy")
    ]
    assert runs[0].error == pytest.approx(runs[1].error, rel=1e-3)
    assert runs[0].tables[0].dtype == np.int8


def test_stops_when_validation_stops_gaining(random: np.random.Generator) -> None:
    data = small(random)
    layouts = [TableLayout(PATTERNS["s"], Grid.bits(6), 2)]
    seen: list[int] = []
    patient = Settings(iterations=(500,), check_every=1, patience=0)
    found = fit_stage(
        layouts, (data, data), 1.0, settings=patient, watch=lambda done, total, note: seen.append(done)
    )
    assert len(seen) < 400
    assert found.iterations <= len(seen)


def test_a_small_share_is_a_few_images_never_all(
    random: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [random.integers(0, 256, (6, 6), dtype=np.uint8) for _ in range(20)]
    data = SiteData.prepare(images, images)
    seen = []
    real = solve.StageProblem

    def problem(layouts, sites, *more, **settings):
        seen.append(len(sites.images))
        return real(layouts, sites, *more, **settings)

    monkeypatch.setattr(solve, "StageProblem", problem)
    layout = TableLayout(((0, 0), (0, 1)), Grid.bits(5))
    fit_stage([layout], (data, None), 1.0, settings=Settings(iterations=(1,), shares=(0.01, 0.5, 1.0)))
    assert seen == [4, 10, 20]
