"""profile.html: the flame graph, the roofline and every row, on one page that works offline."""

from __future__ import annotations

from typing import Any

from twinnet.profile.model import Profile, Row
from twinnet.report.figures import clean, figure
from twinnet.report.html import render_page
from twinnet.report.profiles import words
from twinnet.report.profiles.flame import flame_of
from twinnet.report.profiles.roofline import roofline_of

__all__ = ["render_profile"]


def render_profile(profile: Profile) -> str:
    """The text of profile.html."""
    return render_page("profile.html.j2", **_context(profile))


def _context(profile: Profile) -> dict[str, Any]:
    spread = f"8 of 10 runs take {words.seconds(profile.bare.p10)} to {words.seconds(profile.bare.p90)}"
    facts = [
        ("twin", f"{profile.spec} ({profile.engine} {profile.version})"),
        ("machine", words.bound(profile)),
        ("runs", f"{profile.repeats}; {spread}"),
        ("measured", f"{profile.when[:16].replace('T', ' ')} UTC" if profile.when else ""),
        ("busy", words.busy(profile)),
        ("timers", words.timing(profile)),
        ("joined", f"{words.share(profile.joined)} of the steps' time belongs to layers of the network"),
        ("not joined", ", ".join(profile.rest)),
        ("unpaired", profile.unpaired),
        ("size", words.much(profile.size)),
        ("memory", f"{words.much(profile.memory)} at least" if profile.memory else ""),
    ]
    dearest = [
        {
            "label": clean(r.label),
            "source": clean(r.source),
            "share": words.share(r.share),
            "why": words.limited(r),
        }
        for r in profile.dearest()
    ]
    first = sum(row.share for row in profile.dearest())
    return {
        "network": clean(profile.network),
        "whole": words.seconds(profile.bare.p50),
        "facts": [(name, clean(text)) for name, text in facts if text],
        "told": f"{words.share(first)} of it in the {len(dearest)} dearest of {len(profile.rows)} steps",
        "dearest": dearest,
        "flame": flame_of(profile),
        "roofline": roofline_of(profile),
        "rows": [_row(number, row) for number, row in enumerate(profile.rows)],
        "between": _between(profile),
    }


def _between(profile: Profile) -> dict[str, Any] | None:
    if not profile.between:
        return None
    share, time = profile.gap, words.seconds(profile.between)
    return {
        "place": words.BETWEEN,
        "op": profile.engine,
        "time": time,
        "share": words.share(share),
        "bar": round(100 * share, 2),
    }


def _row(number: int, row: Row) -> dict[str, Any]:
    place = row.module or row.label.partition(" ")[0]
    return {
        "number": number,
        "module": clean(place),
        "ops": clean(row.label.removeprefix(place).strip()),
        "step": clean(row.name),
        "op": clean(row.op),
        "kernel": clean(row.kernel),
        "source": clean(row.source),
        "shape": clean(row.shape),
        "time": words.seconds(row.p50),
        "spread": f"{words.seconds(row.p10)} to {words.seconds(row.p90)}",
        "calls": row.calls,
        "share": words.share(row.share),
        "bar": round(100 * row.share, 2),
        "flops": words.much(row.flops, "FLOP"),
        "rate": words.rate(row),
        "intensity": "" if row.intensity is None else figure(row.intensity),
        "also": [clean(name) for name in row.modules if name != place],
        "bytes": words.much(row.bytes),
        "limit": words.limited(row),
    }
