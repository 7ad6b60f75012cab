"""A network of your own with a lookup table inside.

A tiny denoiser: an ordinary convolution looks around every pixel and squeezes what it sees into three
numbers in [0, 1]; a `lut.Unit` turns these three numbers into a correction; the correction is added to the
pixel. Only the Unit becomes a table. Everything else stays what it is.

Run it:  python examples/lut_own_module/network.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from twinnet import lut


class Denoiser(nn.Module):
    """[batch, 1, rows, columns] in [0, 1] to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Conv2d(1, 3, 3, padding=1, padding_mode="replicate")
        body = nn.Sequential(
            nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1), nn.Tanh()
        )
        self.correct = lut.Unit(body, axes=3, outputs=1, grid=lut.Grid.bits(4))

    def forward(self, x: Tensor) -> Tensor:
        """Denoise."""
        seen = torch.sigmoid(self.look(x))
        # A Unit works on the last axis.
        correction = self.correct(seen.movedim(1, -1)).movedim(-1, 1)
        return (x + correction).clamp(0, 1)


def build() -> Denoiser:
    """A denoiser with fixed initial weights."""
    torch.manual_seed(0)
    return Denoiser().eval()


def train(net: Denoiser, steps: int = 200) -> tuple[float, float]:
    """Fit it to soft random images with noise; returns the first and the last loss."""
    net.train()
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(steps):
        coarse = torch.rand(4, 1, 6, 6, generator=generator)
        clean = nn.functional.interpolate(coarse, size=(24, 24), mode="bicubic").clamp(0, 1)
        noisy = (clean + 0.15 * torch.randn(clean.shape, generator=generator)).clamp(0, 1)
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(net(noisy), clean)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    net.eval()
    return sum(losses[:10]) / 10, sum(losses[-10:]) / 10


def main() -> None:
    """Train, export, compare."""
    net = build()
    first, last = train(net)
    print(f"training    loss {first:.5f} -> {last:.5f}")
    x = torch.rand(1, 1, 32, 32)
    with torch.no_grad():
        as_network = net(x)
        lut.export(net)
        as_table = net(x)
    print(f"table       {net.correct.as_table().nbytes:,} bytes of int8, {net.correct.extra_repr()}")
    print(f"difference  {(as_network - as_table).abs().max() * 255:.3f} of 255 at most, by interpolation")


if __name__ == "__main__":
    main()
