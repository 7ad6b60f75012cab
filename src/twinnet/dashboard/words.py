"""Figures and moments as people read them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from twinnet.dashboard.incoming import ENDLESS
from twinnet.report import figures
from twinnet.report.figures import NBSP, grouped, times

__all__ = ["ago", "bytes_of", "day", "factor", "plainly", "ratio", "seconds"]


def ratio(value: float | None) -> str:
    """Error in units of the noise floor.

    >>> ratio(76000.0).replace(NBSP, " "), ratio(None), ratio(1e300)
    ('76 000 x', '', 'not finite')
    """
    if value is None:
        return ""
    return "not finite" if abs(value) >= ENDLESS / 10 else times(value)


def seconds(value: float | None) -> str:
    """A time, as the reports say it.

    >>> [seconds(v).replace(NBSP, " ") for v in (0.0000042, 0.0123, 2.5, 300.0)]
    ['4.20 us', '12.3 ms', '2.50 s', '5 min']
    """
    if value is None:
        return ""
    return f"{value / 60:.0f}{NBSP}min" if value >= 120 else figures.seconds(value).replace(" ", NBSP)


def factor(value: float | None) -> str:
    """How many times more or less.

    >>> [factor(v).replace(NBSP, " ") for v in (2.0, 0.5, 1.001)]
    ['2.0 x', '1/2.0', 'same']
    """
    if value is None:
        return ""
    if 0.98 < value < 1.02:
        return "same"
    if value >= ENDLESS / 1e10:
        return "not finite"
    return times(value) if value > 1 else f"1/{times(1 / max(value, 1e-300)).replace(NBSP + 'x', '')}"


def bytes_of(count: int) -> str:
    """A number of bytes.

    >>> bytes_of(3 << 20).replace(NBSP, " ")
    '3.0 MiB'
    """
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{grouped(value)}{NBSP}B" if unit == "B" else f"{value:.1f}{NBSP}{unit}"
        value /= 1024
    return ""


def ago(moment: float, now: float | None = None) -> str:
    """How long ago.

    >>> [ago(0.0, s) for s in (20.0, 200.0, 7300.0, 200000.0, 9000000.0)]
    ['just now', '3 min ago', '2 h ago', '2 days ago', '1 Jan 1970']
    """
    gone = (time.time() if now is None else now) - moment
    if gone < 60:
        return "just now"
    if gone < 3600:
        return f"{gone // 60:.0f}{NBSP}min ago".replace(NBSP, " ")
    if gone < 86400:
        return f"{gone // 3600:.0f} h ago"
    if gone < 45 * 86400:
        days = int(gone // 86400)
        return f"{days} day{'s' if days > 1 else ''} ago"
    return day(moment)


def day(moment: float) -> str:
    """The day.

    >>> day(0.0)
    '1 Jan 1970'
    """
    when = datetime.fromtimestamp(moment, UTC)
    return f"{when.day} {when:%b %Y}"


def plainly(engines: str) -> str:
    """Names of engines without the options that most have.

    >>> plainly("iree-default, openvino-fast")
    'iree, openvino-fast'
    """
    return ", ".join(name.removesuffix("-default") for name in engines.split(", "))
