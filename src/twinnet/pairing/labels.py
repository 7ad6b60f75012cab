"""Pair sites by names that people gave: files named after modules, outputs or tensors, in any spelling."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from twinnet.site import Site

__all__ = ["bare", "by_label", "known_as", "naming"]

_SURE, _GUESSED = 1.0, 0.85
_FIRST = 1 << 30


def bare(name: str) -> str:
    """A name without what different tools spell differently: case, separators, the number of an output.

    >>> bare("blocks.0.conv"), bare("Blocks/0/Conv:0"), bare("blocks_0_conv")
    ('blocks_0_conv', 'blocks_0_conv', 'blocks_0_conv')
    """
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r":\d+$", "", name.lower())).strip("_")


def _numbered(name: str) -> str:
    """Without the number that gives files their order: `003_stem.conv`."""
    return re.sub(r"^\d+_", "", bare(name))


def _ended(name: str) -> str:
    """Without a last word that says only that it is an output: `stem_conv_output_0`."""
    return re.sub(r"_(?:output|out)(?:_\d+)?$", "", _numbered(name))


_SPELLINGS: tuple[Callable[[str], str], ...] = (bare, _numbered, _ended)


def known_as(names: Iterable[str]) -> dict[str, str]:
    """Names by what people may mean by them, the plainest spelling first.

    >>> known_as(["03_boxes_output_0"])
    {'03_boxes_output_0': '03_boxes_output_0', 'boxes_output_0': '03_boxes_output_0', 'boxes': '03_boxes_output_0'}
    """
    names = list(names)
    found: dict[str, str] = {}
    for spelling in _SPELLINGS:
        for short, name in _unique((spelling(name), name) for name in names).items():
            found.setdefault(short, name)
    return found


def naming(sites: Sequence[Site]) -> dict[str, dict[str, str]]:
    """By what names people may know tensors: those of outputs, of modules (what a module returns last), of tensors.

    A name that two tensors share is left out.
    """
    last = {site.module: site.tensor for site in sites if site.module}
    return {
        "output": _unique((site.output, site.tensor) for site in sites if site.output),
        "module": _unique(last.items()),
        "tensor": _unique((site.tensor, site.tensor) for site in sites),
    }


def by_label(sites: Sequence[Site], twin_sites: Sequence[Site]) -> Iterator[tuple[str, str, float]]:
    """Pairs of (network tensor, twin tensor, confidence), by the kind of names that fits most of the twin first."""
    found: list[tuple[int, list[tuple[str, str, float]]]] = []
    for kind, known in naming(sites).items():
        for names in naming(twin_sites).values():
            for spelling in _SPELLINGS:
                spelt = _unique((spelling(name), twin) for name, twin in names.items())
                confidence = _SURE if spelling is bare else _GUESSED
                fits = [(known[name], twin, confidence) for name, twin in spelt.items() if name in known]
                first = kind == "output" and spelling is bare  # a name that the user gave
                found.append((_FIRST if first else len(fits), fits))
    for _, fits in sorted(found, key=lambda item: -item[0]):
        yield from fits


def _unique(names: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Bare names that mean one tensor."""
    found: dict[str, str | None] = {}
    for name, tensor in names:
        key = bare(name)
        found[key] = tensor if found.get(key, tensor) == tensor else None
    return {name: tensor for name, tensor in found.items() if name and tensor is not None}
