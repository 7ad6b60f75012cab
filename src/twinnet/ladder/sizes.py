"""A ladder of networks that one factory makes in several sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from twinnet.checking.case import read_network
from twinnet.checking.options import Options
from twinnet.cutting import Cut
from twinnet.errors import UsageError
from twinnet.ladder.source import Place, Source, source_of
from twinnet.network import load_network
from twinnet.pyfile import call_user, is_reference, load_attribute, split_reference

__all__ = ["SizesSource"]


class SizesSource(Source):
    """The networks `factory(size)`, from the smallest to the largest; inside each are its own rungs."""

    def __init__(self, options: Options, factory: Any, inputs: Any, sizes: Sequence[str]) -> None:
        if isinstance(factory, str) and is_reference(factory):
            name = split_reference(factory)[1]
            factory = load_attribute(factory, what="factory")
        else:
            name = getattr(factory, "__name__", "network")
        if not callable(factory):
            raise UsageError("--size needs a factory that takes a size", hint="file.py:factory")
        self._cuts: list[Cut] = []
        self.inputs = ""
        for size in sizes:
            made = call_user(lambda size=size: factory(size), what="factory", name=f"{name}({size!r})")
            loaded, feed = read_network(load_network(made, name=f"{name}-{size}"), inputs, options)
            self._cuts.append(Cut(loaded, list(feed.samples)))
            self.inputs = feed.info.description
        self.network, self.samples = self._cuts[-1].network, self._cuts[-1].samples
        self._sizes = sizes

    def _places(self) -> Iterator[Place]:
        known: set[str] = set()
        for size, cut in zip(self._sizes, self._cuts, strict=True):
            inner = source_of(cut.network, cut.samples).places
            ops = dict.fromkeys(op for place in inner for op in place.ops if op not in known)
            known.update(ops)
            count = cut.network.parameters
            yield Place(size, cut.network.name, count, count, tuple(ops))

    def prefix(self, index: int) -> Cut:
        return self._cuts[index]

    def block(self, index: int) -> Cut | None:
        return self._cuts[index]

    def starts_at(self, index: int) -> bool:
        return True
