"""model_explorer.json: the ratios as node data for Google's Model Explorer, which colours its graph by them.

`model-explorer twin.onnx --node_data_paths=model_explorer.json`. Node data is a JSON object: `results` maps
the name of a node's output tensor, or the node's id, to `{"value": number}`; `thresholds` colour what lies
up to their value. The file names no graph, so it applies to the one that is open.
"""

from __future__ import annotations

import json
import math
from typing import Any

from twinnet.result import PairResult, Result, ResultSet

__all__ = ["render_overlay"]

_LARGEST = 1e12
_COLOURS = ((1.0, "#cdeed8"), (4.0, "#fff0b0"), (100.0, "#f8b79c"), (_LARGEST, "#e4574c"))
_FAIL, _UNTESTED = "#e4574c", "#d5dae0"


def render_overlay(result: Result | ResultSet) -> str:
    """The text of model_explorer.json: each ratio at the names of both sides; of several twins the worst."""
    results: dict[str, dict[str, Any]] = {}
    for one in result.results if isinstance(result, ResultSet) else (result,):
        for pair in one.pairs:
            data = _node(pair)
            for site in (pair.twin_site, pair.site):
                for name in (site.tensor, site.node):
                    if name and results.get(name, data)["value"] <= data["value"]:
                        results[name] = data
    first = result.results[0] if isinstance(result, ResultSet) and result.results else result
    created = "twinnet: error created here, x noise floor"
    name = f"{created} ({first.twin.name})" if isinstance(first, Result) else "twinnet"
    thresholds = [{"value": value, "bgColor": colour} for value, colour in _COLOURS]
    data = {"name": name, "results": results, "thresholds": thresholds}
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def _node(pair: PairResult) -> dict[str, Any]:
    ratio = pair.ratio
    if ratio is None:
        ratio = _LARGEST if pair.status == "fail" else 0.0
    value = _LARGEST if not math.isfinite(ratio) or abs(ratio) > _LARGEST else float(f"{ratio:.4g}")
    if pair.status == "fail":
        return {"value": value, "bgColor": _FAIL, "textColor": "#ffffff"}
    untested = pair.status in ("untested", "not judged")
    return {"value": value, "bgColor": _UNTESTED} if untested else {"value": value}
