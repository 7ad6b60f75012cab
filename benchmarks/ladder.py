"""Finding the bad rung of the whole DistortionNet, against checking every rung."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.bar import Bar, print_bars

if TYPE_CHECKING:
    from twinnet.result import Rung

__all__ = ["bars"]

_FAULTS = (("planted", "change"), ("planted", "refuse"), ("planted", "mute"), ("planted-closed", "mute"))
"""Engines and what they do with the block; the closed one lets nobody see an ONNX file."""


def bars() -> list[Bar]:
    """At most a third, whether the engine computes the block wrongly, refuses it, or refuses it without a word."""
    import tests.ladder.planted  # noqa: F401 (registers the engine)
    import torch
    from torch import nn

    from twinnet.zoo.uvq import distortionnet, smooth_images

    torch.set_num_threads(1)
    net = distortionnet()
    # The only operator of its kind, in the tenth of twenty rungs.
    net.get_submodule("features.9.block.2").scale_activation = nn.Hardsigmoid()
    image = smooth_images(1, 360, 640, seed=1)
    found: list[Bar] = []
    every: dict[bool, float] = {}
    for engine, do in _FAULTS:
        twin = f"{engine}?op=HardSigmoid&do={do}"
        seconds = _searched(net, image, twin)
        refused = do != "change"
        if refused not in every:
            every[refused] = _every(net, image, twin)
        note = f"{seconds:.0f} s of CPU; every rung: {every[refused]:.0f} s"
        found.append(
            Bar(f"{engine}, {do}: bad rung / every rung", seconds / every[refused], 1 / 3, note=note)
        )
        print_bars("ladder", found[-1:])  # each takes minutes
    return found


def _searched(net: Any, image: Any, twin: str) -> float:
    """CPU seconds until the bad rung and the one below it are known; what follows looks inside the block."""
    from twinnet.ladder import ladder

    times: list[float] = []
    inside = False

    def tell(spec: str, rung: Rung) -> None:
        nonlocal inside
        inside |= rung.cut == "block"
        if not inside:
            times.append(time.process_time())

    with _empty_cache():
        start = time.process_time()
        climb = ladder(net, image, twin, tell=tell).climbs[0]
    assert climb.bad is not None and climb.bad.name == "features.9", climb.bad
    assert climb.smallest is not None and climb.smallest.name == "features.9.block.2.scale_activation"
    return times[-1] - start


def _every(net: Any, image: Any, twin: str) -> float:
    """CPU seconds for checking every rung; the engine runs in this process."""
    from twinnet import check
    from twinnet.ladder.source import source_of
    from twinnet.network import load_network

    with _empty_cache():
        source = source_of(load_network((net, image)), [{"patches": image.numpy()}])
        start = time.process_time()
        for index in range(len(source.places)):
            cut = source.prefix(index)
            check(cut.network, list(cut.samples), twin)
        return time.process_time() - start


@contextmanager
def _empty_cache() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="twinnet-bench-") as cache:
        os.environ["TWINNET_CACHE"] = cache
        yield
