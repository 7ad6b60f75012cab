"""Inputs that the twin takes differently."""

from __future__ import annotations

from typing import Any

from twinnet.report.sentences.registry import sayings, sentence, words
from twinnet.result import Fact

sayings(
    {
        "input.resized": "the twin takes input {input} resized {twin} where the network takes it resized {network}",
        "prepared.resized": "resized {how}",
        "prepared.grey": "grey, the {by} of its channels in each of them",
        "prepared.range": "in {twin} where the network takes {network}",
        "prepared.cropped": "cropped {lower} rows lower and {further} columns further right",
        "prepared.scaled": "scaled by {factor:.5g} and shifted by {offset:.5g}",
    }
)


_SCALED = {
    (2.0, -1.0): "scaled from [0,1] to [-1,1]",
    (0.5, 0.5): "scaled from [-1,1] to [0,1]",
    (1 / 255, 0.0): "divided by 255",
    (255.0, 0.0): "multiplied by 255",
    (1 / 127.5, -1.0): "divided by 127.5, minus 1",
    (1.0, -128.0): "shifted by 128",
}
_MOVED = {
    "BGR": "with its channels reversed (BGR for RGB)",
    "NHWC": "as NHWC where the network takes NCHW",
    "NCHW": "as NCHW where the network takes NHWC",
    "transposed": "with height and width exchanged",
    "mirrored": "mirrored left to right",
    "upside down": "upside down",
}


@sentence("input.scaled")
def _(network: str, twin: str, factor: float, offset: float) -> str:
    return f"the input is {_SCALED.get((factor, offset), twin)}, which the network does not do"


@sentence("input.taken")
def _(input: str | None, way: Fact, network: Any, twin: Any) -> str:
    return f"the twin takes {'the input' if input is None else f'input {input}'} {words(way)}"


@sentence("input.differs")
def _(share: float, most: float, alike: bool) -> str:
    percent = f"{100 * share:.0f}" if share >= 0.01 else f"{100 * share:.2g}"
    told = f"{percent} % of its elements differ, by {most:.2g} at most"
    return f"{told}: much the same picture, but resized, cropped or decoded differently" if alike else told


@sentence("prepared.moved")
def _(how: str) -> str:
    return _MOVED[how]


@sentence("prepared.eight_bits")
def _(rounded: bool) -> str:
    return f"{'rounded' if rounded else 'cut off'} to 8 bits"


@sentence("prepared.normalised")
def _(by: str, order: str, done: bool) -> str:
    what = f"the mean and deviation of {by}{' in the order BGR' if order == 'BGR' else ''}"
    return f"normalised by {what}" if done else f"without the normalisation by {what}"


@sentence("prepared.laid_out")
def _(read: bool) -> str:
    return "read as NHWC where it is laid out as NCHW" if read else "laid out as NHWC under the shape of NCHW"


@sentence("prepared.by_channel")
def _(factors: tuple[float, ...], offsets: tuple[float, ...]) -> str:
    shown = ", ".join(f"{s:.4g} x + {o:.4g}" for s, o in zip(factors, offsets, strict=True))
    return f"with another mean or standard deviation for each channel ({shown})"
