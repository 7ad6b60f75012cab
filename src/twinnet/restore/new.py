"""Making an experiment: its folder and its config, after the published recipe of its kind of network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from twinnet.errors import UsageError
from twinnet.files import atomic_write
from twinnet.restore.config import CONFIG_NAME, SECTIONS, parse, template
from twinnet.restore.tasks import find_task

__all__ = ["RECIPES", "new", "settings"]

Values = dict[str, dict[str, Any]]

RECIPES: dict[str, Values] = {
    "srlut": {
        "model": {"modes": "s", "stages": 1, "padding": "reflect"},
        "train": {
            "learning_rate": 1e-4,
            "schedule": "constant",
            "validate_every": 1000,
            "checkpoint_every": 1000,
        },
    },
    "mulut": {"finetune_lut": {"batch_size": 256}},
    "spf": {"finetune_lut": {"batch_size": 256}},
    "auto-mulut": {"model": {"activation": "gelu"}, "train": {"schedule": "constant"}},
    "auto-spf": {"model": {"modes": "s"}},
    "cascade": {
        "model": {
            "scale": 4,
            "cascade": [
                {"patterns": "P1+P2+P3", "upscale": 2, "interval": 5},
                {"patterns": "Q1+Q2+Q3", "upscale": 4, "cell": 2, "interval": 5},
            ],
        }
    },
}
"""What differs from the defaults, as published (cascades are our own)."""


def settings(pairs: Iterable[str]) -> Values:
    """`section.key=value` with values as TOML writes them; plain words need no quotes.

    >>> settings(["model.scale=2", "model.type=srlut", "data.train=['a', 'b']"])
    {'model': {'scale': 2, 'type': 'srlut'}, 'data': {'train': ['a', 'b']}}
    """
    found: Values = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        section, dot, key = name.strip().partition(".")
        if not equals or not dot or section not in SECTIONS or key not in SECTIONS[section].model_fields:
            raise UsageError(
                f"--set {pair}: no such setting", hint="write SECTION.KEY=VALUE, as model.scale=2"
            )
        try:
            value = tomlkit.value(text.strip()).unwrap()
        except (TOMLKitError, ValueError):
            value = text.strip()
        found.setdefault(section, {})[key] = value
    return found


def new(folder: str | Path, values: Mapping[str, Mapping[str, Any]] | None = None) -> Path:
    """Write `config.toml` with every option: the recipe of the type, changed by `values`. Nothing is overwritten."""
    target = Path(folder) / CONFIG_NAME
    if target.exists():
        raise UsageError(f"{target} already exists", hint="edit it, or choose another folder")
    given = {section: dict(entries) for section, entries in (values or {}).items()}
    kind = given.get("model", {}).get("type", SECTIONS["model"].model_fields["type"].default)
    merged: Values = {section: dict(entries) for section, entries in RECIPES.get(kind, {}).items()}
    task = given.get("model", {}).get("task", SECTIONS["model"].model_fields["task"].default)
    if not find_task(task).resizes:
        merged.setdefault("model", {})["scale"] = 1
    for section, entries in given.items():
        merged.setdefault(section, {}).update(entries)
    text = template(merged)
    parse(text, str(target))
    atomic_write(target, text.encode())
    return target
