"""From a run to a repro."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from twinnet.errors import UsageError
from twinnet.extras import optional_packages
from twinnet.report.figures import clean
from twinnet.report.quoting import screen
from twinnet.result import Fact, Result, ResultSet, StagedResult
from twinnet.scratch import scratch_folder
from twinnet.shrink.folder import Contents, check_target, start, write_folder
from twinnet.shrink.seed import Seed, load_seeds
from twinnet.trust import is_trusted

__all__ = ["WRITERS", "Repro", "repro"]

Progress = Callable[[str, float | None], None]
Writer = Callable[[Seed, bool, Progress], tuple[dict[str, Any], Contents]]
"""From a seed, and whether it is confidential, to the figures of a repro and the contents of its folder."""

WRITERS: dict[str, str] = {
    "error": "twinnet.shrink.error_repro:refused_network",
    "live": "twinnet.shrink.live:smallest_live",
    "expected": "twinnet.shrink.stored:stored_values",
    "part": "twinnet.shrink.stored:stored_values",
    "stored": "twinnet.shrink.stored:stored_values",
    "table": "twinnet.tables.repro.folder:table_repro",
}
"""Kind of seed to "module:function"."""


@dataclass(frozen=True)
class Repro:
    """A repro as it was written. `confirmed`: its `repro.py` was started and showed the fault, and no longer did so
    with the cause repaired. `repair` says what was repaired, or why nothing was; `repaired` is None then."""

    folder: Path
    kind: str
    sentence: str
    nodes: int
    elements: int
    trials: int = 0
    failed_trials: int = 0
    kept: tuple[str, ...] = ()
    place: str = ""
    confirmed: bool = False
    said: str = ""
    repair: str = "the twin cannot be run apart from your code"
    repaired: bool | None = None

    def __str__(self) -> str:
        lines = [f"finding  {self.place}"] if self.place else []
        lines.append(f"repro    {self.sentence}")
        if self.trials:
            crashed = f", {self.failed_trials} of them could not run" if self.failed_trials else ""
            lines.append(f"tried    {self.trials} smaller ones{crashed}")
        if self.kept:
            lines.append(f"kept     {', '.join(self.kept)} as in your network: the fault needs it")
        last = self.said.splitlines()[-1] if self.said else ""
        shown = self.confirmed or self.repaired is False
        lines.append(
            "check    repro.py exits with 1: it shows the fault"
            if shown
            else f"check    repro.py does NOT show the fault here: {last}"
        )
        if self.repaired is None:
            lines.append(f"repair   not tried: {self.repair}")
        elif self.repaired:
            lines.append(f"repair   with {self.repair} it exits with 0: the fault is gone")
        else:
            lines.append(f"repair   with {self.repair} it is NOT gone ({last}): it has another cause as well")
        lines.append(f"files    {self.folder}/repro.py, {self.folder}/ISSUE.md")
        lines.append(f"run      python {shlex.quote(f'{self.folder}/repro.py')}   (needs no twinnet)")
        lines.append("report   post the text of ISSUE.md, and attach the other files of the folder")
        return screen("\n".join(lines))

    def to_json(self) -> str:
        """Machine-readable form."""
        return json.dumps({**asdict(self), "folder": str(self.folder)}, indent=1)


@optional_packages()
def repro(
    run: Any,
    out: str | Path | None = None,
    *,
    confidential: bool = False,
    finding: int = 0,
    trust: bool = False,
    progress: Progress = lambda step, share: None,
) -> Repro:
    """Write the smallest network and input that still show a finding of `run`, and one file that runs them.

    `run` is a run folder or the result of a check. The folder `out` (default `repro` in the run folder) gets
    `repro.py`, which needs neither twinnet nor the user's code, the network, the inputs and `ISSUE.md`. A run that
    somebody else made may name programs to start: that needs `trust`.

    >>> import tempfile, torch, twinnet
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> found = twinnet.check(net, torch.ones(1, 4), lambda x: {"output": x * 0 - 1})
    >>> repro(found, tempfile.mkdtemp()).kind
    'stored'
    """
    seeds, folder, causes = _seeds(run)
    target = Path(out) if out is not None else folder / "repro" if folder is not None else None
    if target is None:
        raise UsageError("no folder given for the repro", hint="repro(result, DIR)")
    check_target(target)
    if not 0 <= finding < len(seeds):
        raise UsageError(
            f"there is no finding {finding + 1} to make a repro of",
            hint=f"this run has {len(seeds)} of them, in the order of the network",
        )
    seed = replace(seeds[finding], cause=causes.get(seeds[finding].place.tensor))
    if seed.starts and not (trust or is_trusted()):
        programs = "\n    ".join(clean(line) for line in seed.starts)
        raise UsageError(
            f"this run was not made by you on this machine, and its repro would start\n    {programs}",
            hint="allow that with --trust (trust=True) if you know who made the run",
        )
    made, contents = _writer(seed.kind)(seed, confidential, progress)
    progress("writing", None)
    write_folder(target, contents)
    exit_code, said = start(target)
    place = "" if confidential else seed.place.label
    # A file that Python cannot run also exits with 1.
    shown = exit_code == 1 and "the fault exists" in said
    found = Repro(target, seed.kind, place=place, said=said, confirmed=shown, **made)
    if contents.repaired is None:
        return found
    progress("running it with the cause repaired", None)
    gone, after = _without_cause(contents)
    return replace(found, repaired=gone, confirmed=shown and gone, said=said if gone else after)


def _without_cause(contents: Contents) -> tuple[bool, str]:
    """Run the repro with its cause repaired: the fault must be gone."""
    with scratch_folder("repro") as folder:
        write_folder(Path(folder), contents.repaired or contents)
        code, said = start(Path(folder))
    return code == 0 and "the fault is gone" in said, said


def _writer(kind: str) -> Writer:
    module, _, name = WRITERS[kind].partition(":")
    return getattr(import_module(module), name)


def _entered(run: Any) -> Any:
    """For a network followed through its stages: the stage where the difference enters, else the one that failed."""
    staged = run if isinstance(run, ResultSet) else None
    if not isinstance(run, (Result, ResultSet)):
        loaded = Result.load(run)
        staged = loaded if isinstance(loaded, StagedResult) else None
    if not isinstance(staged, StagedResult) or staged.verdict == "PASS":
        return run
    stage = staged.entered or next(s for s in staged.stages if s.state == "error")
    return staged.result_of(stage)


def _seeds(run: Any) -> tuple[tuple[Seed, ...], Path | None, dict[str, Fact]]:
    """The seeds of a run, its folder, and the causes of its findings by tensor."""
    run = _entered(run)
    if isinstance(run, ResultSet):
        failing = [r for r in run if r.verdict != "PASS"]
        if not failing:
            raise UsageError("every twin passed: there is nothing to reproduce")
        run = failing[0]
    if isinstance(run, Result):
        result, folder = run, Path(run.folder) if run.folder else None
    else:
        loaded = Result.load(run)
        if isinstance(loaded, ResultSet):
            places = ", ".join(r.folder or r.twin.spec for r in loaded if r.verdict != "PASS")
            raise UsageError(
                "this folder holds several runs", hint=f"name one of them: {places or 'all passed'}"
            )
        result, folder = loaded, Path(run) if Path(run).is_dir() else Path(run).parent
    if result.verdict == "PASS":
        hint = "its known failures: make the repro from the baseline" if result.known else None
        raise UsageError("this run passed: there is nothing to reproduce", hint=hint)
    kept = result.seeds or (load_seeds(folder) if folder is not None else ())
    seeds = tuple(s for s in kept if s.place.tensor not in result.known)
    causes = {f.site.tensor: f.cause.fact for f in result.findings if f.cause is not None}
    if not seeds and causes and {cause.code for cause in causes.values()} == {"quantisation.coarse"}:
        raise UsageError(
            "there is nothing to run: the twin computes what its file says, in steps that are far too large",
            hint="correct the scales that the findings name, or calibrate again",
        )
    if not seeds:
        why = (
            f"the ERROR came from {result.stage or 'elsewhere'}, before an engine had an ONNX network to refuse"
            if result.verdict == "ERROR"
            else "the tensors of its findings were not kept (--keep none, a stated tolerance, or a very large part)"
        )
        raise UsageError(f"nothing in this run can be made into a repro: {why}", hint="run the check again")
    return seeds, folder, causes
