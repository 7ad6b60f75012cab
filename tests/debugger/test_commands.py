"""What single commands say, on small tensors whose answers can be worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from twinnet.debugger.commands import COMMANDS
from twinnet.debugger.commands.compare import cmp
from twinnet.debugger.commands.keep import save
from twinnet.debugger.commands.lineage import born, cause, inputs_of
from twinnet.debugger.commands.listing import sites, worst
from twinnet.debugger.commands.look import plane, show
from twinnet.debugger.commands.patching import patch, repair, rerun, reset, swap
from twinnet.debugger.commands.pixel import at
from twinnet.debugger.commands.place import where
from twinnet.debugger.start import stop_at_check, stop_at_traces, stop_with
from twinnet.debugger.stopped import Stopped
from twinnet.errors import UsageError
from twinnet.store import TensorFile


@pytest.fixture
def traces() -> Stopped:
    ours = {"stage.conv": np.arange(2 * 3 * 4, dtype=float).reshape(1, 2, 3, 4), "out": np.zeros(5)}
    theirs = {name: array.copy() for name, array in ours.items()}
    theirs["stage.conv"][0, 1, 2, 3] -= 0.5
    theirs["out"][2] = np.nan
    return stop_at_traces(ours, theirs)


class Net(nn.Module):
    """A convolution, a batch norm and a head; `flip` negates the norm's output as a faulty twin would."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.head = nn.Conv2d(3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.conv(x))))


def net() -> Net:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return Net().eval()


@pytest.fixture(scope="module")
def checked() -> Iterator[Stopped]:
    """A network in float32 against itself in bfloat16: every site creates a little."""
    x = np.random.default_rng(0).random((1, 2, 5, 6), np.float32)
    stopped = stop_at_check(net(), x, "torch?dtype=bfloat16")
    yield stopped
    stopped.close()


def test_cmp_says_largest_mean_and_a_corner(traces: Stopped) -> None:
    answer = cmp(traces, ".stage.conv", size=2)
    assert answer.text.splitlines() == [
        "stage.conv   1x2x3x4 float64, twin minus network",
        "max 0.5 at [0, 1, 2, 3] (network 23, twin 22.5)",
        "mean 0.02083, 1 of 24 differ",
        "corner [0, 0, :2, :2]",
        "   .  .",
        "   .  .",
    ]
    assert answer.data["max"] == 0.5


def test_cmp_takes_index_ranges_in_every_form(traces: Stopped) -> None:
    wanted = cmp(traces, "stage.conv", "0, 1, 1:3, 2:").text
    assert "max 0.5 at [0, 1, 2, 3]" in wanted
    assert "mean 0.125, 1 of 4 differ" in wanted
    assert wanted.splitlines()[-1].split() == [".", "-0.5"]
    for where_ in (
        (0, 1, slice(1, 3), slice(2, None)),
        ((0, 1, slice(1, 3), slice(2, None)),),
        ("0,1", "1:3, 2:"),
    ):
        assert cmp(traces, "stage.conv", *where_).text.splitlines()[1:] == wanted.splitlines()[1:]
    assert cmp(traces, "stage.conv")[0, 1, 1:3, 2:].text.splitlines()[1:] == wanted.splitlines()[1:]
    assert "max 0 " in cmp(traces, "stage.conv", "..., :2").text.replace("\n", " ")
    around = cmp(traces, "stage.conv", "worst", size=2).text
    assert "[0, 1, 1:3, 2:4]" in around
    assert around.splitlines()[-1].split() == [".", "-0.5"]


@pytest.mark.parametrize("where_", ["0, 5", "x", "0,0,0,0,0", "0, 0, 3:3", "1:2:3:4", "..., ..."])
def test_a_wrong_range_is_said(traces: Stopped, where_: str) -> None:
    with pytest.raises(UsageError):
        cmp(traces, "stage.conv", where_)


def test_cmp_sees_nan_and_arrays(traces: Stopped) -> None:
    assert "NaN or Inf on one side only: 1 elements" in cmp(traces, "out").text
    assert "max 2" in cmp(traces, np.zeros(3), torch.tensor([0, 2, 0])).text
    with pytest.raises(UsageError, match="cannot be compared"):
        cmp(traces, np.zeros(3), np.zeros(4))


def test_sites_and_worst_are_sorted(checked: Stopped, traces: Stopped) -> None:
    names = [s["site"] for s in sites(checked).data["sites"]]
    assert names == [row.site.tensor for row in checked.rows]
    sizes = [s["max"] for s in sites(checked, by="error").data["sites"]]
    assert sizes == sorted(sizes, reverse=True)
    assert [s["site"] for s in sites(checked, "head*").data["sites"]] == [names[-1]]
    assert len(worst(checked, 2).data["sites"]) == 2
    ratios = [s["ratio"] for s in worst(checked).data["sites"]]
    assert ratios == sorted(ratios, reverse=True)
    assert worst(traces, 1).data["sites"][0]["site"] == "out", "a NaN on one side is the worst there is"
    with pytest.raises(UsageError, match="no site matches"):
        sites(checked, "nowhere*")


def test_show_has_statistics_per_channel(traces: Stopped) -> None:
    answer = show(traces, "stage.conv")
    assert answer.data["network"]["max"] == 23
    assert answer.data["twin"]["max"] == 22.5
    first = answer.data["channels"][0]
    assert (first["channel"], first["largest"]) == (1, 0.5)
    assert "channel  max diff" in answer.text


