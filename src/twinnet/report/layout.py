"""Lay out labelled paragraphs on a screen of any width."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twinnet.report import figures

__all__ = ["LABEL", "Row", "lay_out", "width_of", "wrap"]

LABEL = 9
"""Width of the column of labels."""


@dataclass(frozen=True, slots=True)
class Row:
    """A labelled paragraph; its `parts` stand on one line where they fit, else one below the other."""

    label: str
    parts: tuple[str, ...]
    style: str = "dim"
    labels: tuple[str, ...] = ()
    verbatim: bool = False


def lay_out(rows: Iterable[Row], width: int) -> list[tuple[str, str, str]]:
    """Label, style and text of each printed line.

    >>> [label + text for label, _, text in lay_out([Row("cause", ("the twin pads (1,1) where",))], 24)]
    ['cause    the twin pads', '         (1,1) where']
    """
    lines: list[tuple[str, str, str]] = []
    for row in rows:
        if row.verbatim or row.parts == ("",):
            lines.append(("", row.style, row.parts[0].rstrip()))
            continue
        for i, (label, text) in enumerate(_joined(row, width)):
            indent = LABEL if label or i else len(text) - len(text.lstrip(" "))
            for j, piece in enumerate(wrap(text.strip(), width - indent, width - (indent or LABEL))):
                head = label.ljust(LABEL) if label and not j else " " * (indent or (LABEL if j else 0))
                lines.append((head, row.style, piece.replace(figures.NBSP, " ")))
    return lines


def _joined(row: Row, width: int) -> list[tuple[str, str]]:
    """The row's parts on one line if they fit, else as lines of their own."""
    room = width - (LABEL if row.label else 0)
    if row.labels:
        one = row.parts[0] + "".join(f"     {name}  {part}" for name, part in zip(row.labels, row.parts[1:]))
        return [(row.label, one)] if width_of(one) <= room else list(zip((row.label, *row.labels), row.parts))
    lines = [row.parts[0]]
    for part in row.parts[1:]:
        if width_of(f"{lines[-1]}   {part}") <= room:
            lines[-1] = f"{lines[-1]}   {part}"
        else:
            lines.append(part)
    return [(row.label if i == 0 else "", text) for i, text in enumerate(lines)]


def wrap(text: str, first: int, rest: int) -> list[str]:
    """Pieces of at most `first`, then `rest` cells: broken at spaces, else after / . _ -, else anywhere.

    >>> wrap("born in blocks.0.norm", 12, 8)
    ['born in', 'blocks.', '0.norm']
    """
    pieces: list[str] = []
    line = ""
    gap = ""
    for token in _tokens(text):
        if token.isspace() and figures.NBSP not in token:
            gap = token
            continue
        room = rest if pieces else first
        if line and width_of(line + gap + token) > room:
            if width_of(token) > rest and room - width_of(line + gap) >= 12:
                cut = _cut(token, room - width_of(line + gap))
                line, token = line + gap + token[:cut], token[cut:]
            pieces.append(line)
            line, gap, room = "", "", rest
        line, gap = (line + gap if line else "") + token, ""
        while width_of(line) > room:
            cut = _cut(line, room)
            pieces.append(line[:cut])
            line, room = line[cut:], rest
    return [*pieces, line] if line or not pieces else pieces


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    for char in text:
        if tokens and (char == " ") == (tokens[-1][-1] == " "):
            tokens[-1] += char
        else:
            tokens.append(char)
    return tokens


def _cut(token: str, room: int) -> int:
    """Where to break a long word: after the last separator that leaves a fair piece, else at the edge."""
    edge = 0
    used = 0
    for char in token:
        used += width_of(char)
        if used > room:
            break
        edge += 1
    edge = max(edge, 1)
    nice = max((token.rfind(mark, 0, edge) for mark in "/._-:,="), default=-1) + 1
    return nice if nice > edge // 2 else edge


def width_of(text: str) -> int:
    """How many cells of a terminal a text takes; some characters take two.

    >>> width_of("pad"), width_of("\u5c42")
    (3, 2)
    """
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
