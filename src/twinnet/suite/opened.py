"""A case with its two sides open, for those who want more than its verdict."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from twinnet.cache import CacheUse, watch_cache
from twinnet.suite.outcome import Case

if TYPE_CHECKING:
    import numpy as np

    from twinnet.cutting import Cut
    from twinnet.engines import Spec
    from twinnet.engines.base import Session
    from twinnet.engines.timing import Timed
    from twinnet.network import Network
    from twinnet.suite.subject import Subject

__all__ = ["OpenedCase"]


class OpenedCase:
    """One case. Nothing is opened before it is asked for; what stops it raises a TwinnetError."""

    def __init__(self, case: Case, subject: Subject) -> None:
        self.case = case
        self._subject = subject
        self._use = CacheUse()
        self._sessions: list[Session] = []

    def __enter__(self) -> OpenedCase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as stack:
            for session in self._sessions:
                stack.callback(session.close)

    @cached_property
    def _cut(self) -> Cut:
        return self._subject.cut(self.case.layer)

    @cached_property
    def network(self) -> Network:
        """The model, or the layer cut out of it."""
        return self._cut.network if self.case.layer else self._subject.network

    @cached_property
    def inputs(self) -> dict[str, np.ndarray]:
        """The first sample."""
        return dict(self._cut.sample) if self.case.layer else self._subject.sample()

    @cached_property
    def reference_results(self) -> dict[str, np.ndarray]:
        """The outputs of the network."""
        from twinnet.engines import parse_spec, reference_spec

        return self._open(reference_spec(self.network, parse_spec(self.case.spec))).run(self.inputs)

    @cached_property
    def _twin(self) -> Session:
        from twinnet.checking.case import placed
        from twinnet.engines import Spec, parse_spec

        with watch_cache() as self._use:
            spec = placed(parse_spec(self.case.spec), self._subject.config.board)
            assert isinstance(spec, Spec)
            return self._open(spec)

    def _open(self, spec: Spec) -> Session:
        from twinnet.job import Job

        config = self._subject.config
        limits = config.limits_of(self.case.spec)
        job = Job(self.inputs, (self.inputs,), threads=config.threads, time_limit=limits)
        session = spec.open(self.network, job)
        self._sessions.append(session)
        return session

    @property
    def artefacts(self) -> tuple[Path, ...]:
        """Folders with what was converted or compiled for the twin."""
        assert self._twin is not None
        return tuple(dict.fromkeys(self._use.folders))

    @cached_property
    def results(self) -> dict[str, np.ndarray]:
        """The outputs of the twin."""
        return self._twin.run(self.inputs)

    def times(self, repeats: int = 10) -> Timed:
        """The times of the steps of the twin, if its engine measures them."""
        return self._twin.profile(self.inputs, repeats)
