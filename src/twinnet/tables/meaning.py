"""What a network of lookup tables means: its plan, in whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from twinnet.engines.base import Session
from twinnet.engines.meaning import Meaning
from twinnet.lut.plan import Plan
from twinnet.tables.network_sites import NetworkSites
from twinnet.tables.same_form import plan_like
from twinnet.tables.session import TableSession
from twinnet.tables.view import TableView

if TYPE_CHECKING:
    from twinnet.debugger.stopped import Stopped
    from twinnet.pairing import Pair
    from twinnet.result import PairResult
    from twinnet.tables.judge import PlanJudge

__all__ = ["TableMeaning"]

_CONTRIBUTORS = 5


class TableMeaning(Meaning):
    """The meaning of a session of tables, or of a LUT network beside its tables."""

    name: ClassVar[str] = "tables"
    unit: ClassVar[str] = "pixels"
    aliases: ClassVar[Mapping[str, str]] = {
        "dnn_output": "output",
        "lut_output": "twin_output",
        "model_dbg": "trace",
        "lut_dbg": "twin_trace",
    }

    def __init__(self, session: TableSession | NetworkSites) -> None:
        self._session = session
        self._compared: tuple[Session, Plan] | None = None

    def view(self, twin: Session) -> Session:
        """A twin that runs these tables elsewhere, in pixel units."""
        own = self._session
        return twin if isinstance(twin, TableSession) else TableView(twin, own.plan, own.inputs)

    def plan_for(self, twin: Session) -> Plan:
        """The tables a twin must hold: the network's own, in the form of the twin's; fine-tuned ones are their own."""
        own = self._session
        if not isinstance(twin, TableSession) or own.net is None:
            return own.plan
        if self._compared is None or self._compared[0] is not twin:
            # Compressing tables takes a while.
            plan = twin.plan if twin.tuned else plan_like(own.net, own.plan, twin.plan)
            self._compared = twin, plan
        return self._compared[1]

    def judge(self, pairs: Sequence[Pair], twin: Session) -> PlanJudge:
        """By the exact interpolation of the tables; where a network gives them, an entry may be off by one."""
        from twinnet.tables.judge import PlanJudge

        own, plan = self._session, self.plan_for(twin)
        image = next(iter(own.inputs))
        if isinstance(own, TableSession):
            return PlanJudge(plan, pairs, twin, slack=0, image=image)
        slack = 0 if isinstance(twin, TableSession) and plan is twin.plan else 1
        return PlanJudge(plan, pairs, twin, slack=slack, image=image, tabulate=own.tabulate)

    def contributors(self, pairs: Sequence[PairResult]) -> Sequence[PairResult]:
        """Where the tables approximate their network worst; tables beside tables approximate nothing."""
        if isinstance(self._session, TableSession):
            return ()
        units = [p for p in pairs if p.status == "pass" and p.difference.max_abs > 0 and p.site.op == "unit"]
        return sorted(units, key=lambda p: p.difference.mse, reverse=True)[:_CONTRIBUTORS]

    def pixel(
        self, stopped: Stopped, row: PairResult, index: tuple[int, ...]
    ) -> tuple[list[str], dict[str, Any]]:
        """The lookup behind an element, or the sums it is made of; the network's own tables beside the twin's."""
        from twinnet.tables.pixels import explain_tables

        own, theirs = self._plans(stopped)
        return explain_tables(stopped, (own, theirs), row, index)

    def place(self, stopped: Stopped, row: PairResult) -> list[str]:
        """Which table, which taps."""
        from twinnet.tables.pixels import table_lines

        return table_lines(self._plans(stopped)[1], row.site.tensor)

    def _plans(self, stopped: Stopped) -> tuple[Plan, Plan]:
        """The plan that the network gives and the one the twin runs.

        A twin that runs tables elsewhere shows no plan: it is looked at with the network's own.
        """
        assert stopped.held is not None
        twin = stopped.held.sessions["twin"]
        own = self.plan_for(twin)
        return own, twin.plan if isinstance(twin, TableSession) else own
