"""pairs.csv: every pair with every figure, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from typing import Any

from twinnet.report.frames import pandas_module
from twinnet.report.quoting import cell
from twinnet.report.sentences import words
from twinnet.result import PairResult, Result, ResultSet

__all__ = ["COLUMNS", "frame", "render_csv"]

_FIGURES = (
    "elements",
    "max_abs",
    "mean_abs",
    "relative",
    "mse",
    "snr",
    "psnr",
    "cosine",
    "ulp",
    "differing",
    "nan_reference",
    "nan_twin",
    "inf_reference",
    "inf_twin",
    "nonfinite_mismatch",
    "channel",
    "value_reference",
    "value_twin",
)
COLUMNS = (
    "network",
    "twin",
    "order",
    "status",
    "module",
    "op",
    "tensor",
    "source",
    "twin_tensor",
    "twin_op",
    "ratio",
    "limit",
    "born",
    "floor",
    *_FIGURES,
    "index",
    "sample",
    "how",
    "confidence",
    "transform",
    "rule",
    "segment",
    "reason",
)


def frame(result: Result | ResultSet) -> Any:
    """The same table as a pandas DataFrame."""
    return pandas_module().read_csv(io.StringIO(render_csv(result)))


def render_csv(result: Result | ResultSet) -> str:
    """The text of pairs.csv. Text that a spreadsheet would run as a formula gets an apostrophe in front."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in result.results if isinstance(result, ResultSet) else (result,):
        sides = [cell(one.network.name), cell(one.twin.spec or one.twin.name)]
        writer.writerows([*sides, *_cells(pair)] for pair in one.pairs)
    return buffer.getvalue()


def _cells(pair: PairResult) -> list[object]:
    site, twin = pair.site, pair.twin_site
    return [
        pair.order,
        pair.status,
        cell(site.module),
        cell(site.op),
        cell(site.tensor),
        cell(site.source),
        cell(twin.tensor),
        cell(twin.op),
        *map(_number, (pair.ratio, pair.limit, pair.born, pair.floor)),
        *(_number(getattr(pair.difference, name)) for name in _FIGURES),
        " ".join(str(i) for i in pair.difference.index),
        pair.sample,
        cell(pair.how),
        _number(pair.confidence),
        cell(pair.transform),
        cell(pair.rule),
        cell(" ".join(pair.segment)),
        cell(words(pair.reason)),
    ]


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)
