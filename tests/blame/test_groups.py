"""Findings that are one, and findings that explain the output only with others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import twinnet
from tests.narrow import export
from twinnet.judge.again import judge_again
from twinnet.judge.tolerance import Tolerances
from twinnet.result import Result


def _result(network: Any, image: torch.Tensor, twin: Any, **options: Any) -> Result:
    result = twinnet.check(network, image, twin, **options)
    assert isinstance(result, Result)
    return result


class Tied(nn.Module):
    """The same layer in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(12, 12)
        self.between = nn.Linear(12, 12)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.shared(image))
        x = torch.tanh(self.between(x))
        return self.shared(x)


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, torch.Tensor, Path]:
    torch.manual_seed(3)
    module, image = Tied().eval(), torch.randn(8, 12)
    file = tmp_path_factory.mktemp("tied") / "tied.onnx"
    export(module, image, file)
    return module, image, file


def _planted(file: Path, weight: str, change: Callable[[np.ndarray], None], out: Path) -> str:
    model = onnx.load(file)
    tensor = next(t for t in model.graph.initializer if t.name == weight)
    array = numpy_helper.to_array(tensor).copy()
    change(array)
    tensor.CopyFrom(numpy_helper.from_array(array, weight))
    onnx.save(model, out)
    return str(out)


def _row(array: np.ndarray) -> None:
    array[4] *= 1.5


def test_one_fault_in_a_shared_weight_is_one_finding(
    tied: tuple[nn.Module, torch.Tensor, Path], tmp_path: Path
) -> None:
    module, image, file = tied
    bad = _planted(file, "shared.weight", _row, tmp_path / "bad.onnx")
    result = _result(module, image, f"onnxruntime?opt=off:{bad}")
    (finding,) = result.findings
    assert finding.cause is not None and len(finding.also) == 1
    assert {finding.site.module, finding.also[0].module} == {"shared"}
    assert finding.site.tensor != finding.also[0].tensor
    assert "share the weight" in " ".join(repr(result).split())
    # Judged again it is still one.
    assert judge_again(result, Tolerances()).findings == result.findings


def test_faults_in_different_weights_stay_two(
    tied: tuple[nn.Module, torch.Tensor, Path], tmp_path: Path
) -> None:
    module, image, file = tied
    once = _planted(file, "shared.weight", _row, tmp_path / "one.onnx")
    twice = _planted(Path(once), "between.weight", _row, tmp_path / "two.onnx")
    found = _result(module, image, f"onnxruntime?opt=off:{twice}").findings
    assert [(f.site.module, len(f.also)) for f in found] == [("shared", 1), ("between", 0)]


class Forked(nn.Module):
    """One layer, two readers; the twin shows what these give, and not what they read."""

    def __init__(self, stem: nn.Module) -> None:
        super().__init__()
        self.stem = stem
        self.left, self.right = nn.Tanh(), nn.Sigmoid()
        self.last = nn.Conv2d(6, 4, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.stem(image)
        return self.last(self.left(x) * self.right(x))


def _forked_twin(net: Forked, stem: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    def run(image: np.ndarray) -> dict[str, np.ndarray]:
        with torch.no_grad():
            x = stem(torch.from_numpy(image))
            left, right = net.left(x), net.right(x)
            last = net.last(left * right)
        return {"output": last.numpy(), "left": left.numpy(), "right": right.numpy()}

    return run


def _reflected(net: Forked, x: torch.Tensor) -> torch.Tensor:
    conv = net.stem
    assert isinstance(conv, nn.Conv2d)
    return nn.functional.conv2d(nn.functional.pad(x, (1,) * 4, mode="reflect"), conv.weight, conv.bias)


def _counted(net: Forked, x: torch.Tensor) -> torch.Tensor:
    return nn.functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)


@pytest.mark.parametrize(
    ("stem", "twin", "kind"),
    [(nn.Conv2d(6, 6, 3, padding=1), _reflected, "padding"), (nn.AvgPool2d(3, 1, 1), _counted, "pooling")],
    ids=["convolution", "pooling"],
)
def test_one_fault_behind_an_unseen_tensor_is_one_finding(stem: nn.Module, twin: Any, kind: str) -> None:
    torch.manual_seed(5)
    net, image = Forked(stem).eval(), torch.randn(1, 6, 10, 12)
    result = _result(net, image, _forked_twin(net, lambda x: twin(net, x)))
    (finding,) = result.findings
    assert finding.cause is not None and finding.cause.kind == kind
    assert finding.guilty is not None and finding.place.module == finding.guilty.module == "stem"
    assert {finding.site.module, *(s.module for s in finding.also)} == {"left", "right"}
    assert finding.tie is not None and finding.tie.code == "tie.layer"
    assert "share stem" in " ".join(repr(result).split())


def test_two_faults_behind_an_unseen_tensor_stay_two() -> None:
    torch.manual_seed(5)
    net, image = Forked(nn.Conv2d(6, 6, 3, padding=1)).eval(), torch.randn(1, 6, 10, 12)

    def run(x: np.ndarray) -> dict[str, np.ndarray]:
        with torch.no_grad():
            seen = net.stem(torch.from_numpy(x))
            left, right = torch.nn.functional.hardtanh(seen), torch.nn.functional.hardsigmoid(seen)
            last = net.last(left * right)
        return {"output": last.numpy(), "left": left.numpy(), "right": right.numpy()}

    found = _result(net, image, run).findings
    assert [(f.place.module, f.also) for f in found] == [("left", ()), ("right", ())]


def test_segments_are_merged_until_they_explain_the_output(tmp_path: Path) -> None:
    """A small fault among larger roundings: the finding says who else it takes to explain the output."""
    torch.manual_seed(1)
    module = nn.Sequential(
        nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)
    ).eval()
    with torch.no_grad():
        module.get_submodule("4").weight[:, 7] = 1e-5  # pyright: ignore[reportIndexIssue, reportArgumentType]
    image = torch.randn(4, 16)
    (tmp_path / "twin.py").write_text(
        "import torch\n"
        "parts = torch.load(__file__.replace('twin.py', 'parts.pt'), weights_only=True)\n"
        "def run(x):\n"
        "    value, found = torch.from_numpy(x), {}\n"
        "    for name in '01234':\n"
        "        if name in '13':\n"
        "            value = torch.tanh(value)\n"
        "        else:\n"
        "            value = value @ parts[name + '.weight'].T + parts[name + '.bias']\n"
        "        value = value.half().float()\n"
        "        if name == '3':\n"
        "            value[0, 7] += 0.5\n"
        "        found[name] = value.numpy()\n"
        "    return {**found, 'output': found.pop('4')}\n"
    )
    torch.save(module.state_dict(), tmp_path / "parts.pt")
    result = _result(module, image, f"callable?precision=float16:{tmp_path / 'twin.py'}:run")
    (finding,) = result.findings
    assert finding.site.module == "3" and finding.born_share is not None and finding.born_share < 0.9
    assert finding.explained is not None and finding.explained >= 0.9
    assert len(finding.merged) >= 2 and any(label.startswith("4") for label in finding.merged)
    assert "of the output error" in " ".join(repr(result).split())
