"""Small ordinary networks for tests: each factory returns a seeded module in eval mode, its args and kwargs.

>>> module, args, kwargs = mbconv()
>>> module(*args, **kwargs).shape
torch.Size([2, 10])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = [
    "NETS",
    "Detection",
    "dataclass_io",
    "dict_io",
    "functional",
    "gru",
    "lstm",
    "many_inputs",
    "mbconv",
    "norms",
    "pooling",
    "transformer",
    "unet",
]

Net = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


def _trained_look(module: nn.Module) -> nn.Module:
    """Give norm layers statistics and scales that differ from their initial 0 and 1, as training would."""
    for part in module.modules():
        if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)):
            assert part.running_mean is not None and part.running_var is not None
            part.running_mean.normal_(0, 0.3)
            part.running_var.uniform_(0.5, 1.5)
        if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d)):
            if part.weight is not None:
                nn.init.uniform_(part.weight, 0.5, 1.5)
            if part.bias is not None:
                nn.init.normal_(part.bias, 0, 0.2)
    return module.eval()


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 4, 1)
        self.expand = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        gate = x.mean((2, 3), keepdim=True)
        gate = F.silu(self.reduce(gate))
        return x * torch.sigmoid(self.expand(gate))


class MBConv(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, kernel: int = 3) -> None:
        super().__init__()
        hidden = inputs * 4
        self.expand = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.SiLU()
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden, eps=1e-3),
            nn.SiLU(inplace=True),
        )
        self.attend = SqueezeExcite(hidden)
        self.project = nn.Sequential(nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.attend(self.depthwise(self.expand(x))))
        return x + y if self.residual else y


class MBNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish())
        self.blocks = nn.Sequential(MBConv(8, 8, 1), MBConv(8, 16, 2, 5), MBConv(16, 16, 1))
        self.head = nn.Linear(16, 10)
        self.drop = nn.Dropout(0.2)

    def forward(self, image: Tensor) -> Tensor:
        x = self.blocks(self.stem(image))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.head(self.drop(x))


def mbconv() -> Net:
    """Convolutions with batch norm and SiLU, depthwise, squeeze-excite and residual connections."""
    torch.manual_seed(1)
    return _trained_look(MBNet()), (torch.rand(2, 3, 32, 32),), {}


class HandAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, width = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(batch, steps, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        mask = torch.ones(steps, steps, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(mask, float("-inf"))
        mixed = torch.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, steps, width))


class TransformerBlock(nn.Module):
    def __init__(self, width: int, heads: int, by_hand: bool) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = (
            HandAttention(width, heads) if by_hand else nn.MultiheadAttention(width, heads, batch_first=True)
        )
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        if isinstance(self.attention, nn.MultiheadAttention):
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device, dtype=x.dtype)
            y, _ = self.attention(y, y, y, attn_mask=mask, need_weights=False)
        else:
            y = self.attention(y)
        x = x + y
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.position = nn.Parameter(torch.randn(1, 12, 32) * 0.1)
        self.blocks = nn.ModuleList([TransformerBlock(32, 4, False), TransformerBlock(32, 4, True)])
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 50, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.position[:, : tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        q = k = v = x.unsqueeze(1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1)
        return F.log_softmax(self.head(self.norm(x)), dim=-1)


def transformer() -> Net:
    """Pre-norm blocks with `nn.MultiheadAttention` and with hand-written attention, GELU, causal masks."""
    torch.manual_seed(2)
    return _trained_look(Transformer()), (torch.randint(0, 50, (2, 12)),), {}


class ConvPair(nn.Sequential):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1, padding_mode="reflect"),
            nn.LeakyReLU(0.1),
            nn.Conv2d(outputs, outputs, 3, padding="same", dilation=2),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.down3 = ConvPair(3, 8), ConvPair(8, 12), ConvPair(12, 16)
        self.bottom = ConvPair(16, 16)
        self.up3, self.up2, self.up1 = ConvPair(32, 12), ConvPair(24, 8), ConvPair(16, 8)
        self.transposed = nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1)
        self.last = nn.Conv2d(8, 1, 1)

    def forward(self, image: Tensor) -> Tensor:
        a = self.down1(image)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.down3(F.avg_pool2d(b, 2))
        d = self.bottom(F.max_pool2d(c, 2))
        d = F.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False)
        c = self.up3(torch.cat([c, d], dim=1))
        c = F.interpolate(c, size=b.shape[-2:], mode="nearest")
        b = self.up2(torch.cat([b, c], dim=1))
        b = self.transposed(b)
        y = self.last(self.up1(torch.cat([a, b], dim=1)))
        y = F.interpolate(y, size=(40, 56), mode="bilinear", align_corners=True)
        return torch.tanh(F.pad(y, (1, 2, 0, 3), value=0.5))


def unet() -> Net:
    """Down and up with pooling, bilinear and nearest resize, transposed convolution and skip connections."""
    torch.manual_seed(3)
    return _trained_look(UNet()), (torch.rand(1, 3, 32, 48),), {}


class Recurrent(nn.Module):
    def __init__(self, rnn: nn.Module, width: int) -> None:
        super().__init__()
        self.rnn = rnn
        self.head = nn.Linear(width, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, state = self.rnn(x)
        state = state[0] if isinstance(state, tuple) else state
        return self.head(y[:, -1]), state


def lstm() -> Net:
    """A two-layer bidirectional LSTM, batch first, and a linear head on the last step."""
    torch.manual_seed(4)
    rnn = nn.LSTM(6, 8, num_layers=2, bidirectional=True, batch_first=True)
    return _trained_look(Recurrent(rnn, 16)), (torch.randn(3, 7, 6),), {}


def gru() -> Net:
    """A two-layer GRU, batch first, and a linear head on the last step."""
    torch.manual_seed(5)
    return (
        _trained_look(Recurrent(nn.GRU(6, 8, num_layers=2, batch_first=True), 8)),
        (torch.randn(3, 7, 6),),
        {},
    )


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(16, 16)
        self.scale = nn.Parameter(torch.rand(16) + 0.5)
        self.register_buffer("grid", torch.linspace(-1, 1, 16))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.shared(x)
        y = F.relu(y, inplace=True)
        z = self.shared(y * self.scale - 0.25)
        z.mul_(2.0).add_(1)
        z = z.clone()
        z[:, 0] = y[:, 1]
        z[:, 2:4, ::2] = 0.5
        z = torch.where(z > self.grid, z, torch.exp(-z.abs()))
        left, right = z[..., :8], z[..., 8:].contiguous()
        mixed = torch.einsum("bsi,bti->bst", left, right)
        running = torch.cumsum(mixed, dim=-1) / 4
        wide = torch.stack([running, mixed.clamp(-1, 1), torch.sqrt(mixed.square() + 1)], dim=-1)
        wide = wide.permute(0, 3, 1, 2).reshape(x.shape[0], -1)
        first, second, third = wide.split([36, 36, 36], dim=1)
        wide = torch.maximum(first, second) - torch.minimum(second, third).pow(2) / (1 + third.pow(2))
        wide = F.normalize(wide + torch.rsqrt(third.abs() + 0.5), dim=1)
        values, indices = torch.topk(wide, 4, dim=1)
        best = wide.argmax(dim=1)
        picked = wide.gather(1, indices) * wide.amax(1, keepdim=True)
        rest = (
            wide[:, [3, 1, 2]].log1p().sum(1) + torch.rsub(F.softplus(wide).prod(1), 1.0) + F.elu(wide).var(1)
        )
        return values, indices, best, picked, rest, F.one_hot(best, 36).to(x.dtype) @ wide.T


def functional() -> Net:
    """Functional ops, in-place activations, a shared module called twice, slicing and index assignment."""
    torch.manual_seed(6)
    return _trained_look(Functional()), (torch.randn(2, 6, 16),), {}


class DictIO(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Conv2d(3, 4, 3)
        self.text = nn.Linear(5, 4)

    def forward(
        self, batch: dict[str, Tensor], *, temperature: Tensor, bias: Tensor | None = None
    ) -> dict[str, Any]:
        image = self.image(batch["image"]).mean((-2, -1))
        text = self.text(batch["text"])
        if bias is not None:
            text = text + bias
        logits = image @ text.t() / temperature
        return {"logits": logits, "embeddings": {"image": F.normalize(image), "text": F.normalize(text)}}


def dict_io() -> Net:
    """Dict and keyword inputs, a nested dict output."""
    torch.manual_seed(7)
    batch = {"image": torch.rand(2, 3, 8, 8), "text": torch.randn(2, 5)}
    return _trained_look(DictIO()), (batch,), {"temperature": torch.tensor(0.7), "bias": torch.randn(4)}


@dataclass
class Detection:
    """What `dataclass_io` returns."""

    boxes: Tensor
    scores: Tensor


torch.export.register_dataclass(Detection, serialized_type_name="tests.nets.Detection")


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 8, 3, 2)
        self.boxes = nn.Conv2d(8, 4, 1)
        self.scores = nn.Conv2d(8, 2, 1)

    def forward(self, image: Tensor) -> Detection:
        x = F.hardswish(self.features(image))
        boxes = self.boxes(x).flatten(2).transpose(1, 2).sigmoid()
        centre, size = boxes.chunk(2, dim=-1)
        boxes = torch.cat([centre - size / 2, centre + size / 2], dim=-1)
        return Detection(boxes, self.scores(x).flatten(2).softmax(1))


def dataclass_io() -> Net:
    """A dataclass output, registered for export."""
    torch.manual_seed(8)
    return _trained_look(Detector()), (torch.rand(1, 3, 17, 17),), {}


class ManyInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.bilinear = nn.Linear(16, 8)

    def forward(
        self, tokens: Tensor, mask: Tensor, dense: Tensor, scale: float, pair: tuple[Tensor, Tensor]
    ) -> Tensor:
        x = self.embed(tokens) * mask.unsqueeze(-1)
        x = torch.cat([x.sum(1) / mask.sum(1, keepdim=True), dense], dim=1)
        x = torch.addmm(pair[0], self.bilinear(x), pair[1]) * scale
        return torch.baddbmm(x.unsqueeze(1), x.unsqueeze(1), pair[1].expand(2, -1, -1), beta=0.5).squeeze(1)


def many_inputs() -> Net:
    """Integer, mask, float, plain number and nested tuple inputs."""
    torch.manual_seed(9)
    tokens, mask = torch.randint(0, 20, (2, 6)), (torch.rand(2, 6) > 0.3).float()
    mask[:, 0] = 1
    pair = (torch.randn(8), torch.randn(8, 8))
    return _trained_look(ManyInputs()), (tokens, mask, torch.randn(2, 8), 0.5, pair), {}


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.PReLU(16))
        self.second = nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1, groups=2), nn.InstanceNorm2d(16, affine=True), nn.Mish()
        )
        self.third = nn.Sequential(
            nn.InstanceNorm2d(16), nn.ReLU6(), nn.Conv2d(16, 16, 3, padding=1), nn.GELU("tanh")
        )
        self.rms = nn.RMSNorm(16)
        self.shuffle = nn.PixelShuffle(2)
        self.last = nn.Conv2d(4, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y = y + self.second(y)
        y = y + self.third(y)
        y = self.rms(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        y = F.hardtanh(self.last(self.shuffle(y)))
        y = F.layer_norm(F.pixel_unshuffle(y, 2), (12, 12))
        return F.channel_shuffle(y, 4) if y.shape[0] > 1 else y.flip(1).roll(2, 3)


def norms() -> Net:
    """Group, instance, RMS and layer norm, pixel shuffle and unshuffle, PReLU, Mish and tanh-GELU."""
    torch.manual_seed(10)
    return _trained_look(Norms()), (torch.rand(1, 3, 12, 12),), {}


class Pooling(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {
            "max": F.max_pool2d(x, 3, 2, 1),
            "max_ceil": F.max_pool2d(x, 2, 2, ceil_mode=True),
            "max_dilated": F.max_pool2d(x, 3, 1, dilation=2),
            "average": F.avg_pool2d(x, 3, 2, 1),
            "average_inside": F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            "average_ceil": F.avg_pool2d(x, 2, 2, ceil_mode=True),
            "adaptive": F.adaptive_avg_pool2d(x, (4, 3)),
            "global": F.adaptive_avg_pool2d(x, 1),
            "global_max": x.amax((2, 3)),
            "line": F.avg_pool1d(x.flatten(2), 4) + F.max_pool1d(x.flatten(2), 4),
            "cube": F.max_pool3d(x.unsqueeze(2), (1, 2, 2)) * F.avg_pool3d(x.unsqueeze(2), (1, 2, 2)),
            "with_indices": F.max_pool2d(x, 2, return_indices=True)[1],
        }


def pooling() -> Net:
    """Every kind of pooling, with padding, ceil mode, dilation and adaptive sizes."""
    torch.manual_seed(11)
    return Pooling().eval(), (torch.randn(2, 3, 13, 11),), {}


NETS: dict[str, Callable[[], Net]] = {
    factory.__name__: factory
    for factory in (
        mbconv,
        transformer,
        unet,
        lstm,
        gru,
        functional,
        dict_io,
        dataclass_io,
        many_inputs,
        norms,
        pooling,
    )
}
