"""Constants, factors, offsets and attributes."""

from __future__ import annotations

from typing import Any

from twinnet.report.sentences.registry import plain, sayings, sentence, spaced

sayings(
    {
        "constant.operand": "{operator} with {twin} where the network has {network}",
        "constant.only_twin": "the twin has a {of} that the network does not have",
        "shape": "of shape {dims}",
        "vector.zero": "the {of} is 0 throughout",
        "scaled.bias": "bias of channel {channel} is {factor}x",
        "bias.added": "the twin adds {twin} to every value",
        "constant.number": "{operator:words} with {attribute} {twin} where the network has {network}",
    }
)


@sentence("constant.left_out")
def _(network: str, twin: str, value: float | None) -> str:
    return f"the twin leaves out the {network} with the constant{'' if value is None else f' {plain(value)}'}"


@sentence("constant.another")
def _(of: str, network: Any, twin: Any, factor: float | None) -> str:
    return f"{of} {plain(twin)} where the network has {plain(network)}{_by(factor)}"


@sentence("vector.one")
def _(of: str, channel: int, network: float, twin: float, factor: float | None) -> str:
    return f"{of} of channel {channel} is {plain(twin)} where the network has {plain(network)}{_by(factor)}"


@sentence("vector.some")
def _(of: str, channels: int, count: int, network: Any = None, twin: Any = None) -> str:
    return f"another {of} in {f'all {count}' if channels == count else f'{channels} of {count}'} channels"


@sentence("scaled.all")
def _(of: str, network: float, twin: float) -> str:
    return f"the {of} {_are(of)} {f'{plain(twin)}x' if twin else 'all 0'}"


@sentence("scaled.channel")
def _(of: str, channel: int, network: float, twin: float) -> str:
    return f"{f'channel {channel} is' if of == 'values' else f'{of} of channel {channel} are'} {plain(twin)}x"


@sentence("scaled.some")
def _(of: str, channels: int, count: int) -> str:
    return f"the {of} {_are(of)} scaled in {channels} of {count} channels"


@sentence("attribute.another")
def _(name: str, network: Any, twin: Any) -> str:
    called = {"perm": "axes permuted by", "nearest": "rounding"}.get(name, spaced(name))
    return f"{called} {plain(twin)} where the network has {plain(network)}"


def _by(factor: float | None) -> str:
    return "" if factor is None else f" ({plain(factor)}x)"


def _are(noun: str) -> str:
    return "are" if noun in ("weights", "values") else "is"
