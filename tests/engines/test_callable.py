"""Any Python function as a twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import twinnet
from twinnet.result import Result


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Linear(8, 6)
        self.head = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        h = torch.tanh(self.encoder(x))
        y = self.head(h)
        return {"logits": y, "best": y.argmax(-1)}


NET = Net().eval()
X = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
A, B = (m.weight.detach().numpy() for m in (NET.encoder, NET.head))
C, D = (m.bias.detach().numpy() for m in (NET.encoder, NET.head))


def _parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hidden = x @ A.T + C
    return hidden, np.tanh(hidden) @ B.T + D


def _check(twin: Any, **options: Any) -> Result:
    found = twinnet.check(NET, {"x": X}, twin, **options)
    assert isinstance(found, Result)
    return found


def test_a_tuple_stands_for_the_outputs_in_order() -> None:
    found = _check(lambda x: (_parts(x)[1], _parts(x)[1].argmax(-1)))
    assert found.verdict == "PASS" and len(found.pairs) == 2


def test_a_dict_names_outputs_in_any_order_and_shows_modules() -> None:
    def twin(x: np.ndarray) -> dict[str, np.ndarray]:
        hidden, logits = _parts(x)
        return {"encoder": hidden, "best": logits.argmax(-1), "logits": logits}

    found = _check(twin)
    assert found.verdict == "PASS"
    assert [(p.site.module, p.how) for p in found.pairs if p.site.role != "output"] == [("encoder", "module")]


def test_a_fault_is_found_at_the_module_the_function_shows() -> None:
    def twin(x: np.ndarray) -> dict[str, np.ndarray]:
        hidden = x @ A.T + C * 1.01
        logits = np.tanh(hidden) @ B.T + D
        return {"logits": logits, "best": logits.argmax(-1), "encoder": hidden}

    found = _check(twin)
    assert found.verdict == "FAIL" and [f.site.module for f in found.findings] == ["encoder"]


def test_some_of_the_outputs_by_name() -> None:
    found = _check(lambda x: {"best": _parts(x)[1].argmax(-1)})
    assert found.verdict == "PASS", found
    (pair,) = [p for p in found.pairs if p.site.role == "output"]
    assert pair.site.op == "argmax"


def test_one_array_for_one_output() -> None:
    net = nn.Sequential(nn.Linear(8, 3)).eval()
    weight, bias = net[0].weight.detach().numpy(), net[0].bias.detach().numpy()
    good = twinnet.check(net, {"x": X} if False else X, lambda x: x @ weight.T + bias)
    assert good.verdict == "PASS"
    tensor = twinnet.check(net, X, lambda x: torch.from_numpy(x @ weight.T + bias))
    assert tensor.verdict == "PASS"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (lambda x: "text", "not a tensor"),
        (lambda x: [object()], "not a tensor"),
        (lambda x: None, "not a tensor"),
        (lambda x: {}, ""),
    ],
)
def test_what_is_no_tensor_is_an_error(value: Any, words: str) -> None:
    found = _check(value)
    assert found.verdict == "ERROR" and words in found.error


def test_another_shape_is_a_failure_never_broadcast() -> None:
    found = _check(lambda x: (_parts(x)[1][:1], _parts(x)[1].argmax(-1)))
    assert found.verdict == "FAIL" and any("where the network has" in str(p.reason) for p in found.outputs)


def test_a_function_that_raises_is_an_error_with_its_words() -> None:
    def board(x: np.ndarray) -> np.ndarray:
        raise OSError("the board does not answer")

    found = _check(board)
    assert found.verdict == "ERROR" and "could not run board(): the board does not answer" in found.error
    assert found.exit_code == 3


def test_a_function_for_tensors_is_told_that_it_gets_arrays() -> None:
    layer = torch.nn.Linear(X.shape[-1], 3)
    found = _check(lambda x: layer(x))
    assert found.verdict == "ERROR" and "torch.from_numpy" in found.error and "module itself" in found.error


def test_a_function_may_scribble_on_its_input() -> None:
    def twin(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        _, logits = _parts(x)
        x[:] = 0
        return logits, logits.argmax(-1)

    assert _check(twin).verdict == "PASS"


def test_a_declared_precision_widens_the_floor(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", A=A, B=B, C=C, D=D)
    (tmp_path / "twin.py").write_text(
        "import numpy as np\n"
        f"w = np.load({str(tmp_path / 'w.npz')!r})\n"
        "half = {k: w[k].astype(np.float16) for k in w.files}\n"
        "def run(x):\n"
        "    h = np.tanh((x.astype(np.float16) @ half['A'].T + half['C']))\n"
        "    y = h @ half['B'].T + half['D']\n"
        "    return y, y.argmax(-1)\n"
    )
    spec = f"{tmp_path / 'twin.py'}:run"
    assert _check(f"callable:{spec}").verdict == "FAIL"
    assert _check(f"callable?precision=float16:{spec}").verdict == "PASS"
