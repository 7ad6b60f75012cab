"""Climbs on small networks: where they end, what they say, what they cost, and how they go on."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from tests.ladder.planted import Block, net_with
from twinnet.checking.options import Options
from twinnet.cutting import Cut
from twinnet.engines import parse_spec
from twinnet.errors import UsageError
from twinnet.ladder import ladder
from twinnet.ladder.refused import refusing_modules
from twinnet.network import load_network
from twinnet.result import Climb, Rung

X = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
REFUSING, CHANGING = "planted?op=Sigmoid", "planted?op=Sigmoid&do=change"


class Branch(nn.Module):
    """Not exported: which way it goes depends on the data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


def climbed(net: nn.Module, twin: str, **more: Any) -> Climb:
    return ladder(net, X, twin, **more).climbs[0]


def test_a_network_without_a_fault_climbs_to_the_top() -> None:
    found = climbed(net_with(None), REFUSING)
    assert found.verdict == "PASS" and found.bad is None
    assert found.order == ("0", "1", "2", "3", "4")
    # The whole holds every rung: nothing else need be checked.
    assert [(r.name, r.cut) for r in found.rungs] == [("4", "prefix")]


def test_a_changed_operator_ends_at_its_block_and_is_blamed(tmp_path: Path) -> None:
    found = climbed(net_with(nn.Sigmoid()), CHANGING, out=tmp_path)
    assert found.bad is not None and found.smallest is not None and found.fault is not None
    assert (found.bad.name, found.smallest.name) == ("2", "2.tail")
    assert "tail" in found.bad.where and found.bad.ratio is not None and found.bad.ratio > 1000
    assert "relu" in found.bad.cause.lower()
    assert found.fault.kind == "execution" and "kernels=plain" in found.fault.sentence
    # The finding of the whole says where to look: the rung before it is right, and it is not.
    prefixes = [r.name for r in found.rungs if r.cut == "prefix"]
    assert prefixes[:3] == ["4", "1", "2"]
    page = (tmp_path / "report.html").read_text()
    assert "<svg" in page and "2.tail" in page and "planted?op=Sigmoid" in page
    assert json.loads((tmp_path / "ladder.json").read_text())["verdict"] == "FAIL"


def test_a_module_that_is_not_exported_is_found() -> None:
    found = climbed(net_with(nn.Sequential(nn.Identity(), Branch())), "onnxruntime")
    assert found.bad is not None and found.smallest is not None
    assert (found.bad.name, found.smallest.name, found.smallest.kind) == ("2", "2.tail.1", "Branch")
    assert "x.sum() > 0" in found.smallest.error and found.smallest.stage == "export"


@pytest.mark.parametrize("engine", ["planted", "planted-closed"])
def test_a_refusal_without_a_word_is_found_by_opening_parts(engine: str) -> None:
    found = climbed(net_with(nn.Sigmoid()), f"{engine}?op=Sigmoid&do=mute")
    assert found.bad is not None and found.smallest is not None
    assert (found.bad.name, found.smallest.name) == ("2", "2.tail")
    # Of the rungs only the top, the bad one and the one below it are judged.
    assert [r.name for r in found.rungs if r.cut == "prefix" and "." not in r.name] == ["4", "2", "1"]


def test_a_network_that_cannot_be_cut_tells_nothing() -> None:
    cut = Cut(load_network((nn.Sigmoid(), (X,))), [{"input": X.numpy()}])
    assert refusing_modules(cut, parse_spec("planted?op=Sigmoid&do=mute"), Options()) == []


