"""What must be refused, and the smallest and strangest things that must work."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from random_plans import random_image, random_plan

import twinnet.lut.native as native
from twinnet.errors import EngineError, UsageError
from twinnet.lut.executors import make
from twinnet.lut.executors.native import NativeExecutor
from twinnet.lut.executors.numpy_path import NumpyExecutor
from twinnet.lut.plan import INPUT, Plan, Plane, Requant, Sample, Stage, Table, Term
from twinnet.lut.reference import run_reference

LAST = Requant("direct", (("clip", 0, 255), ("round",)))


def simple(values: np.ndarray, upscale: int = 4, nodes: int = 17, **options) -> Plan:
    table = Table(values, 4, nodes, 256 // (nodes - 1))
    sample = Sample((Plane(INPUT),), ((0, 0), (0, 1), (1, 0), (1, 1)))
    return Plan.build([Stage("stage1", (Term(sample, "t", **options),), LAST, upscale=upscale)], {"t": table})


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    return np.random.default_rng(3).integers(-127, 128, (17**4, 16)).astype(np.int8)


@pytest.fixture(params=[NativeExecutor, NumpyExecutor])
def kind(request):
    if request.param is NativeExecutor:
        request.getfixturevalue("engine")
    return request.param


@pytest.mark.parametrize(
    "broken", [lambda t: t[:-1], lambda t: t[:100], lambda t: t.astype(np.float32), lambda t: t.reshape(-1)]
)
def test_damaged_tables_are_refused_before_anything_runs(kind, table, broken):
    plan = simple(table)
    damaged = Plan(plan.stages, {"t": replace(plan.tables["t"], values=broken(table))}, plan.scales)
    with pytest.raises(UsageError, match="table t"):
        kind(damaged)


def test_the_engine_itself_checks_sizes(engine, table):
    """The engine does not rely on the checks in front of it."""
    plan = simple(table)
    damaged = Plan(plan.stages, {"t": _Unchecked(table[:-1], 4, 17, 16)}, plan.scales)
    with pytest.raises(EngineError, match="rows do not fill its grid"):
        NativeExecutor(damaged)
    narrow = Plan(plan.stages, {"t": _Unchecked(table[:, :9].copy(), 4, 17, 16)}, plan.scales)
    with pytest.raises(EngineError, match="do not fit the stage's output"):
        NativeExecutor(narrow)


class _Unchecked(Table):
    def check(self, name: str) -> None:
        pass


def test_images_that_are_none(kind, table):
    executor = kind(simple(table))
    for shape in ((1, 0, 5), (1, 5, 0), (0, 4, 4)):
        with pytest.raises(UsageError, match="empty"):
            executor.run(np.zeros(shape, np.uint8))
    for wrong in (np.zeros((4, 4), np.uint8), np.zeros((1, 4, 4), np.float32), np.full((1, 2, 2), np.nan)):
        with pytest.raises(UsageError, match="uint8"):
            executor.run(wrong)


def test_smallest_images_and_extreme_values(kind, table):
    plan = simple(table)
    executor = kind(plan)
    for rows, columns in ((1, 1), (1, 2), (2, 1), (1, 300), (300, 1)):
        for value in (0, 255):
            image = np.full((rows, columns), value, np.uint8)
            np.testing.assert_array_equal(executor.run(image[None])[0], run_reference(plan, image))


@pytest.mark.parametrize("nodes", [2, 3, 17, 257 // 16 + 1])
def test_pixel_255_reads_inside_every_grid(kind, nodes):
    rng = np.random.default_rng(nodes)
    plan = simple(rng.integers(-127, 128, (nodes**4, 1)).astype(np.int8), upscale=1, nodes=nodes)
    image = rng.choice(np.array([0, 1, 239, 240, 254, 255], np.uint8), (9, 70))
    np.testing.assert_array_equal(kind(plan).run(image[None])[0], run_reference(plan, image))


def test_any_strides_in_and_out(engine, table):
    plan = simple(table)
    executor = NativeExecutor(plan, threads=2)
    rgb = np.stack([random_image(k, 23, 71) for k in range(3)], axis=-1)
    wanted = np.stack([run_reference(plan, rgb[..., k]) for k in range(3)])
    planes = np.moveaxis(rgb, -1, 0)
    np.testing.assert_array_equal(executor.run(planes), wanted)
    woven = np.zeros((92, 284, 3), np.uint8)
    executor.run(planes, out=np.moveaxis(woven, -1, 0)[:, None])
    np.testing.assert_array_equal(np.moveaxis(woven, -1, 0), wanted[:, 0])
    with_alpha = np.zeros((92, 284, 4), np.uint8)
    executor.run(planes, out=np.moveaxis(with_alpha, -1, 0)[:3, None])
    np.testing.assert_array_equal(np.moveaxis(with_alpha, -1, 0)[:3], wanted[:, 0])
    assert not with_alpha[..., 3].any()
    turned = executor.run(planes[:, ::-1, ::-2])
    np.testing.assert_array_equal(turned[1], run_reference(plan, rgb[::-1, ::-2, 1]))
    larger = np.zeros((3, 1, 100, 400), np.uint8)
    executor.run(planes, out=larger[:, :, 4:96, 10:294])
    np.testing.assert_array_equal(larger[:, :, 4:96, 10:294], wanted)
    assert not larger[:, :, :4].any() and not larger[:, :, 96:].any() and not larger[..., :10].any()
    with pytest.raises(UsageError, match="output must be"):
        executor.run(planes, out=np.zeros((3, 1, 92, 283), np.uint8))


def test_in_place_runs_read_before_they_write(engine):
    plan = simple(np.random.default_rng(1).integers(-127, 128, (17**4, 1)).astype(np.int8), upscale=1)
    image = random_image(5, 30, 40)
    wanted = run_reference(plan, image)
    NativeExecutor(plan).run(image[None], out=image[None, None])
    np.testing.assert_array_equal(image, wanted[0])


@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_threads_do_not_change_results(engine, threads):
    plan = random_plan(7)
    planes = np.stack([random_image(k, 50, 33) for k in range(2)])
    executor = NativeExecutor(plan, threads=threads)
    for plane, got in zip(planes, executor.run(planes)):
        np.testing.assert_array_equal(got, run_reference(plan, plane))


def test_one_executor_serves_many_callers(engine, table):
    plan = simple(table)
    executor = NativeExecutor(plan, threads=2)
    images = [random_image(k, 40, 90) for k in range(6)]
    wanted = [run_reference(plan, image) for image in images]
    found: dict[int, np.ndarray] = {}
    callers = [
        threading.Thread(target=lambda k=k: found.update({k: executor.run(images[k][None])[0]}))
        for k in range(6)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for k in range(6):
        np.testing.assert_array_equal(found[k], wanted[k])


def test_other_python_threads_go_on_during_a_run(engine, table):
    executor = NativeExecutor(simple(table), threads=1)
    image = np.zeros((1, 1500, 1500), np.uint8)
    started, counted = threading.Event(), []

    def run() -> None:
        started.set()
        executor.run(image)
        counted.append(count)

    count = 0
    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    while thread.is_alive():
        count += 1
    thread.join()
    assert counted[0] > 1000, "the interpreter stood still while the engine ran"


def test_wrong_options(engine, table):
    with pytest.raises(UsageError, match="threads"):
        NativeExecutor(simple(table), threads=0)
    with pytest.raises(EngineError, match="no mmx kernels"):
        NativeExecutor(simple(table), kernels="mmx")


def test_without_the_engine_auto_takes_the_numpy_path(monkeypatch, table):
    monkeypatch.setattr(native, "find_library", lambda: None)
    native.library.cache_clear()
    try:
        plan = simple(table)
        executor = make(plan, "auto")
        assert isinstance(executor, NumpyExecutor)
        image = random_image(2, 9, 14)
        np.testing.assert_array_equal(executor.run(image[None])[0], run_reference(plan, image))
        with pytest.raises(EngineError, match="was not built"):
            make(plan, "native")
    finally:
        native.library.cache_clear()


def test_a_file_that_is_no_engine(tmp_path):
    wrong = tmp_path / "_engine.so"
    wrong.write_bytes(b"\x7fELF not really")
    with pytest.raises(EngineError, match="does not load"):
        native.open_library(wrong)
