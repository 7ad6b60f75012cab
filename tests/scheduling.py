"""Which worker runs which test."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

__all__ = ["ByFile"]

_APART = ("tests/test_docs.py", "tests/trust/test_hidden.py", "tests/restore/")
"""Long files whose tests share little: their tests are spread over the workers."""

_TOGETHER = (
    (
        "tests/engines/test_executorch.py",
        "tests/engines/test_executorch_int8.py",
        "tests/executorch/test_device_program.py",
        "tests/inspector/test_inspector.py",
    ),
    ("tests/engines/test_litert", "tests/profile/test_engines.py"),
)
"""Files that share a process of ExecuTorch or LiteRT's converter, whose first program takes ten seconds more than the
next."""


class ByFile(LoadScopeScheduling):
    """The tests of one file stay with one worker, so that what they share is made once.

    The marks of xdist itself (`xdist_group`) have no effect with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_APART):
            return nodeid
        group = next((files[0] for files in _TOGETHER if nodeid.startswith(files)), "")
        return group or nodeid.partition("::")[0]

    def remove_node(self, node: WorkerController) -> str | None:
        """A worker is gone: others take over what it left, without the test that it died of.

        xdist itself would also hand out the files that it had finished. A worker that is given nothing to do never
        asks for more, and the whole run hangs; the test that ended one worker would end the next.
        """
        work = self.assigned_work.pop(node)
        left = [(unit, test) for unit in work.values() for test, done in unit.items() if not done]
        if not left:
            return None
        unit, died_of = left[0]
        unit[died_of] = True
        self.workqueue.update({scope: unit for scope, unit in work.items() if not all(unit.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return died_of
