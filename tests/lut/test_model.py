"""Running models on arrays: tiles, strips, odd sizes, wrong arrays."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.lut.zoo import CASES, random_net
from twinnet import lut
from twinnet.errors import UsageError


@pytest.mark.parametrize("name", ["cascade", "auto-spf", "mulut-eho-x1", "srlut-S"])
@pytest.mark.parametrize("tile", [3, 16])
def test_tiles_do_not_show(name, tile):
    image = np.random.default_rng(1).integers(0, 256, (tile * 2 + 1, tile * 2 + 5, 3), np.uint8)
    plan = lut.lower(random_net(name))
    whole = lut.LutModel(plan)(image)
    model = lut.LutModel(plan, tile=tile)
    shares: list[float] = []
    assert np.array_equal(model(image, shares.append), whole)
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) > 1


def test_gray_colour_and_views_agree():
    image = np.random.default_rng(1).integers(0, 256, (8, 10, 3), np.uint8)
    model = lut.LutModel(lut.lower(random_net("srlut-S")))
    colour = model(image)
    assert colour.shape == (16, 20, 3)
    for c in range(3):
        assert np.array_equal(model(image[..., c]), colour[..., c])
    assert np.array_equal(model(image[::-1, ::2]), model(np.ascontiguousarray(image[::-1, ::2])))


@pytest.mark.parametrize("name", sorted(CASES))
def test_tiny_images(name):
    model = lut.LutModel(lut.lower(random_net(name)))
    for shape in [(1, 1), (1, 9), (9, 1), (2, 2)]:
        assert model(np.full(shape, 255, np.uint8)).shape == (shape[0] * model.scale, shape[1] * model.scale)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((0, 4), np.uint8), "empty"),
        (np.zeros((4, 0, 3), np.uint8), "empty"),
        (np.zeros((4, 4), np.float32), "uint8, not float32"),
        (np.zeros((4, 4), np.uint16), "uint8, not uint16"),
        (np.zeros(4, np.uint8), "rows, columns"),
    ],
)
def test_wrong_arrays_are_refused(array, message):
    model = lut.LutModel(lut.lower(random_net("srlut-S")))
    with pytest.raises(UsageError, match=message):
        model(array)


def test_a_constant_image_gives_the_node_value():
    """Values 0 and 255 are the ends of every grid; on the diagonal the interpolation is linear."""
    net = random_net("srlut-S")
    unit = next(lut.units(net))[1]
    ramp = np.arange(9)[:, None, None, None, None] * np.ones((9, 9, 9, 9, 4))
    table = replace(unit.as_table(), values=(ramp.reshape(-1, 4) * 7).astype(np.int8))
    unit.set_table(table)
    model = lut.LutModel(lut.lower(net), executor="reference")
    for value in (0, 32, 100, 224, 255):
        assert model(np.full((3, 3), value, np.uint8)).tolist()[0][0] == round(4 * 7 * value / 32)


def test_running_tables_needs_no_torch(tmp_path):
    path = lut.save(random_net("auto-mulut"), tmp_path / "net.lut.safetensors")
    code = (
        "import sys, numpy as np; from twinnet import lut; "
        f"print(lut.load({str(path)!r})(np.zeros((3, 4), np.uint8)).shape, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "(6, 8) False"


def test_a_folder_stands_for_the_one_file_of_tables_in_it(tmp_path):
    from twinnet.lut.model import open_tables

    net = random_net("srlut-S")
    lut.export(net)
    lut.save(net, tmp_path / "a.lut.safetensors")
    assert open_tables(tmp_path).plan.scale == 2
    lut.save(net, tmp_path / "b.lut.safetensors")
    with pytest.raises(UsageError, match=r"holds 2 files of tables\n  choose one: a.lut.safetensors, b"):
        open_tables(tmp_path)
    (tmp_path / "words.txt").write_text("words")
    with pytest.raises(UsageError, match=r"words.txt is not a file of tables\n.*\.lut\.safetensors"):
        open_tables(tmp_path / "words.txt")
