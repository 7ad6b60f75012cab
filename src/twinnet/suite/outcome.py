"""The outcome of one case, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from twinnet.errors import Accident

__all__ = ["Case", "Outcome", "Verdict"]

Verdict = Literal["PASS", "FAIL", "ERROR", "SKIP"]


@dataclass(frozen=True, slots=True)
class Case:
    """One model or layer, on one engine with one set of options.

    >>> Case("example-matmul", "iree", "default", "iree", layer="MatMul_0").name
    'example-matmul_layer_MatMul_0-iree-default'
    """

    model: str
    engine: str
    options: str
    spec: str
    layer: str = ""
    random: bool = False
    chip: str = ""
    hw_type: str = ""

    @property
    def name(self) -> str:
        """The name of the case, which is that of its test and of its run folder."""
        from twinnet.engines.spec import file_name

        what = f"layer_{self.layer}" if self.layer else "full_model"
        words = (f"{self.model}_{what}", self.engine, self.options, "random" if self.random else "")
        return file_name("-".join(filter(None, words)))

    @property
    def column(self) -> str:
        """Engine and options, as the tables of a report name them."""
        return f"{self.engine}-{self.options}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case.

    `step` and `message` say what could not go on (ERROR) or what differs (FAIL), `accident` why it need not come
    again. `folder` is the run folder. `covers` are identical layers that this one stands for, `same_as` is the
    layer that stands for this one (SKIP). `built` says how many artefacts were exported, compiled or captured for
    it; a `reused` outcome is that of an earlier run with nothing changed. `expected` is "yes" for a known failure,
    "no" for a failure or a pass that was not expected, and empty for anything else; `wanted`, `reason` and `link`
    are from the file of expected failures, `given` options of `twinnet suite` without which there is no such case.
    """

    case: Case
    verdict: Verdict
    step: str = ""
    stage: str = ""
    message: str = ""
    folder: str = ""
    seconds: float = 0.0
    evidence: str = "strong"
    covers: tuple[str, ...] = ()
    same_as: str = ""
    built: int = 0
    reused: bool = False
    expected: str = ""
    wanted: str = ""
    reason: str = ""
    link: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    accident: Accident = ""
    given: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the case."""
        return self.case.name

    @property
    def kind(self) -> str:
        """FAIL, ERROR with its step, PASS or SKIP, as the file of expected failures writes it.

        >>> Outcome(Case("a", "iree", "default", "iree"), "ERROR", "compile").kind
        'ERROR:compile'
        """
        return f"ERROR:{self.step}" if self.verdict == "ERROR" else self.verdict

    @property
    def good(self) -> bool:
        """Whether nobody has to look at it."""
        return self.expected == "yes" or (self.verdict in ("PASS", "SKIP") and self.expected != "no")

    def to_json(self) -> dict[str, Any]:
        """As JSON holds it; `from_json` reads it back."""
        return {"name": self.name, **asdict(self)}

    @staticmethod
    def from_json(data: Any, what: str = "the outcome") -> Outcome:
        """Read back; every field has its declared type, or it is a UsageError that begins with `what`."""
        from twinnet.files import checked

        return checked(Outcome, data, what)
