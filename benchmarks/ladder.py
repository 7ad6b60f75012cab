"""Finding the bad rung of the whole DistortionNet, against checking every rung."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.bar import Bar

__all__ = ["bars"]


def bars() -> list[Bar]:
    """At most a third, whether the engine refuses the block or computes it wrongly."""
    import tests.ladder.planted  # noqa: F401 (registers the engine)
    import torch
    from torch import nn

    from twinnet import check
    from twinnet.ladder import ladder
    from twinnet.ladder.source import source_of
    from twinnet.network import load_network
    from twinnet.zoo.uvq import distortionnet, smooth_images

    torch.set_num_threads(1)
    net = distortionnet()
    # The only operator of its kind, in the tenth of twenty rungs.
    net.get_submodule("features.9.block.2").scale_activation = nn.Hardsigmoid()
    image = smooth_images(1, 360, 640, seed=1)
    found: list[Bar] = []
    for do in ("refuse", "change"):
        twin = f"planted?op=HardSigmoid&do={do}"
        with _empty_cache():
            climb = ladder(net, image, twin).climbs[0]
        assert climb.bad is not None and climb.bad.name == "features.9", climb.bad
        assert climb.smallest is not None and climb.smallest.name == "features.9.block.2.scale_activation"
        searched = [r for r in climb.rungs if r.cut == "prefix" and r.name in climb.order]
        seconds = sum(r.seconds for r in searched)
        with _empty_cache():
            source = source_of(load_network((net, image)), [{"patches": image.numpy()}])
            start = time.perf_counter()
            for index in range(len(source.places)):
                cut = source.prefix(index)
                check(cut.network, list(cut.samples), twin)
            every = time.perf_counter() - start
        note = f"{len(searched)} rungs, {seconds:.0f} s; all {len(climb.order)}: {every:.0f} s"
        found.append(Bar(f"{do}: bad rung / every rung", seconds / every, 1 / 3, note=note))
    return found


@contextmanager
def _empty_cache() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="twinnet-bench-") as cache:
        os.environ["TWINNET_CACHE"] = cache
        yield
