"""The verb `profile`: where the time of a twin goes, layer by layer of the network it was made from."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinnet.checking.case import Case, modes_kept, read_network, read_twins, run_folders
from twinnet.checking.options import Limits, Options
from twinnet.checking.profiled import built_case, open_subject, pace_of, target_of
from twinnet.checking.sides import Sides
from twinnet.engines import Spec, find_engine, parse_specs
from twinnet.errors import EngineError, UsageError
from twinnet.profile import Measured, Profile, Target, machine, profile_of
from twinnet.profile.building import CompileProfile
from twinnet.profile.pace import Pacemaker
from twinnet.profile.turns import affordable, timed_in_turns
from twinnet.progress import Report, silent
from twinnet.upload import offer_run

__all__ = ["Plan", "compile_profile_with", "measures_times", "profile_twin", "profile_with"]

_REPEATS = 30


@dataclass(frozen=True)
class Plan:
    """How a profile is measured: runs in all (None: 30, fewer if they take long), in how many rounds, and against which
    machine (None: this one)."""

    repeats: int | None = None
    rounds: int = 3
    target: Target | None = None


def profile_twin(
    network: Any,
    inputs: Any = None,
    twin: Any = "onnxruntime",
    *,
    out: str | Path | None = None,
    repeats: int | None = None,
    rounds: int = 3,
    target: Target | None = None,
    reference: str | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    threads: int | None = None,
    progress: Report = silent,
) -> Profile:
    """Measure a twin, and tie the time of each of its steps to layers of the network.

    Args:
        network: An `nn.Module`, a file, or `file.py:factory`.
        inputs: Arrays or files; None for a synthetic sample. The first sample is measured.
        twin: An engine spec. `torch` measures the network itself.
        out: Folder to write: profile.json, profile.csv, profile.html and traces; it is also sent to the dashboard of
            TWINNET_SERVER, if there is one.
        repeats: Runs that count, in all rounds together; None for 30, fewer if they take long.
        rounds: How often the twin is loaded again.
        target: What the machine can do; None measures this one. That of a board is known only if it is stated.
        reference: Engine spec that runs the network itself.
        shapes: Shapes of inputs, by name, for dimensions that the network leaves open.
        threads: Threads of the engine.
        progress: Called with the current step and the share of it that is done.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
    >>> made = profile_twin(net, torch.ones(1, 64), "torch", repeats=2, rounds=1)
    >>> [row.network_ops for row in made.rows]
    [('linear',), ('relu',)]
    """
    if isinstance(twin, str) and len(parse_specs(twin)) > 1:
        raise UsageError(
            "profile_twin measures one twin", hint="several in turns: twinnet profile NETWORK --twin A,B"
        )
    options = Options(reference=reference, shapes=shapes, limits=Limits(threads), progress=progress)
    (measured,) = profile_with(options, network, inputs, twin, Plan(repeats, rounds, target), out=out)
    if out is not None:
        offer_run(Path(out).parent if Path(out).name == "profile" else out, profile=True)
    return measured.profile


def profile_with(
    options: Options,
    network: Any,
    inputs: Any = None,
    twin: Any = "onnxruntime",
    plan: Plan | None = None,
    *,
    out: str | Path | None = None,
) -> list[Measured]:
    """Like `profile_twin`, with the keywords in one object; several twins are measured in turns."""
    plan = plan or Plan()
    with modes_kept(network, twin), ExitStack() as stack:
        twins = read_twins(twin, inputs)
        for one in twins:
            if isinstance(one, Spec) and not measures_times(one):
                raise EngineError(
                    f"{one.engine} does not measure times per layer",
                    stage="profile",
                    hint="twinnet profile --compile says how long building it takes, and estimates its layers",
                )
        loaded, feed = read_network(network, inputs, replace(options, samples=options.samples or 1), twins)
        cases = [Case.of(loaded, feed, one, options, given=network) for one in twins]
        opened = []
        for case in cases:
            sides = Sides(case)
            stack.callback(sides.close)
            opened.append(open_subject(case, sides))
        sessions, sample = [session for session, _ in opened], cases[0].first
        repeats = plan.repeats or min(affordable(session, sample, _REPEATS) for session in sessions)
        threads = options.limits.threads
        pacemaker = Pacemaker(threads)
        times = timed_in_turns(
            sessions,
            sample,
            repeats=repeats,
            rounds=plan.rounds,
            beside=pacemaker,
            said=options.progress,
        )
        found = [
            profile_of(
                session,
                timed,
                subject,
                threads=threads,
                target=target_of(case, plan.target),
                pace=pace_of(case, pacemaker),
            )
            for case, (session, subject), timed in zip(cases, opened, times)
        ]
    group = uuid.uuid4().hex if len(found) > 1 else ""
    found = [replace(one, profile=one.profile.of_group(group)) for one in found]
    if out is not None:
        from twinnet.report.profiles import write_profiles

        write_profiles(found, run_folders(out, [case.twin for case in cases]))
    return found


def measures_times(spec: Spec) -> bool:
    """Whether the engine of a twin measures the times of its steps."""
    return find_engine(spec.engine).abilities.profile


def compile_profile_with(
    options: Options,
    network: Any,
    inputs: Any = None,
    twin: Any = "onnxruntime",
    target: Target | None = None,
) -> CompileProfile:
    """Build a twin from scratch and say what each step took; every layer is estimated before it has run."""
    with modes_kept(network, twin), ExitStack() as stack:
        (spec,) = read_twins(twin, inputs)
        loaded, feed = read_network(network, inputs, replace(options, samples=options.samples or 1), [spec])
        case = Case.of(loaded, feed, spec, options, given=network)
        return built_case(case, stack, target or machine(options.limits.threads))
