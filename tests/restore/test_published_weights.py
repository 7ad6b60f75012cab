"""Published checkpoints as networks."""

from __future__ import annotations

import numpy as np
import pytest

from twinnet.errors import UsageError
from twinnet.restore.published_weights import from_checkpoint, from_state


def test_what_they_are(data):
    small = from_checkpoint(data / "lut-data/SR-LUT/Model_S.pth")
    assert small.net_name == "srlut-S" and small.scale == 4 and small.rounding == "C"
    large = from_checkpoint(data / "lut-data/MuLUT/sr_x2sdy/Model_200000.pth")
    assert (
        large.scale == 4 and sum(p.numel() for p in large.parameters()) == 265_587 and large.rounding == "A"
    )


def test_what_is_refused(tmp_path):
    with pytest.raises(UsageError, match="neither an SR-LUT nor a MuLUT"):
        from_state({"fc.weight": np.zeros((2, 2))})
    with pytest.raises(UsageError, match="do not fit together"):
        from_state({"conv1.weight": np.zeros((8, 1, 2, 2)), "conv6.weight": np.zeros((16, 8, 1, 1))})
    (tmp_path / "bad.npz").write_bytes(b"no")
    with pytest.raises(UsageError, match="is not a readable"):
        from_checkpoint(tmp_path / "bad.npz")
    with pytest.raises(UsageError, match="no such file"):
        from_checkpoint(tmp_path / "missing.npz")
