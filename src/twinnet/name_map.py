"""Files that say which tensor of the twin is which of the network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from twinnet.errors import UsageError
from twinnet.files import atomic_write, close_file, read_json, read_toml

__all__ = ["read_name_map", "write_name_map"]


def read_name_map(path: str | Path) -> dict[str, str]:
    """Read a map of tensor names, first side to second: a JSON object, a TOML table, or lines `ours = theirs`."""
    path = Path(path)
    parse = {".json": read_json, ".toml": read_toml}.get(path.suffix, _read_lines)
    table = parse(path, "name map")
    if not isinstance(table, dict) or not table or not all(isinstance(v, str) for v in table.values()):
        raise UsageError(
            f"{path}: a name map must map names to names", hint='{"network tensor": "twin tensor"}'
        )
    return table


def _read_lines(path: Path, what: str) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"no such {what}: {path}", hint=close_file(path)) from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder, not a {what}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a readable {what}: {error}") from None
    pairs = [line.partition("=") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {a.strip(): b.strip() for a, equals, b in pairs if equals}


def write_name_map(
    path: str | Path,
    sure: Mapping[str, str],
    likely: Mapping[str, str],
    left: tuple[Sequence[str], Sequence[str]],
) -> None:
    """Write a map to edit, in the form that its suffix says (see `read_name_map`).

    `sure` are pairs, `likely` guesses, `left` the names on both sides that have no partner. JSON has no comments, so
    that a `.json` file tells neither guesses from pairs nor what is left.
    """
    path = Path(path)
    if path.suffix == ".json":
        text = json.dumps({**sure, **likely}, indent=2, ensure_ascii=False) + "\n"
    else:
        text = "\n".join(_lines(sure, likely, left, quoted=path.suffix == ".toml"))
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, text.encode("utf-8"))


def _lines(
    sure: Mapping[str, str],
    likely: Mapping[str, str],
    left: tuple[Sequence[str], Sequence[str]],
    *,
    quoted: bool,
) -> list[str]:
    def pairs(names: Mapping[str, str]) -> list[str]:
        return [f"{_word(a, quoted)} = {_word(b, quoted)}" for a, b in names.items()]

    lines = [
        "# network = twin; edit it and pass it with --names. A name mapped to nothing has no counterpart."
    ]
    if sure:
        lines += ["", "# Paired:", *pairs(sure)]
    if likely:
        lines += ["", "# Guessed from names, shapes and values; check these:", *pairs(likely)]
    for side, names in zip(("network", "twin"), left, strict=True):
        if names:
            lines += ["", f"# Left in the {side}:", *(f"#   {_word(name, quoted)}" for name in names)]
    return [*lines, ""]


def _word(name: str, quoted: bool) -> str:
    """A name as TOML writes it, or as it is; a line break would end the line."""
    return json.dumps(name, ensure_ascii=False) if quoted else " ".join(name.splitlines())
