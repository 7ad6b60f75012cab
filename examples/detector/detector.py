"""A small detector with two outputs: boxes and scores for every cell of a grid."""

import torch
from torch import Tensor, nn


class Stage(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, after, 3, stride=2, padding=1)
        self.act = nn.LeakyReLU(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.conv(x))


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(Stage(3, 8), Stage(8, 16), Stage(16, 24))
        self.neck = Stage(24, 24)
        self.boxes = nn.Conv2d(24, 4, 1)
        self.scores = nn.Conv2d(24, 5, 1)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        features = self.neck(self.backbone(image))
        return {"boxes": self.boxes(features), "scores": self.scores(features).sigmoid()}


def build() -> nn.Module:
    """The detector with fixed weights; it takes images of any size."""
    torch.manual_seed(3)
    return Detector().eval()
