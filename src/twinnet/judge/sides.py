"""The two sides of a check: their sessions, what they are called, and which outputs correspond."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twinnet.engines import Spec, engine_for_format, find_engine
from twinnet.engines.base import Session
from twinnet.errors import EngineError, TwinnetError
from twinnet.job import Arrays, Job
from twinnet.layers.graph import Graph
from twinnet.network.base import Network
from twinnet.result import SideInfo

__all__ = ["OutputPair", "Sides", "align_outputs", "dims", "refuse_random"]


class Sides:
    """The network and its twin, opened when asked for and closed together."""

    def __init__(self, network: Any, reference: Spec | Session, twin: Any, job: Job) -> None:
        self.network = network
        self.net: Session | None = None
        self.twin: Session | None = None
        self.reference = reference
        self.twin_spec = twin
        self._job = job
        self._sessions: list[Session] = []
        self._refused: TwinnetError | None = None

    @property
    def derived(self) -> bool:
        """Whether the twin is converted from this very network."""
        spec = self.twin_spec
        return isinstance(spec, Spec) and (spec.file is None or not find_engine(spec.engine).file_is_network)

    def open_network(self) -> Session:
        """The network's own session."""
        self.net = self._open(self.reference, "network")
        return self.net

    def open_twin(self) -> Session:
        """The twin's session, opened once."""
        if self._refused is not None:
            raise self._refused
        if self.twin is None:
            twin = self._open(self.twin_spec, "twin")
            self.twin = twin if self.net is None else self.net.view(twin)
        return self.twin

    def load_ahead(self, inputs: Arrays) -> None:
        """Open the twin before its turn, and load what a trace of both will need; what fails is said in its turn."""
        try:
            self.open_twin()
        except TwinnetError as error:
            self._refused = error
        for session in (self.net, self.twin):
            if session is not None:
                with contextlib.suppress(TwinnetError):
                    session.load_ahead(inputs)

    def _open(self, spec: Any, side: str) -> Session:
        self._job.progress(f"opening the {side}")
        if isinstance(spec, Session):
            session = spec
        elif isinstance(spec, Spec):
            session = find_engine(spec.engine).open(self.network, spec.options, spec.file, self._job)
        elif isinstance(spec, Network):
            session = find_engine(_engine_of(spec)).open(spec, {}, None, self._job)
        else:
            from twinnet.engines.callable import CallableSession

            session = CallableSession(spec, self.network, self._job)
        self._sessions.append(session)
        return session

    def close(self) -> None:
        """Free both sessions."""
        for session in self._sessions:
            session.close()
        self._sessions.clear()

    def network_info(self) -> SideInfo:
        """The network in words and numbers, as far as it is open."""
        net, spec = self.network, self.reference
        if isinstance(spec, Spec):
            info = SideInfo(net.name, spec.engine, str(spec), "", net.format, net.parameters)
        else:
            info = getattr(spec, "side", SideInfo(net.name, spec.engine))
        return self._with_session(info, self.net)

    def twin_info(self) -> SideInfo:
        """The twin likewise."""
        spec = self.twin_spec
        if isinstance(spec, Spec):
            info = SideInfo(spec.engine, spec.engine, str(spec))
            if spec.file:
                info = replace(info, description=spec.file)
        elif isinstance(spec, Session):
            info = getattr(spec, "side", SideInfo(spec.engine, spec.engine))
        elif isinstance(spec, Network):
            engine = _engine_of(spec)
            info = SideInfo(
                engine, engine, spec.name, "", spec.format, spec.parameters, description=spec.name
            )
        else:
            name = getattr(spec, "__name__", "function")
            info = SideInfo(name, "callable", name)
        return self._with_session(info, self.twin)

    @staticmethod
    def _with_session(info: SideInfo, session: Session | None) -> SideInfo:
        if session is None:
            return info
        try:
            count = len(session.sites)
        except EngineError:  # it does not run, so nobody can count
            count = 0
        return replace(info, version=session.version, sites=count, precision=session.precision)


def _engine_of(network: Network) -> str:
    """What runs a twin that was given as a network."""
    return engine_for_format(network.format).name


@dataclass(frozen=True, slots=True)
class OutputPair:
    """One output on both sides: its name in a run, and its tensor's name among the sites."""

    name: str
    tensor: str
    twin_name: str
    twin_tensor: str


def align_outputs(
    net: Session, plain: Mapping[str, Any], twin: Session, twin_plain: Mapping[str, Any]
) -> list[OutputPair]:
    """Outputs that correspond: by position, or by name where the twin gives only some of them."""
    ours = list(zip(plain, net.output_tensors, strict=False))
    theirs = list(zip(twin_plain, twin.output_tensors, strict=False))
    if len(theirs) < len(ours) and set(twin_plain) <= set(plain):
        tensors = dict(ours)
        return [OutputPair(name, tensors[name], name, tensor) for name, tensor in theirs]
    return [OutputPair(*a, *b) for a, b in zip(ours, theirs, strict=False)]


def refuse_random(side: str, session: Session, graph: Graph | None) -> None:
    """Two runs of a side that draws random numbers cannot be compared."""
    place = session.random
    for layer in graph or ():
        if not place and layer.attrs.get("random"):
            where = f" ({layer.source})" if layer.source else ""
            place = f"{layer.module or layer.node} {layer.op}{where}"
    if place:
        raise EngineError(
            f"the {side} draws random numbers in {place}",
            stage="run",
            hint="seed it, or make it deterministic: two runs of it cannot be compared",
        )


def dims(shape: Sequence[int]) -> str:
    """A shape as people write it."""
    return "x".join(map(str, shape)) or "scalar"
