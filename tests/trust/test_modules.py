"""Any module a person has gets an answer: odd signatures, odd outputs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn

import twinnet
from tests.onnx_edit import save
from twinnet.job import Job
from twinnet.network.torch_network import TorchNetwork
from twinnet.onnx.export import onnx_artefact
from twinnet.torch_versions import pytree

PICTURE = torch.linspace(-1, 1, 3 * 8 * 8).reshape(1, 3, 8, 8).sin()


class _Base(nn.Module):
    table: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(3, 4, 3)
        self.register_buffer("table", torch.arange(5.0))
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.eval()


class StarArgs(_Base):
    def forward(self, *images: torch.Tensor) -> torch.Tensor:
        return self.conv(images[0]) - self.conv(images[-1] * 2)


class StarKeywords(_Base):
    def forward(self, **named: torch.Tensor) -> torch.Tensor:
        return self.conv(named["image"])


class Both(_Base):
    def forward(self, x: torch.Tensor, *rest: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        return self.conv(x) + sum(self.conv(r) for r in rest) * 0.5 + named["mask"]


class Returned(_Base):
    """Its input, a parameter, a buffer, a made constant, one tensor twice, a number, nothing and text."""

    def forward(self, x: torch.Tensor) -> tuple[Any, ...]:
        y = self.conv(x)
        return y, x, self.scale, self.table, torch.ones(3) * 2, y, 7, 0.5, None, "text"


class Constant(_Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table * 2


@pytest.mark.parametrize(
    ("module", "inputs"),
    [
        (StarArgs(), PICTURE),
        (StarArgs(), (PICTURE, PICTURE.flip(2))),
        (StarKeywords(), {"image": PICTURE}),
        (Both(), ((PICTURE, PICTURE.flip(3)), {"mask": PICTURE[:, :1, :6, :6]})),
        (nn.Identity(), PICTURE),
        (Returned(), PICTURE),
        (Constant(), PICTURE),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("twin", ["onnxruntime", "onnx-reference"])
def test_it_gets_an_answer(module: nn.Module, inputs: Any, twin: str) -> None:
    found = twinnet.check(module.eval(), inputs, twin=twin)
    assert found.verdict == "PASS", str(found)


@pytest.mark.parametrize("output", ["clone", "clone_1", "clone_2", "mul", "clone_3", "full", "full_1"])
def test_one_that_is_wrong_in_a_file_is_found(tmp_path: Path, output: str) -> None:
    """The same outputs; the copy, the constant or the number is twice or minus what it is."""
    network = TorchNetwork(Returned(), example=PICTURE)
    model = onnx_artefact(network, None, Job({"x": PICTURE.numpy()})).model
    weights = [t for t in model.graph.initializer if t.name == output]
    for tensor in weights:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * 2, output))
    for node in model.graph.node:
        if output in node.output:
            node.op_type = "Neg"
    file = save(model, tmp_path / "twin.onnx")
    found = twinnet.check(Returned(), PICTURE, twin=f"onnxruntime:{file}")
    assert found.verdict == "FAIL", str(found)


# ---- floors of operators that have none of their own ---------------------------------------------------------------


class Call(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.eval()

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        return self.function(*given)


def _noise(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5)) * scale


_CLASSES, _SHARES = torch.arange(40) % 50, (torch.arange(2000) % 7 / 6).reshape(40, 50)


@pytest.mark.parametrize("twin", ["torch?dtype=float64", "onnxruntime"])
@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (F.logsigmoid, (_noise(4, 500),)),
        # Next to 0, where a logarithm of a number near 1 has few digits of its own.
        (F.logsigmoid, (_noise(2, 16, scale=30).abs(),)),
        (F.cross_entropy, (_noise(40, 50, scale=12), _CLASSES)),
        (lambda x, t: F.cross_entropy(x, t, reduction="none"), (_noise(40, 50, scale=4), _CLASSES)),
        (F.binary_cross_entropy_with_logits, (_noise(40, 50), _SHARES)),
        (
            lambda x, t: F.binary_cross_entropy_with_logits(
                x, t, weight=t + 1, pos_weight=t[0] + 2, reduction="none"
            ),
            (_noise(40, 50), _SHARES),
        ),
        (lambda x: torch.view_as_real(torch.fft.fft(x)), (_noise(4, 7),)),
        (lambda x: torch.fft.rfft(x).abs(), (_noise(4, 128),)),
    ],
    ids=[
        "logsigmoid",
        "near 0",
        "cross entropy",
        "cross entropies",
        "bce",
        "bce weighted",
        "fft 7",
        "rfft 128",
    ],
)
def test_a_right_twin_passes(function: Any, inputs: tuple[torch.Tensor, ...], twin: str) -> None:
    found = twinnet.check(Call(function), inputs, twin=twin, keep="none")
    assert found.verdict == "PASS", str(found)


def test_the_fast_path_of_an_encoder_layer_passes() -> None:
    torch.manual_seed(4)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    found = twinnet.check(layer, torch.randn(2, 10, 32), twin="onnxruntime", keep="none")
    assert found.verdict == "PASS", str(found)


@pytest.mark.parametrize("length", [127, 1009])
def test_a_float64_twin_of_a_prime_transform_passes(length: int) -> None:
    function = lambda x: torch.view_as_real(torch.fft.fft(x))  # noqa: E731
    found = twinnet.check(Call(function), _noise(4, length), twin="torch?dtype=float64", keep="none")
    assert found.verdict == "PASS", str(found)


# ---- where engines differ by definition, the finding says so -------------------------------------------------------


def _wrong(function: Any, inputs: tuple[torch.Tensor, ...], other: Any) -> str:
    """What is said of a twin that computes `other`."""
    found = twinnet.check(Call(function), inputs, twin=Call(other), keep="none")
    assert isinstance(found, twinnet.Result)
    assert found.verdict == "FAIL"
    assert [f.cause for f in found.findings if f.cause] == []
    return " ".join(str(found).split())


def test_a_logarithm_of_a_rounded_sigmoid_is_named() -> None:
    for function, inputs in (
        (F.logsigmoid, (_noise(4, 500, scale=12),)),
        (F.binary_cross_entropy_with_logits, (_noise(40, 50, scale=12), _SHARES)),
    ):
        found = twinnet.check(Call(function), inputs, twin="onnxruntime", keep="none")
        said = " ".join(str(found).split())
        assert found.verdict == "FAIL"
        assert "logarithm of a rounded sigmoid" in said and "reduce prod" not in said


def test_a_transform_of_prime_length_is_named() -> None:
    function = lambda x: torch.fft.rfft(x).abs()  # noqa: E731
    found = twinnet.check(Call(function), _noise(4, 1009), twin="onnxruntime", keep="none")
    assert found.verdict == "FAIL"
    assert "length 1009, which is not a power of 2" in " ".join(str(found).split())


def test_division_by_zero_is_named() -> None:
    x, by = _noise(4, 50), torch.arange(50.0) % 5

    def other(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.where(b == 0, a * 3 + 7, a / torch.where(b == 0, 1.0, b))

    assert "divides by 0" in _wrong(torch.div, (x, by), other)


def test_the_edge_of_a_remainder_is_named() -> None:
    x, by = torch.arange(60.0).reshape(4, 15) * 0.1, torch.tensor(0.1)

    def other(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a - b * torch.floor((a.double() * 1.0000001 / b.double()).float())

    assert "multiple of the divisor" in _wrong(torch.remainder, (x, by), other)
    wrong = lambda a, b: torch.remainder(a, b) + 3 * (a == 8)  # noqa: E731
    whole = torch.arange(60.0).reshape(4, 15)
    said = _wrong(torch.remainder, (whole, torch.tensor(4.0)), wrong)
    assert "multiple of the divisor" not in said, "of whole numbers nothing is rounded"


def test_a_masked_row_is_named() -> None:
    q, mask = _noise(1, 2, 5, 8), torch.ones(5, 5, dtype=torch.bool).tril(-1)
    attention = F.scaled_dot_product_attention

    def other(q: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        found = attention(q, q, q, attn_mask=m)
        return torch.where(m.any(-1, keepdim=True), found, q.mean(-2, keepdim=True))

    assert "masked as a whole" in _wrong(lambda q, m: attention(q, q, q, attn_mask=m), (q, mask), other)


def test_the_sign_of_nan_is_named() -> None:
    x = _noise(4, 50)
    x[1, 3:9] = math.nan

    def other(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.isnan(), -1.0, torch.sign(x.nan_to_num()))

    assert "reads NaN" in _wrong(torch.sign, (x,), other)


# ---- conversions that only gradients stop --------------------------------------------------------------------------


class LearntBias(nn.Module):
    """Attention with a learnt bias, as in T5, BEiT and SAM.

    With gradients on, torch takes a kernel that lays its result out differently, and a view that was traced without
    them fails.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.bias = nn.Embedding(9, 4)
        self.first, self.last = nn.Linear(32, 96), nn.Linear(32, 8)
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.first(x).view(1, 12, 3, 4, 8).permute(2, 0, 3, 1, 4)
        bias = self.bias(torch.arange(144).reshape(12, 12) % 9).permute(2, 0, 1).unsqueeze(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.last(y.transpose(1, 2).contiguous().reshape(1, 12, -1).contiguous())


def test_gradients_do_not_stop_the_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINNET_CACHE", str(tmp_path))
    found = twinnet.check(LearntBias(), _noise(1, 12, 32), twin="onnxruntime", keep="none")
    assert found.verdict == "PASS", str(found)


# ---- networks that cannot be converted -----------------------------------------------------------------------------


class Branch(nn.Module):
    """A Python branch on a value, which no trace can follow."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        if y.sum() > -1e9:
            return y * 2
        return y


class Always(Branch):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x) * 2


class Never(Branch):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


class Outer(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.stem, self.head = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 2, 1)
        self.body = body
        for p in self.parameters():
            nn.init.normal_(p)
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.stem(x)))


def test_an_export_error_names_module_and_line_and_what_to_try(capfd: pytest.CaptureFixture[str]) -> None:
    found = twinnet.check(Outer(Branch()), PICTURE, twin="onnxruntime", keep="none")
    said = " ".join(str(found).split())
    assert found.verdict == "ERROR"
    assert "in body (Branch), trust/test_modules.py:" in said and "`if y.sum() > -1e9:`" in said
    assert "torch.where or torch.cond" in said and "--twin FILE.onnx" in said
    assert "def forward" not in capfd.readouterr().err


@pytest.mark.parametrize(("body", "verdict"), [(Always, "PASS"), (Never, "FAIL")])
def test_it_is_checked_eagerly_against_a_given_file(body: Any, verdict: str, tmp_path: Path) -> None:
    twin = Outer(body())
    model = onnx_artefact(TorchNetwork(twin, example=PICTURE), None, Job({"x": PICTURE.numpy()})).model
    file = save(model, tmp_path / "her.onnx")
    found = twinnet.check(Outer(Branch()), PICTURE, twin=str(file), keep="none")
    assert found.verdict == verdict, str(found)
    assert "eager mode" in str(found)


@torch.library.custom_op("twinnet_tests::halved", mutates_args=())
def _halved(x: torch.Tensor) -> torch.Tensor:
    return x / 2


@_halved.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Custom(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _halved(x)


def test_an_operator_without_onnx_is_named_with_its_module_and_line() -> None:
    found = twinnet.check(Outer(Custom()), PICTURE, twin="onnxruntime", keep="none")
    said = " ".join(str(found).split())
    assert found.verdict == "ERROR"
    assert "halved" in said and "in body, tests/trust/test_modules.py:" in said, said


# ---- caches and attention of any rank ------------------------------------------------------------------------------


class Layer:
    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.keys, self.values = keys, values


class Cache:
    """Keys and values by layer, as transformers' caches hold them: torch knows nothing of the class."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self.seen = 3


class Listed(Cache):
    """The same, registered by hand and without names."""


def _listed(values: Any, kind: Any) -> Listed:
    made = Listed()
    made.layers = [Layer(*values)]
    return made


pytree.register_pytree_node(
    Listed,
    lambda c: ([c.layers[0].keys, c.layers[0].values], None),
    _listed,
    serialized_type_name="tests.Listed",
)


class Cached(nn.Module):
    def __init__(self, cache: type[Cache]) -> None:
        super().__init__()
        torch.manual_seed(8)
        self.first = nn.Linear(8, 16)
        self.cache = cache
        self.eval()

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        k, v = self.first(x).chunk(2, -1)
        cache = self.cache()
        cache.layers.append(Layer(k, v))
        return {"last": F.scaled_dot_product_attention(x, k, v), "cache": cache}


@pytest.mark.parametrize("cache", [Cache, Listed])
def test_a_cache_is_an_output_like_others(cache: type[Cache]) -> None:
    net, x = Cached(cache), _noise(1, 2, 5, 8)
    found = twinnet.check(net, x, twin="onnxruntime", keep="none")
    assert isinstance(found, twinnet.Result)
    assert found.verdict == "PASS", str(found)
    assert len(TorchNetwork(net, example=x).call({"x": x})) == 3
    wrong = Cached(cache)
    wrong.first.weight.data[9:] *= 1.01  # a part of the values only
    assert twinnet.check(net, x, twin=wrong, keep="none").verdict == "FAIL"


@pytest.mark.parametrize("shape", [(5, 8), (2, 5, 8), (2, 3, 4, 5, 8), (2, 2, 2, 3, 5, 8)])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_any_rank(shape: tuple[int, ...], masked: bool) -> None:
    mask = torch.ones(5, 5, dtype=torch.bool).tril() if masked else None
    function = lambda x: F.scaled_dot_product_attention(x, x * 0.5, x + 1, attn_mask=mask)  # noqa: E731
    found = twinnet.check(Call(function), _noise(*shape), twin="onnxruntime", keep="none")
    assert found.verdict == "PASS", str(found)


# ---- a cause is a claim --------------------------------------------------------------------------------------------


class Attends(nn.Module):
    def __init__(self, scale: float | None = None) -> None:
        super().__init__()
        torch.manual_seed(9)
        self.table = nn.Parameter(torch.randn(1, 10, 16))
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 16)
        self.places = nn.Embedding(10, 16)
        self.scale, self.heads = scale, 4
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x + self.table) + self.places(torch.arange(10))
        q = x.view(1, 10, self.heads, -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, q, q, scale=self.scale)
        return self.last(y.transpose(1, 2).reshape(1, 10, 16))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (lambda m: m.table.copy_(m.table.roll(1, 1)), "rolled by 1 along axis 1"),
        (lambda m: m.first.weight.copy_(m.first.weight.roll(4, 0)), "rolled by 4 along axis 0"),
        (lambda m: m.last.weight.copy_(m.last.weight.roll(-4, 1)), "rolled by -4 along axis 1"),
        (
            lambda m: m.last.weight.copy_((m.last.weight * 256).trunc() / 256),
            "truncated to multiples of 1/256",
        ),
        (lambda m: m.last.weight.add_(_noise(16, 16, scale=0.01)), "apart from the network's"),
        (lambda m: m.last.weight.copy_(_noise(16, 16, scale=0.1)), "as from another checkpoint"),
        (
            lambda m: m.places.weight.copy_(m.places.weight.roll(1, 0)),
            "the added table of the twin is rolled by 1",
        ),
        (lambda m: setattr(m, "heads", 2), "2 heads where the network's has 4"),
        (lambda m: setattr(m, "scale", 0.25), "by 0.25 where the network scales by 0.5"),
    ],
    ids=[
        "rolled table",
        "rolled heads",
        "rolled inputs",
        "truncated",
        "near",
        "checkpoint",
        "rolled embedding",
        "number of heads",
        "scale",
    ],
)
def test_how_weights_are_related_is_said(what: Any, said: str, tmp_path: Path) -> None:
    twin, x = Attends(), _noise(1, 10, 16)
    with torch.no_grad():
        what(twin)
    model = onnx_artefact(TorchNetwork(twin, example=x), None, Job({"x": x.numpy()})).model
    found = twinnet.check(Attends(), x, twin=str(save(model, tmp_path / "twin.onnx")), keep="none")
    assert isinstance(found, twinnet.Result)
    causes = [f.cause.sentence for f in found.findings if f.cause]
    assert len(causes) == 1 and said in causes[0], str(found)


@pytest.mark.parametrize(("ours", "theirs"), [(2, 8), (8, 2)])
def test_heads_whose_number_and_width_change_places(ours: int, theirs: int, tmp_path: Path) -> None:
    """Their shapes are each other's transpose, their numbers are not."""
    net, twin, x = Attends(), Attends(), _noise(1, 10, 16)
    net.heads, twin.heads = ours, theirs
    model = onnx_artefact(TorchNetwork(twin, example=x), None, Job({"x": x.numpy()})).model
    found = twinnet.check(net, x, twin=str(save(model, tmp_path / "twin.onnx")), keep="none")
    assert isinstance(found, twinnet.Result)
    causes = [f.cause.sentence for f in found.findings if f.cause]
    assert causes == [f"the twin's attention has {theirs} heads where the network's has {ours}"], str(found)