def test_a_fault_between_modules_is_named_by_the_rung_after_it() -> None:
    class Between(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two(torch.sigmoid(self.one(x)))

    found = ladder(Between().eval(), torch.ones(1, 4), REFUSING).climbs[0]
    assert found.bad is not None
    assert found.bad.name == "two" and found.smallest is None


def test_all_of_them() -> None:
    net = net_with(nn.Sigmoid())
    seen: list[tuple[str, Rung]] = []
    every = climbed(
        net, REFUSING, way="every", at=["[024]"], tell=lambda twin, rung: seen.append((twin, rung))
    )
    rows = [(r.name, r.cut, r.verdict) for _, r in seen if "." not in r.name]
    assert rows[:3] == [("0", "prefix", "PASS"), ("2", "prefix", "ERROR"), ("4", "prefix", "ERROR")]
    assert rows[3:] == [("0", "block", "PASS"), ("2", "block", "ERROR"), ("4", "block", "PASS")]
    assert seen[0][0] == REFUSING and every.bad is not None and every.bad.name == "2"
    third = seen[1][1]
    assert third.ops == ("sigmoid",) and third.parameters == 112 + 2 * 148 and third.seconds > 0


def test_an_interrupted_climb_goes_on(tmp_path: Path) -> None:
    net = net_with(nn.Sigmoid())

    def stop(twin: str, rung: Rung) -> None:
        if rung.name == "2" and rung.cut == "prefix":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        climbed(net, REFUSING, out=tmp_path, tell=stop)
    written = {p: p.stat().st_mtime_ns for p in tmp_path.glob("rungs/*/result.json")}
    assert len(written) >= 2
    found = climbed(net, REFUSING, out=tmp_path)
    assert found.smallest is not None and found.smallest.name == "2.tail"
    assert {p: p.stat().st_mtime_ns for p in written} == written
    # Other weights are another climb.
    with torch.no_grad():
        net.get_submodule("0.conv").weight.mul_(2)  # type: ignore[union-attr, operator]
    climbed(net, REFUSING, out=tmp_path)
    assert {p: p.stat().st_mtime_ns for p in written} != written


def sized(size: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    blocks = {"small": [Block(3, 4)], "large": [Block(3, 4), Block(4, 4, nn.Sigmoid())]}[size]
    return nn.Sequential(*blocks).eval(), X


@pytest.mark.slow
def test_networks_of_several_sizes() -> None:
    found = ladder(sized, None, REFUSING, sizes=["small", "large"]).climbs[0]
    assert found.order == ("small", "large")
    assert [r.name for r in found.rungs][:2] == ["small", "large"]  # from the bottom up
    assert found.bad is not None and found.smallest is not None
    assert (found.bad.name, found.smallest.name) == ("large", "large.1.tail")
    assert found.rungs[1].ops == ("sigmoid",)


@pytest.mark.slow
def test_files_are_climbed_too(tmp_path: Path) -> None:
    net = net_with(nn.Sigmoid())
    torch.onnx.export(net, (X,), tmp_path / "net.onnx", dynamo=True, verbose=False)
    found = ladder(tmp_path / "net.onnx", X.numpy(), REFUSING).climbs[0]
    assert found.smallest is not None and found.smallest.kind == "Sigmoid"
    program = torch.export.export(net, (X,))
    torch.export.save(program, tmp_path / "net.pt2")
    again = ladder(tmp_path / "net.pt2", X.numpy(), REFUSING).climbs[0]
    assert again.smallest is not None and again.smallest.name == "2.tail"


def test_wrong_usage() -> None:
    net = net_with(None)
    for twin, more, said in [
        ("onnxruntime:net.onnx", {}, "has no rungs"),
        (REFUSING, {"at": ["nothing*"]}, "runs no module that matches"),
        (REFUSING, {"sizes": ["a"], "at": ["0"]}, "cannot be combined"),
    ]:
        with pytest.raises(UsageError, match=said):
            ladder(net, X, twin, **more)  # type: ignore[arg-type]


def test_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from twinnet.cli.main import app

    monkeypatch.chdir(tmp_path)
    words = ["ladder", "tests.ladder.test_climb:sigmoid_net", "--twin", REFUSING, "-o", "out"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 3, shown.output
    lines = shown.output.splitlines()
    assert lines[0] == REFUSING and lines[1].startswith("rung") and lines[2].startswith("4 ")
    assert "smallest 2.tail (Sigmoid) breaks by itself" in shown.output
    assert "fault in conversion: it cannot be converted" in shown.output
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    assert told["climbs"][0]["bad"]["name"] == "2" and (tmp_path / "out" / "report.html").is_file()


def test_the_command_to_go_on_with_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is not exported has no repro; a folder may have a space in its name."""
    from twinnet.cli.main import app

    monkeypatch.chdir(tmp_path)
    for net, twin, verb in (("branch_net", "onnxruntime", "show"), ("sigmoid_net", CHANGING, "repro")):
        words = ["ladder", f"tests.ladder.test_climb:{net}", "--twin", twin, "-o", f"the {verb}"]
        shown = CliRunner().invoke(app, words)
        assert shown.exit_code in (1, 3), shown.output
        line = next(line for line in shown.output.splitlines() if line.startswith("next"))
        command = shlex.split(line.removeprefix("next"))
        assert command[:2] == ["twinnet", verb]
        after = [word for word in command[1:] if word != "--open"]
        done = CliRunner().invoke(app, after)
        assert done.exit_code != 2, done.output


def branch_net() -> tuple[nn.Module, torch.Tensor]:
    return net_with(Branch()), X


def sigmoid_net() -> tuple[nn.Module, torch.Tensor]:
    return net_with(nn.Sigmoid()), X
