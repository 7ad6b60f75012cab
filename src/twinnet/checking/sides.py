"""The two sides of a check: their sessions and their descriptions."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from twinnet.checking.case import Case
from twinnet.engines import Spec, engine_for_format, find_engine
from twinnet.engines.base import Session
from twinnet.engines.spec import Twin, board_word
from twinnet.errors import EngineError, TwinnetError
from twinnet.job import Arrays
from twinnet.network.base import Network
from twinnet.result import SideInfo

__all__ = ["Sides"]


class Sides:
    """The network and its twin, opened on demand and closed together."""

    def __init__(self, case: Case) -> None:
        self.net: Session | None = None
        self.twin: Session | None = None
        self._case = case
        self._sessions: list[Session] = []
        self._refused: TwinnetError | None = None

    @property
    def derived(self) -> bool:
        """Whether the twin is converted from this very network."""
        spec = self._case.twin
        if not isinstance(spec, Spec):
            return False
        engine = find_engine(spec.engine)
        made = spec.file is None or not engine.file_is_network
        return made and engine.keeps_names(self._case.network, spec.options)

    def open_network(self) -> Session:
        """Open the network's session."""
        self.net = self._open(self._case.reference, "network")
        return self.net

    def open_twin(self) -> Session:
        """Open the twin's session, once."""
        if self._refused is not None:
            raise self._refused
        if self.twin is None:
            twin = self._open(self._case.twin, "twin")
            meaning = None if self.net is None else self.net.meaning
            self.twin = twin if meaning is None else meaning.view(twin)
        return self.twin

    def use_twin(self, twin: Session) -> Session:
        """Go on with another view of the twin."""
        self.twin = twin
        return twin

    def load_ahead(self, inputs: Arrays) -> None:
        """Open the twin early and load what tracing both will need; a failure is raised later, by `open_twin`."""
        try:
            self.open_twin()
        except TwinnetError as error:
            self._refused = error
        for session in (self.net, self.twin):
            if session is not None:
                with contextlib.suppress(TwinnetError):
                    session.load_ahead(inputs)

    def _open(self, spec: Twin, side: str) -> Session:
        self._case.job.progress(f"opening the {side}")
        if isinstance(spec, Session):
            session = spec
        elif isinstance(spec, Spec):
            session = spec.open(self._case.network, self._case.job)
        elif isinstance(spec, Network):
            session = engine_for_format(spec.format)().open(spec, {}, None, self._case.job)
        else:
            from twinnet.engines.callable import CallableSession

            session = CallableSession(spec, self._case.network, self._case.job)
        self._sessions.append(session)
        return session

    def close(self) -> None:
        """Free both sessions."""
        for session in self._sessions:
            session.close()
        self._sessions.clear()

    def network_info(self) -> SideInfo:
        """Describe the network, as far as it is open."""
        net, spec = self._case.network, self._case.reference
        if isinstance(spec, Spec):
            info = SideInfo(net.name, spec.engine, str(spec), "", net.format, net.parameters)
        else:
            info = SideInfo(net.name, spec.engine)
        return replace(self._with_session(info, self.net), given=self._case.given)

    def twin_info(self) -> SideInfo:
        """Describe the twin, as far as it is open."""
        spec = self._case.twin
        if isinstance(spec, Spec):
            info = SideInfo(spec.engine, spec.engine, str(spec))
            words = ", ".join(filter(None, (spec.file, f"on {board_word(spec.on)}" if spec.on else "")))
            info = replace(info, description=words or info.description)
        elif isinstance(spec, Session):
            info = SideInfo(spec.engine, spec.engine)
        elif isinstance(spec, Network):
            engine = engine_for_format(spec.format).name
            info = SideInfo(
                engine, engine, spec.name, "", spec.format, spec.parameters, description=spec.name
            )
        else:
            from twinnet.engines.callable import CallableSession

            name = getattr(spec, "__name__", "function")
            info = SideInfo(name, CallableSession.engine, name)
        return self._with_session(info, self.twin)

    @staticmethod
    def _with_session(info: SideInfo, session: Session | None) -> SideInfo:
        if session is None:
            return info
        try:
            count = len(session.sites)
        except EngineError:  # it does not run, so its sites are unknown
            count = 0
        if session.setting and session.setting not in info.spec:
            words = ", ".join(filter(None, (info.description, session.setting)))
            info = replace(info, description=words)
        return replace(info, version=session.version, sites=count, precision=session.precision)
