"""What the database keeps of a run: figures and layers from its result.json, times from its profile.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from twinnet.dashboard.archive import BadBundle
from twinnet.dashboard.incoming import LayerIn, RunIn, bounded, tidy
from twinnet.errors import UsageError
from twinnet.report.figures import clean
from twinnet.result import PairResult, Result, ResultSet

__all__ = ["add_result", "profile_of", "with_profile", "with_result"]

_LAYERS = 20_000
_LINES = 400


def with_result(run: RunIn, folder: Path) -> RunIn:
    """A run with what its result.json says; `folder` holds the file."""
    from twinnet.report.json_file import load_result

    try:
        read = load_result(folder)
    except UsageError as error:
        raise BadBundle(f"runs/{run.name}/result.json: {error.what.replace(str(folder), '')[:300]}") from None
    result = _worst(read)
    if result is None:
        return run
    return add_result(run, result)


def add_result(run: RunIn, result: Result) -> RunIn:
    """A run with what its result says."""
    from twinnet.engines.spec import file_name
    from twinnet.report import quoting
    from twinnet.report.html import screen_parts
    from twinnet.report.words import worst_output, worst_ratio

    named = replace(result, folder=file_name(run.name))
    parts = tidy(screen_parts(named, excerpts=False), most=4000)
    parts["error"], parts["log"] = parts["error"][:_LINES], parts["log"][-_LINES:]
    parts["findings"] = parts["findings"][:50]
    parts["guards"] = parts["guards"][:50]
    parts["typed"] = quoting.command(result.command)[:4000]  # somebody may paste it
    parts["timings"] = [(clean(k)[:60], bounded(v)) for k, v in list(result.timings.items())[:40]]
    output = worst_output(result)
    first = result.findings[0] if result.findings else None
    site = first.place if first else result.first_failing
    return replace(
        run,
        model=run.model or clean(result.network.name)[:300],
        engine=run.engine or clean(result.twin.spec or result.twin.engine)[:300],
        spec=run.spec or clean(result.twin.spec)[:500],
        ratio=bounded(worst_ratio(result)),
        max_abs=bounded(output.difference.max_abs) if output is not None else run.max_abs,
        born=clean(site.label)[:400] if site is not None and result.verdict == "FAIL" else "",
        cause=clean(first.cause.sentence)[:1000] if first is not None and first.cause is not None else "",
        layers=tuple(_layer(pair) for pair in result.pairs[:_LAYERS]),
        answer=parts,
    )


def profile_of(data: bytes) -> Mapping[str, Any] | None:
    """A profile.json as this server shows it: checked, cut, and None if it is of another kind."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("schema") != 1 or not isinstance(found.get("rows"), list):
        return None
    given = found.get("bare", found.get("whole"))  # timers make runs longer
    whole = given if isinstance(given, dict) else {}
    rows = [_row(row) for row in found["rows"][:_LAYERS] if isinstance(row, dict)]
    return {
        "engine": _text(found.get("engine")),
        "spec": _text(found.get("spec")),
        "repeats": bounded(found.get("repeats")),
        "whole": {q: bounded(whole.get(q)) for q in ("p10", "p50", "p90")},
        "rows": rows,
    }


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: _text(row.get(name)) for name in ("name", "op", "kernel", "module", "source", "limit")},
        **{
            name: bounded(row.get(name)) for name in ("calls", "p10", "p50", "p90", "share", "bytes", "flops")
        },
        **{name: _texts(row.get(name)) for name in ("network_ops", "sites")},
    }


def _texts(value: Any) -> list[str]:
    return [_text(one) for one in value[:200]] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return clean(value)[:400] if isinstance(value, str) else ""


def with_profile(run: RunIn, profile: Mapping[str, Any]) -> RunIn:
    """A run with its times: of the whole, and of each layer that the profile names."""
    whole = profile["whole"].get("p50")
    rows = profile["rows"]
    if not run.layers:
        return replace(run, time=whole, layers=tuple(map(_step, rows)))
    times: dict[str, float] = {}
    for row in rows:
        names = row["sites"] or [n for n in (row["name"], row["module"]) if n][:1]
        for name in names:  # a fused kernel: its time is shared evenly
            times[name] = times.get(name, 0.0) + (row["p50"] or 0.0) / len(names)
    layers = []
    for layer in run.layers:
        label = layer.label.rpartition(" ")[0]
        found = next((times[n] for n in (layer.tensor, layer.label, label) if n in times), None)
        layers.append(replace(layer, time=found))
    return replace(run, time=whole, layers=tuple(layers))


def _step(row: Mapping[str, Any]) -> LayerIn:
    label = " ".join(filter(None, (row["module"], row["op"]))) or row["name"]
    return LayerIn(row["name"] or row["op"], label, row["source"], time=row["p50"])


def _worst(read: Result | ResultSet) -> Result | None:
    if isinstance(read, Result):
        return read
    ranks = {"FAIL": 0, "ERROR": 1, "PASS": 2}
    return min(read.results, key=lambda r: ranks[r.verdict], default=None)


def _layer(pair: PairResult) -> LayerIn:
    return LayerIn(
        clean(pair.site.tensor)[:400],
        clean(pair.site.label)[:400],
        clean(pair.site.source)[:400],
        pair.status,
        bounded(pair.ratio),
        bounded(pair.limit),
        bounded(pair.difference.relative),
    )
