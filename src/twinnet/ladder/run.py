"""The verb: a network, its twins, and the ladder of each."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from twinnet.checking.case import modes_kept, read_network
from twinnet.checking.options import LadderKeywords, Options, options_of, spelt
from twinnet.engines import Spec, find_engine, parse_specs
from twinnet.errors import UsageError
from twinnet.extras import optional_packages
from twinnet.ladder.climb import Climber, Way
from twinnet.ladder.journal import Journal, key_of
from twinnet.ladder.sizes import SizesSource
from twinnet.ladder.source import Source, source_of
from twinnet.result import Climb, Ladder, Rung
from twinnet.trust import trusting

__all__ = ["Course", "Told", "ladder", "ladder_with"]

Told = Callable[[str, Rung], None]
"""Called with the twin and every rung as soon as it is checked."""


@spelt(LadderKeywords)
def ladder(
    network: Any,
    inputs: Any = None,
    twin: str = "onnxruntime",
    *,
    at: Sequence[str] = (),
    sizes: Sequence[str] = (),
    way: Way = "halves",
    out: str | Path | None = None,
    trust: bool = False,
    tell: Told | None = None,
    **keywords: Unpack[LadderKeywords],
) -> Ladder:
    """Find the first cut of a network at which its twin breaks, and the smallest block that breaks by itself.

    The keywords that are not described here are those of `twinnet.check`.

    Args:
        network: An `nn.Module`, a file, or `file.py:factory`.
        inputs: Arrays or files; None for synthetic samples.
        twin: Engine specs, separated by commas. Every rung is converted, so a spec has no file.
        at: Names of modules (or nodes) to cut at, as patterns; without them stages, then what is inside them.
        sizes: Words to call the factory with, one rung each, from the smallest network to the largest.
        way: "halves" finds the bad rung by bisection, "up" climbs from the bottom until the first bad one, "every"
            checks all rungs and all blocks.
        out: Folder to write. An interrupted climb is resumed from there.
        tell: Called with the twin and every rung as soon as it is checked.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    >>> found = ladder(net, torch.ones(1, 4), "torch?dtype=float64")
    >>> found.verdict, found.climbs[0].order
    ('PASS', ('0', '1'))
    """
    with trusting(trust), options_of(LadderKeywords, keywords) as options:
        return ladder_with(options, Course(network, inputs, twin, at, sizes, way), out=out, tell=tell)


@dataclass(frozen=True)
class Course:
    """The network, its inputs and twins, and how it is cut and climbed."""

    network: Any
    inputs: Any = None
    twin: str = "onnxruntime"
    at: Sequence[str] = ()
    sizes: Sequence[str] = ()
    way: Way = "halves"


@optional_packages()
def ladder_with(
    options: Options,
    course: Course,
    *,
    out: str | Path | None = None,
    argv: Sequence[str] = (),
    tell: Told | None = None,
) -> Ladder:
    """Like `ladder`, with the keywords of a check in one object."""
    from twinnet.report.ladder import write_ladder

    specs = _specs(course.twin)
    folder = None if out is None else Path(out)
    with modes_kept(course.network):
        source, inputs_words = _source(options, course)
        journal = Journal(folder, key_of(source.network, source.samples, options))
        climbs: list[Climb] = []
        for spec in specs:
            climber = Climber(
                spec,
                options,
                journal,
                lambda rung, spec=spec: None if tell is None else tell(str(spec), rung),
                "up" if course.sizes and course.way == "halves" else course.way,
            )
            climbs.append(climber.climb(source))
    made = Ladder(
        source.network.name,
        source.network.format,
        source.network.parameters,
        inputs_words,
        tuple(climbs),
        shlex.join(argv),
        "" if folder is None else str(folder),
    )
    if folder is not None:
        write_ladder(made, folder)
    return made


def _source(options: Options, course: Course) -> tuple[Source, str]:
    if course.sizes:
        if course.at:
            raise UsageError("--size and --at cannot be combined", hint="--at cuts one network")
        source = SizesSource(options, course.network, course.inputs, course.sizes)
        return source, source.inputs
    loaded, feed = read_network(course.network, course.inputs, options)
    samples = list(feed.samples)
    return source_of(loaded, samples, course.at), feed.info.description


def _specs(twin: str) -> Sequence[Spec]:
    specs = parse_specs(twin)
    for spec in specs:
        engine = find_engine(spec.engine)
        engine.version()  # what is not installed is said before anything runs
        if spec.file is not None and engine.file_is_network:
            raise UsageError(
                f"the twin {spec} is a file, which has no rungs: each is converted from a part of the network",
                hint=f"--twin {spec.engine}; to compare with the file itself: twinnet check",
            )
    return specs
