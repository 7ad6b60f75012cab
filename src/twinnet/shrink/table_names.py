"""The steps of a table finding under names that say nothing: `p0.rot1.sr` of table `table0`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from twinnet.layers.graph import Layer
from twinnet.lut.plan import INPUT, Plane, Term
from twinnet.lut.variants import Lookup, Sum

__all__ = ["Names"]

_SUFFIX = re.compile(r"(\.rot\d+)?(\.sr|\.sum)?$")
"""What a site's name says about its step; the rest is the user's."""


@dataclass
class Names:
    """New names for old ones, given out as they are met."""

    places: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    terms: dict[str, str] = field(default_factory=dict)

    def site(self, name: str) -> str:
        """A register or site.

        >>> names = Names()
        >>> names.site("acme.in_c0.b1.rot2.sr"), names.site("acme"), names.site("acme.in_c0.b1.rot2")
        ('p0.rot2.sr', 'p1', 'p0.rot2')
        """
        if name == INPUT:
            return name
        found = _SUFFIX.search(name)
        assert found is not None
        place, suffix = name[: found.start()], found.group()
        return self.places.setdefault(place, f"p{len(self.places)}") + suffix

    def layers(self, layers: Sequence[Layer]) -> tuple[Layer, ...]:
        """The same steps under new names."""
        return tuple(self._layer(layer) for layer in layers)

    def _layer(self, layer: Layer) -> Layer:
        output = self.site(layer.outputs[0])
        step: Any = layer.attrs["step"]
        if isinstance(step, Lookup):
            step = replace(step, term=self._term(step.term, output))
        elif isinstance(step, Sum):
            step = replace(step, names=tuple(self.site(n) for n in step.names))
        inputs = tuple(None if n is None else self.site(n) for n in layer.inputs)
        return replace(
            layer, inputs=inputs, outputs=(output,), attrs={**layer.attrs, "step": step}, node=output,
            module=output.removesuffix(".sr"), source="",
        )  # fmt: skip

    def _term(self, term: Term, output: str) -> Term:
        branch = _SUFFIX.sub("", output)
        self.terms[term.name] = branch
        table = self.tables.setdefault(term.table, f"table{len(self.tables)}")
        sample = replace(term.sample, planes=self._planes(term.sample.planes))
        blend = term.blend and replace(term.blend, planes=self._planes(term.blend.planes))
        return replace(term, sample=sample, blend=blend, table=table, group="", branch=branch)

    def _planes(self, planes: tuple[Plane, ...]) -> tuple[Plane, ...]:
        return tuple(Plane(self.site(p.register), p.channel) for p in planes)

    def told(self, sentence: str) -> str:
        """A sentence about the steps in the new names.

        >>> names = Names({"acme.in_c0.b1": "p0", "acme": "p1"})
        >>> names.told("the twin looks up one bin too high (acme.in_c0.b1)")
        'the twin looks up one bin too high (p0)'
        """
        known = {**self.terms, **self.tables, **self.places}
        if not known:
            return sentence
        longest = sorted((n for n in known if n), key=len, reverse=True)
        words = "|".join(re.escape(n) for n in longest)
        return re.sub(rf"(?<![\w.])({words})(?![\w])", lambda m: known[m.group()], sentence)
