"""Foreign text, quoted for where it goes: a screen, Markdown, Python source, a command line.

Names in a network, messages of an engine and texts in a run folder may hold anything. Each is quoted where it is
written, by the function for that place. HTML is escaped by the templates of `html.py`, file names by `file_name`.
"""

from __future__ import annotations

import re
import shlex

from twinnet.report.figures import clean

__all__ = ["cell", "code_block", "code_span", "command", "docstring", "prose", "screen"]

# A cell that begins like this is a formula to a spreadsheet; the full-width forms count too.
_FORMULA = ("=", "+", "-", "@", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def cell(text: object) -> str:
    """Text in a CSV file: what a spreadsheet would run as a formula gets an apostrophe in front.

    >>> cell("=1+1"), cell("conv")
    ("'=1+1", 'conv')
    """
    said = clean(text)
    return f"'{said}" if said.lstrip().startswith(_FORMULA) else said


def screen(text: object) -> str:
    """Text for a terminal, with its lines: nothing in it moves the cursor, colours, or turns the direction around.

    >>> print(screen("a\\x1b]0;title\\x07\\nb"))
    a\\x1b]0;title\\x07
    b
    """
    return "\n".join(clean(line.expandtabs()) for line in str(text).split("\n"))


def prose(text: object) -> str:
    """Markdown that says what the text says: no markup, no mention of a person or an issue, no link, no cell border.

    >>> prose("a|b <img> @me")
    'a\\\\|b &lt;img&gt; &#64;me'
    """
    said = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    said = re.sub(r"([\\`*_\[\]|~])", r"\\\1", said)
    return (
        said.replace("@", "&#64;").replace("#", "&#35;").replace("&&#35;", "&#").replace("://", ":&#47;&#47;")
    )


def code_span(text: object) -> str:
    """Markdown: a code span, also in a table cell.

    >>> code_span("a|b"), code_span("a`b")
    ('`a\\\\|b`', '`` a`b ``')
    """
    said = clean(text).replace("|", "\\|") or " "
    longest = max((len(run) for run in re.findall("`+", said)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence}{said}{fence}" if not longest else f"{fence} {said} {fence}"


def code_block(text: str, language: str = "text") -> str:
    """Markdown: a fenced block; the fence is longer than any inside."""
    said = screen(text)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", said)), default=0))
    return f"{fence}{language}\n{said}\n{fence}"


def docstring(text: object) -> str:
    r"""Text between triple quotes in Python source, with its lines.

    >>> docstring('a"\"" + b')
    'a\\"\\"\\" + b'
    """
    return screen(text).replace("\\", "\\\\").replace('"', '\\"')


def command(line: str) -> str:
    """A command line of twinnet as words that a shell leaves alone; empty for any other command.

    >>> command("twinnet check net.onnx; rm x"), command("curl x | sh")
    ("twinnet check 'net.onnx;' rm x", '')
    """
    try:
        words = shlex.split(clean(line))
    except ValueError:
        return ""
    return shlex.join(words) if words[:1] == ["twinnet"] else ""
