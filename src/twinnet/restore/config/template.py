"""Writing `config.toml`: every option with its value and a comment."""

from __future__ import annotations

import textwrap
import types
import typing
from collections.abc import Mapping
from typing import Any

import tomlkit
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from twinnet.restore.config.base import OneOf
from twinnet.restore.config.whole import SECTIONS, VERSION

__all__ = ["allowed_values", "template"]

_WORDS = {int: "a whole number", float: "a number", str: "text in quotes", bool: "true or false"}


def template(values: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """A whole config with all defaults, except for `values` by section and key.

    >>> print("\\n".join(template({"model": {"scale": 2}}).splitlines()[:9]))
    # An experiment of twinnet. Commands take their settings from this file and never change it;
    # a copy is stored with everything they make.
    version = 1
    <BLANKLINE>
    [model]
    # The network that becomes tables.
    <BLANKLINE>
    # What is restored. (sr, denoise, deblock, deblur)
    task = "sr"
    """
    given = {name: dict(entries) for name, entries in (values or {}).items()}
    document = tomlkit.document()
    document.add(
        tomlkit.comment(
            "An experiment of twinnet. Commands take their settings from this file and never change it;"
        )
    )
    document.add(tomlkit.comment("a copy is stored with everything they make."))
    document.add("version", tomlkit.item(VERSION))
    for name, model in SECTIONS.items():
        table = tomlkit.table()
        for line in (model.__doc__ or "").strip().splitlines()[:1]:
            table.add(tomlkit.comment(line))
        table.add(tomlkit.nl())
        chosen = given.pop(name, {})
        for key, field in model.model_fields.items():
            for line in _comment(name, key, field):
                table.add(tomlkit.comment(line))
            default = field.get_default(call_default_factory=True)
            table.add(key, tomlkit.item(chosen.pop(key, default)))
        if chosen:
            raise KeyError(f"[{name}] has no key {', '.join(chosen)}")
        document.add(tomlkit.nl())
        document.add(name, table)
    if given:
        raise KeyError(f"no section {', '.join(given)}")
    return tomlkit.dumps(document)


def _comment(section: str, key: str, field: FieldInfo) -> list[str]:
    allowed = allowed_values((section, key))
    spoken = "" if allowed in (*_WORDS.values(), "a list of texts") else f" ({allowed})"
    return textwrap.wrap(f"{field.description or ''}{spoken}", 106)


def allowed_values(key: tuple[str, ...]) -> str:
    """What a key takes, in words.

    >>> allowed_values(("data", "quality")), allowed_values(("export_lut", "last_node"))
    ('a whole number from 1 to 100', '255, 256')
    """
    from twinnet.restore.config.sections import CascadeStage

    model: Any = SECTIONS.get(key[0])
    name = key[1] if len(key) > 1 else ""
    if key[:2] == ("model", "cascade") and len(key) > 3:
        model, name = CascadeStage, key[3]
    field = None if model is None else model.model_fields.get(name)
    if field is None:
        return ""
    named = next((m for m in field.metadata if isinstance(m, OneOf)), None)
    return ", ".join(named.names()) if named is not None else _kind(field.annotation) + _range(field)


def _kind(annotation: Any) -> str:
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return ", ".join(str(value) for value in typing.get_args(annotation))
    if origin in (typing.Union, types.UnionType):
        return ", ".join(_kind(part) for part in reversed(typing.get_args(annotation)))
    if origin is list:
        (of,) = typing.get_args(annotation)
        return {str: "a list of texts", float: "a list of numbers"}.get(of, "a list of tables")
    return _WORDS.get(annotation, "")


def _range(field: FieldInfo) -> str:
    low = next((m.ge for m in field.metadata if isinstance(m, Ge)), None)
    above = next((m.gt for m in field.metadata if isinstance(m, Gt)), None)
    high = next((m.le for m in field.metadata if isinstance(m, Le)), None)
    below = next((m.lt for m in field.metadata if isinstance(m, Lt)), None)
    words = f" from {low}" if low is not None else f" over {above}" if above is not None else ""
    return words + (f" to {high}" if high is not None else f" below {below}" if below is not None else "")
