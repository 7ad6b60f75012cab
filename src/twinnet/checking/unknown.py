"""Names that the user gave and neither side has."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from twinnet.checking.options import Options
from twinnet.judge.plan import Plan
from twinnet.result import Guard, fact
from twinnet.site import Site

__all__ = ["names_of", "unknown_names"]


def names_of(site: Site) -> tuple[str, ...]:
    """By what a pattern of `--watch` or `--skip` may know a site."""
    return site.tensor, site.own_name, site.module, site.op, site.label


def unknown_names(options: Options, plan: Plan) -> Iterator[Guard]:
    """A guard for each name in `--names`, `--watch` and `--skip` that fits nothing."""
    outputs = {row.tensor: row.name for row in plan.outputs}
    sites = plan.pairing.sites
    ours = [*(s.tensor for s in sites), *outputs.values(), *(s.module for s in sites if s.module)]
    theirs = [*(s.tensor for s in plan.pairing.twin_sites), *(row.twin_name for row in plan.outputs)]
    for name, twin in (options.names or {}).items():
        if name not in ours:
            yield _unknown("--names", "network", name, ours)
        if twin and twin not in theirs:
            yield _unknown("--names", "twin", twin, theirs)
    for option, patterns in (("--watch", options.watch), ("--skip", options.skip)):
        for pattern in patterns:
            if not any(fnmatchcase(v, pattern) for s in plan.pairing.sites for v in names_of(s)):
                yield _unknown(option, "network", pattern, ours)


def _unknown(option: str, side: str, name: str, known: Sequence[str]) -> Guard:
    close = difflib.get_close_matches(name, known, n=1)
    return Guard(
        "note", fact("names.unknown", option=option, side=side, name=name, close=close[0] if close else "")
    )
