"""What is said about inputs that a network refuses, and about twins with other outputs."""

from __future__ import annotations

import pytest
import torch

import twinnet
from twinnet.errors import UsageError
from twinnet.network import load_network


class Words(torch.nn.Module):
    """Takes whole numbers, under a name that says so or does not."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(50, 8)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x):
        hidden = self.table(x)
        return {"logits": self.head(hidden), "hidden": hidden}


class Named(Words):
    def forward(self, input_ids):
        return super().forward(input_ids)


def test_an_input_named_like_an_index_is_made_of_whole_numbers():
    assert load_network(Named()).signature.inputs[0].dtype == "int64"
    result = twinnet.check(Named(), twin="onnxruntime", shapes={"input_ids": (1, 6)})
    assert result.verdict == "PASS"


def test_a_wrong_type_of_input_is_named_with_what_to_do():
    result = twinnet.check(Words(), twin="onnxruntime", shapes={"x": (1, 6)})
    assert result.verdict == "ERROR"
    assert "x is float32" in result.error and "(module, example inputs)" in result.error


def test_bytes_for_a_network_of_floats():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3)).eval()
    result = twinnet.check(net, torch.zeros(1, 3, 8, 8, dtype=torch.uint8), "onnxruntime")
    assert result.verdict == "ERROR" and "is uint8: give arrays of the type" in result.error


def test_an_empty_array_is_refused():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4)).eval()
    with pytest.raises(UsageError, match="the inputs hold no numbers: input is 0x3"):
        twinnet.check(net, torch.zeros(0, 3), "onnxruntime")


@pytest.mark.parametrize("output", ["logits", "other"])
def test_a_file_with_fewer_outputs_names_them(tmp_path, output):
    class Logits(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)["logits"]

    torch.manual_seed(0)
    network = Words().eval()
    ids = torch.randint(0, 50, (1, 6))
    torch.onnx.export(
        Logits(network), (ids,), tmp_path / "a.onnx", input_names=["x"], output_names=[output], verbose=False
    )
    result = twinnet.check(network, ids, str(tmp_path / "a.onnx"))
    assert result.verdict == "ERROR"
    assert f"the network has 2 outputs (logits, hidden), the twin 1 ({output})" in result.error
    assert ("whose forward returns logits" in result.error) == (output == "logits")