def test_plane_carries_the_numbers(traces: Stopped) -> None:
    import base64

    data = plane(traces, "stage.conv", lead=[0, 1], top=1, left=1, rows=2, columns=2).data
    assert np.frombuffer(base64.b64decode(data["network"]), "<f4").tolist() == [17, 18, 21, 22]
    assert (data["height"], data["width"], data["low"], data["high"]) == (3, 4, 12, 23)
    assert plane(traces, "stage.conv").data["lead"] == [0, 1], "where the worst element is"
    assert plane(traces, "out").data["flat"]
    for wrong in ({"lead": [0, 9]}, {"lead": [0]}, {"top": 3}):
        with pytest.raises(UsageError):
            plane(traces, "stage.conv", **wrong)


def test_where_shows_the_source_line(checked: Stopped) -> None:
    told = where(checked, "conv2d").text
    assert "module conv" in told
    line = next(line for line in told.splitlines() if line.startswith("->"))
    assert "return self.head(torch.relu(self.norm(self.conv(x))))" in line


def test_inputs_lead_back(checked: Stopped) -> None:
    names = [row.site.tensor for row in checked.rows]
    found = inputs_of(checked, names[-1])
    assert [s["site"] for s in found.data["sites"]] == [names[-2]]
    assert inputs_of(checked, names[0]).data["others"] == ["x"]


def test_born_and_cause(checked: Stopped) -> None:
    row = checked.rows[0]
    told = born(checked, row.site.tensor)
    assert told.data["ratio"] == row.ratio
    assert "noise floor" in told.text
    assert "nothing is born here" in cause(checked, row.site.tensor).text


def test_a_pixel_of_a_convolution(checked: Stopped) -> None:
    answer = at(checked, checked.rows[0].site.tensor, 0, 5, channel=2)
    taps = answer.data["layers"][0]["taps"]
    assert len(taps) == 2 * 9
    outside = [t for t in taps if not t["inside"]]
    assert len(outside) == 2 * 5, "a corner pixel reads five taps of nine from the padding"
    module = net()
    bias = module.conv.bias
    assert bias is not None
    total = sum(t["weight"] * t["network"] for t in taps) + float(bias[2])
    assert answer.data["network"] == pytest.approx(total, abs=1e-6)
    with pytest.raises(UsageError, match="out of range for axis"):
        at(checked, checked.rows[0].site.tensor, 5, 0)


def test_patches_reach_the_output_and_reset_takes_them_back(checked: Stopped) -> None:
    site, last = checked.rows[-2].site.tensor, checked.rows[-1].site.tensor
    before = cmp(checked, last).data["max"]
    swap(checked, site)
    assert "after rerun()" in patch(checked, site, checked.trace[site]).text
    after = rerun(checked).data["outputs"][0]
    assert after["max_before"] == before
    assert after["max"] == cmp(checked, last).data["max"]
    assert after["max"] != before
    assert cmp(checked, site).data["max"] < 1e-2, "rounded to bfloat16 only"
    reset(checked)
    assert cmp(checked, last).data["max"] == before
    patch(checked, site, 0.0, side="network")
    rerun(checked)
    head = net().head
    assert head.bias is not None
    constant = np.asarray(checked.trace[last])
    assert np.allclose(constant[0, :, 0, 0], head.bias.detach().numpy())
    reset(checked)
    repair(checked, site)
    rerun(checked)
    reset(checked)
    assert cmp(checked, last).data["max"] == before


def test_patches_that_do_not_fit_are_refused(checked: Stopped) -> None:
    site = checked.rows[-2].site.tensor
    for wrong in (np.zeros((2, 2)), np.array("text"), "text"):
        with pytest.raises(UsageError):
            patch(checked, site, wrong)
    with pytest.raises(UsageError, match="unknown side"):
        patch(checked, site, 0.0, side="both")
    assert checked.patches == {}


def test_save_writes_both_tensors(traces: Stopped, tmp_path: Path) -> None:
    traces.folder = tmp_path
    path = Path(save(traces, "stage.conv").data["path"])
    assert path.parent == tmp_path
    kept = TensorFile(path)
    assert kept["twin"][0, 1, 2, 3] == 22.5
    assert save(traces, "stage.conv", str(tmp_path / "x.png")).data["path"].endswith("x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError):
        save(traces, "stage.conv", str(tmp_path / "x.txt"))


def test_repro_is_made_of_what_was_found(tmp_path: Path) -> None:
    module = net()
    x = np.random.default_rng(0).random((1, 2, 5, 6), np.float32)

    def faulty(x: np.ndarray) -> dict[str, np.ndarray]:
        return {"output": module(torch.from_numpy(x)).detach().numpy() + 1}

    stopped = stop_at_check(module, x, faulty, folder=tmp_path)
    try:
        made = COMMANDS["repro"].function(stopped)
        assert made.data["confirmed"]
        assert (tmp_path / "repro" / "repro.py").exists()
        swap(stopped, stopped.rows[-1].site.tensor)
        with pytest.raises(Exception, match="cannot run with a tensor replaced"):
            rerun(stopped)
    finally:
        stopped.close()


def test_nested_traces_and_what_names_allow() -> None:
    nested = {"block": {".a": np.zeros(2), "b": {"c": torch.zeros(1)}}, "x": np.zeros(1)}
    assert [r.site.tensor for r in stop_with({"model_dbg": nested, "lut_dbg": nested}, Path()).rows] == [
        "block.a",
        "block.b.c",
        "x",
    ]
    assert stop_with({"model_dbg": nested, "lut_dbg": nested}, Path()).unit == "pixels"
    assert stop_with({"anything": 1}, Path()).rows == ()
    with pytest.raises(UsageError, match="no name in common"):
        stop_at_traces({"a": np.zeros(1)}, {"b": np.zeros(1)})
    other = stop_at_traces({"a": np.zeros(2)}, {"a": np.zeros(3)})
    assert other.rows[0].status == "fail"
    with pytest.raises(UsageError, match="the twin has shape"):
        cmp(other, "a")
