"""What a machine can do at best: measured for this one, read from a TOML file for another."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import cycle
from pathlib import Path

from twinnet.errors import UsageError
from twinnet.files import atomic_write, checked, read_toml

__all__ = ["Target", "machine", "on_threads", "processor", "read_target", "write_target"]

_SIDE = 384
_CHANNELS, _PIXELS, _KERNEL = 64, 28, 5
_BYTES, _PIECES = 1 << 25, 16
_SECONDS = 0.25
"""How long each of them is tried: short pieces of work fit between whatever else runs."""


@dataclass(frozen=True)
class Target:
    """A machine: `peak` floating-point operations per second, `bandwidth` in bytes per second, and the `overhead` of a
    step in seconds.

    >>> board = Target("board", 8e9, 2e9, 5e-6)
    >>> board.ridge, board.seconds(8_000_000, 1000)
    (4.0, 0.001005)
    """

    name: str
    peak: float
    bandwidth: float
    overhead: float = 0.0

    @property
    def ridge(self) -> float:
        """Operations per byte from which on arithmetic is what limits."""
        return self.peak / self.bandwidth

    def seconds(self, flops: int, moved: int) -> float:
        """An estimate for one step: it computes and moves data at the same time, and costs its overhead."""
        return max(flops / self.peak, moved / self.bandwidth) + self.overhead


def read_target(path: str | Path) -> Target:
    """A target from a TOML file with `name`, `peak`, `bandwidth` and, optionally, `overhead`."""
    path = Path(path)
    data = read_toml(path, "target")
    names = [field.name for field in fields(Target)]
    for name in data:
        if name not in names:
            raise UsageError(f"{path}: a target has no {name!r}", hint=f"it has {', '.join(names)}")
    made = checked(Target, {"name": path.stem, **data}, str(path))
    numbers = made.peak, made.bandwidth, made.overhead
    sound = min(numbers[:2]) > 0 and made.overhead >= 0 and all(map(math.isfinite, numbers))
    if not sound or any(isinstance(value, bool) for value in data.values()):
        raise UsageError(f"{path}: peak and bandwidth must be positive numbers, overhead not negative")
    return made


def write_target(target: Target, path: str | Path) -> None:
    """Write a target as a TOML file."""
    import tomlkit

    notes = {
        "peak": "floating-point operations per second",
        "bandwidth": "bytes per second",
        "overhead": "seconds per step",
    }
    table = tomlkit.document()
    for name, value in asdict(target).items():
        item = tomlkit.item(value if isinstance(value, str) else float(f"{value:.4g}"))
        table.add(name, item.comment(notes[name]) if name in notes else item)
    atomic_write(path, tomlkit.dumps(table).encode())


@cache
def machine(threads: int | None = None) -> Target:
    """This machine, measured: the best of some products and convolutions, and of copies of what the inner caches do not
    hold, in pieces.

    The best, because whatever else runs here can only make them slower; convolutions, too, because the library for
    products does not use all that every processor can do; pieces, because a long copy is interrupted.
    """
    import torch

    with on_threads(threads) as count, torch.no_grad():
        a, b = torch.rand(_SIDE, _SIDE), torch.rand(_SIDE, _SIDE)
        c = torch.empty(_SIDE, _SIDE)
        image = torch.rand(1, _CHANNELS, _PIXELS, _PIXELS)
        kernels = torch.rand(_CHANNELS, _CHANNELS, _KERNEL, _KERNEL)
        pieces = cycle(
            zip(torch.rand(_BYTES // 4).chunk(_PIECES), torch.zeros(_BYTES // 4).chunk(_PIECES), strict=True)
        )

        def copied() -> None:
            source, to = next(pieces)
            to.copy_(source)

        one = torch.ones(1)
        product = 2 * _SIDE**3 / _best(lambda: torch.mm(a, b, out=c))
        work = 2 * (_CHANNELS * _PIXELS * _KERNEL) ** 2
        convolution = work / _best(lambda: torch.conv2d(image, kernels, padding=_KERNEL // 2))
        copy = _best(copied) * _PIECES
        small = _best(lambda: [torch.add(one, one, out=one) for _ in range(100)]) / 100
    name = f"{processor()}, {count} thread{'s' if count != 1 else ''}"
    return Target(name, max(product, convolution), 2 * _BYTES / copy, small)


def _best(work: Callable[[], object]) -> float:
    work()
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while (start := time.perf_counter()) < end:
        work()
        best = min(best, time.perf_counter() - start)
    return best


@contextmanager
def on_threads(count: int | None) -> Iterator[int]:
    """Let PyTorch use so many threads in the block (None: as many as there are), and give their number."""
    import torch

    before, count = torch.get_num_threads(), count or len(os.sched_getaffinity(0))
    torch.set_num_threads(count)
    try:
        yield count
    finally:
        torch.set_num_threads(before)


@cache
def processor() -> str:
    """The name of this machine's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
