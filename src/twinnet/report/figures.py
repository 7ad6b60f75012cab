"""Format numbers and names, everywhere in the same form.

Numbers contain no-break spaces (U+00A0), between digits and before the unit; the layout may turn them into plain ones.
"""

from __future__ import annotations

import math
import unicodedata

__all__ = ["NBSP", "clean", "count", "figure", "grouped", "percent", "seconds", "times"]

NBSP = "\u00a0"


def clean(text: object) -> str:
    """Make foreign text safe to print: control and direction characters are escaped.

    >>> clean("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    text = str(text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _printable(c) else c.encode("unicode_escape").decode("ascii") for c in text)


def _printable(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def grouped(number: float) -> str:
    """Format a number with its thousands separated.

    >>> grouped(9400).replace("\\u00a0", " ")
    '9 400'
    """
    return f"{number:,.0f}".replace(",", NBSP)


def figure(value: float | None) -> str:
    """Format a measured size with two digits, in scientific notation where that is shorter.

    >>> [figure(v) for v in (0.021, 3.14e-7, 0.5, 12.3, 0.0, float("inf"))]
    ['2.1e-2', '3.1e-7', '0.50', '12', '0', 'Inf']
    """
    if value is None:
        return "unknown"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    size = abs(value)
    if 0.0995 <= size < 9.95:
        return f"{value:.1f}" if size >= 0.995 else f"{value:.2f}"
    if 9.95 <= size < 9999.5:
        return grouped(value)
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def times(ratio: float | None) -> str:
    """Format a ratio.

    >>> [times(r).replace("\\u00a0", " ") for r in (9412.0, 0.42, 0.0031, 3.2e9)]
    ['9 400 x', '0.4 x', '3.1e-3 x', '3.2e9 x']
    """
    if ratio is None:
        return f"unknown{NBSP}x"
    if not math.isfinite(ratio):
        return f"{figure(ratio)}{NBSP}x"
    if ratio == 0:
        return f"0{NBSP}x"
    if ratio < 0.095 or ratio >= 1e7:
        return f"{figure(ratio)}{NBSP}x"
    if ratio < 9.95:
        return f"{ratio:.1f}{NBSP}x"
    return f"{grouped(float(f'{ratio:.1e}'))}{NBSP}x"


def percent(share: float | None, digits: int = 0) -> str:
    """Format a share, never rounded up to 100 %.

    >>> percent(0.9996).replace("\\u00a0", " "), percent(1.0).replace("\\u00a0", " ")
    ('99 %', '100 %')
    """
    if share is None or not math.isfinite(share):
        return f"?{NBSP}%"
    if abs(share) > 100:
        return f"{figure(100.0 * min(max(share, -1e300), 1e300))}{NBSP}%"
    scaled = math.floor(share * 100 * 10**digits + 1e-9) / 10**digits
    text = f"{scaled:.{digits}f}"
    if digits and "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text}{NBSP}%"


def count(number: int, noun: str, plural: str = "") -> str:
    """Format a number of things.

    >>> count(1, "site"), count(3, "site").replace("\\u00a0", " ")
    ('1\\xa0site', '3 sites')
    """
    word = noun if number == 1 else plural or noun + "s"
    return f"{grouped(number)}{NBSP}{word}"


def seconds(value: float) -> str:
    """A time with three digits.

    >>> seconds(0.00213), seconds(4.5e-6), seconds(12.0)
    ('2.13 ms', '4.50 us', '12.0 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale or unit == "us":
            shown = value / scale
            return f"{shown:.{2 if shown < 10 else 1 if shown < 100 else 0}f} {unit}"
    raise AssertionError
