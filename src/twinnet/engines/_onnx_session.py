"""What all sessions of ONNX models share: where their values come from, and what can be observed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from twinnet.engines._onnx_graph import OnnxGraph
from twinnet.engines.base import Session
from twinnet.site import Site

if TYPE_CHECKING:
    from twinnet.engines._export import OnnxArtefact
    from twinnet.layers import Graph

__all__ = ["OnnxSession"]


class OnnxSession(Session):
    """A session of an artefact. A subclass runs it, and says which of its tensors survive."""

    def __init__(self, artefact: OnnxArtefact) -> None:
        self._artefact = artefact
        self._cut = OnnxGraph(artefact.model)
        self.signature = artefact.signature
        self.precision = artefact.precision

    def _sites_of(self, names: Iterable[str]) -> tuple[Site, ...]:
        outputs = set(self._cut.outputs)
        found = []
        for name in names:
            node = self._cut.nodes[self._cut.producer[name]]
            origin = self._artefact.origin.get(name)
            found.append(
                Site(
                    tensor=name,
                    node=node.name or name,
                    op=node.op_type,
                    module=origin.module if origin else "",
                    call=origin.call if origin else 0,
                    index=list(node.output).index(name),
                    source=origin.source if origin else "",
                    role="output" if name in outputs else "inner",
                )
            )
        return tuple(found)

    @property
    def inputs(self) -> dict[str, str]:
        return self._artefact.inputs

    @property
    def output_tensors(self) -> tuple[str, ...]:
        return self._cut.outputs

    @property
    def artefact(self) -> OnnxArtefact:
        return self._artefact

    @property
    def provenance(self) -> dict[str, str] | None:
        return self._artefact.provenance

    @property
    def random(self) -> str:
        return self._cut.random

    def graph(self) -> Graph | None:
        return self._artefact.graph()
