"""Finding the bad rung of the whole DistortionNet, against checking every rung."""

from __future__ import annotations

import os
import tempfile
import time

from benchmarks.bar import Bar

__all__ = ["bars"]


def bars() -> list[Bar]:
    """At most a third, whether the engine refuses the block or computes it wrongly."""
    import tests.ladder.planted  # noqa: F401 (registers the engine)
    import torch
    from torch import nn

    from twinnet.ladder import ladder
    from twinnet.zoo.uvq import distortionnet, smooth_images

    torch.set_num_threads(1)
    net = distortionnet()
    # The only operator of its kind, in the tenth of twenty rungs.
    net.get_submodule("features.9.block.2").scale_activation = nn.Hardsigmoid()
    image = smooth_images(1, 360, 640, seed=1)
    found: list[Bar] = []
    for do in ("refuse", "change"):
        seconds: dict[str, float] = {}
        for way in ("halves", "every"):
            with tempfile.TemporaryDirectory(prefix="twinnet-bench-") as cache:
                os.environ["TWINNET_CACHE"] = cache
                start = time.perf_counter()
                twin = f"planted?op=HardSigmoid&do={do}"
                climb = ladder(net, image, twin, way=way).climbs[0]  # pyright: ignore[reportArgumentType]
                whole = time.perf_counter() - start
            assert climb.bad is not None and climb.bad.name == "features.9", climb.bad
            prefixes = [r for r in climb.rungs if r.cut == "prefix" and r.name in climb.order]
            seconds[way] = sum(r.seconds for r in prefixes)
            note = f"{len(prefixes)} rungs, {seconds[way]:.0f} s"
            if way == "halves":
                assert climb.smallest is not None
                note += f"; to {climb.smallest.name}: {len(climb.rungs)} checks, {whole:.0f} s"
            found.append(Bar(f"{do}: seconds, {way}", seconds[way], note=note))
        found.append(Bar(f"{do}: bad rung / every rung", seconds["halves"] / seconds["every"], 1 / 3))
    return found
