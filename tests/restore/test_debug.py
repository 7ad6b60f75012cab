"""One image through both sides: outputs as they are, every site in pixel units."""

from __future__ import annotations

import numpy as np
import pytest

from tests.needs import need_data
from twinnet.errors import UsageError
from twinnet.lut.model import load
from twinnet.restore.checkpoints import trained_network
from twinnet.restore.debug import debug, lines
from twinnet.restore.experiment import open_experiment
from twinnet.restore.predict import predict
from twinnet.restore.sample import scene
from twinnet.restore.tasks.sr import SuperResolution


def test_both_sides_of_our_sample(finished):
    found = debug(finished)
    low, _ = SuperResolution(2).degrade(scene(0, 256, 256))
    assert np.array_equal(found.low, low)
    net, _ = trained_network(open_experiment(finished))
    assert np.array_equal(found.dnn_output, predict(net, low))
    assert np.array_equal(found.lut_output, load(finished / "lut" / "exported.lut.safetensors")(low))
    assert list(found.model_dbg) == list(found.lut_dbg) == [site.name for site in net.sites()]
    out = found.model_dbg["stage1"]
    assert np.abs(np.rint(out[:, 0].clip(0, 255)) - np.moveaxis(found.dnn_output, -1, 0)).max() == 0
    assert np.array_equal(found.lut_dbg["stage1"][:, 0], np.moveaxis(found.lut_output, -1, 0))


def test_worst_sites_and_one_site(finished):
    found = debug(finished)
    worst = found.worst(3)
    assert len(worst) == 3 and worst[0].mean >= worst[1].mean >= worst[2].mean
    gap = found.gap("stage1.in_c0.b0.rot0")
    off = np.abs(found.lut_dbg[gap.site] - found.model_dbg[gap.site])
    assert gap.largest == off[gap.at] == off.max()
    text = found.cmp(".stage1.in_c0.b0.rot0.sr", size=2).splitlines()
    assert len(text) == 3 and text[0].startswith("stage1.in_c0.b0.rot0.sr")
    assert lines(found)[1].startswith("output")
    with pytest.raises(UsageError, match="no site"):
        found.cmp("stage9")


def test_which_image_and_which_tables(finished, make, tmp_path):
    named = debug(finished, image="scene101", table="finetuned")
    assert named.name == "Scenes/scene101" and named.tables == "finetuned tables"
    file = next((finished.parent / "photos").glob("*.png"))
    assert debug(finished, image=str(file)).name == file.name
    with pytest.raises(UsageError, match="no image 'nobody'"):
        debug(finished, image="nobody")
    with pytest.raises(UsageError, match="lut train"):
        debug(make())


def test_butterfly_where_it_is(finished, make):
    from twinnet.restore.train import train

    folder = make(data={"bench": str(need_data("images", "bench")), "benchmarks": ["Set5"]})
    train(folder, quiet=True)
    found = debug(folder)
    assert found.name == "Set5/butterfly" and found.tables == "tables made now"
    assert found.low.shape == (128, 128, 3)
