"""The inert reader: reads what PyTorch wrote, runs nothing that is in it."""

from __future__ import annotations

import os
import pickle
import zipfile

import numpy as np
import pytest
import torch

from tests.needs import need_data
from twinnet.errors import UsageError
from twinnet.pth import read_pth

FILES = [
    ("SR-LUT/Model_S.pth", "SR-LUT/Model_S_state.npz"),
    ("MuLUT/sr_x2sdy/Model_200000.pth", "MuLUT/sr_x2sdy/Model_200000_state.npz"),
]


@pytest.mark.parametrize(("pth", "npz"), FILES)
def test_published_checkpoints(pth, npz):
    data = need_data("lut-data")
    found, expected = read_pth(data / pth), np.load(data / npz)
    assert set(found) == set(expected.files)
    for name, array in found.items():
        assert array.dtype == expected[name].dtype and np.array_equal(array, expected[name])


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_what_torch_writes(tmp_path, legacy, whole):
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Linear(4, 5).half())
    thing = net if whole else {"net": net.state_dict(), "step": 3, "views": torch.arange(12).reshape(3, 4).T}
    torch.save(thing, tmp_path / "net.pth", _use_new_zipfile_serialization=not legacy)
    found = read_pth(tmp_path / "net.pth")
    prefix = "" if whole else "net."
    for name, tensor in net.state_dict().items():
        assert np.array_equal(found[prefix + name], tensor.numpy())
    if not whole:
        assert np.array_equal(found["views"], np.arange(12).reshape(3, 4).T)


class _Hostile:
    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("legacy", [False, True])
def test_hostile_pickles_do_nothing(tmp_path, legacy):
    mark = tmp_path / "ran"
    thing = {"weight": torch.ones(2), "trap": _Hostile(str(mark))}
    torch.save(thing, tmp_path / "trap.pth", _use_new_zipfile_serialization=not legacy)
    assert list(read_pth(tmp_path / "trap.pth")) == ["weight"]
    assert not mark.exists()
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(_Hostile(str(mark))))
    with pytest.raises(UsageError):
        read_pth(tmp_path / "plain.pth")
    assert not mark.exists()


@pytest.mark.parametrize("legacy", [False, True])
def test_damaged_files(tmp_path, legacy):
    path = tmp_path / "net.pth"
    torch.save({"w": torch.rand(50, 50)}, path, _use_new_zipfile_serialization=not legacy)
    whole = path.read_bytes()
    for size in (0, 3, 60, len(whole) // 2, len(whole) - 100):
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError):
            read_pth(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(UsageError, match="not one of PyTorch"):
        read_pth(path)
    with pytest.raises(UsageError, match="no such file"):
        read_pth(tmp_path / "missing.pth")


def test_a_tensor_beyond_its_storage_is_refused(tmp_path):
    path = tmp_path / "net.pth"
    torch.save({"w": torch.rand(4)}, path)
    with zipfile.ZipFile(path) as archive:
        parts = {n: archive.read(n) for n in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content[:8] if name.endswith("data/0") else content)
    with pytest.raises(UsageError, match="beyond its storage"):
        read_pth(path)
