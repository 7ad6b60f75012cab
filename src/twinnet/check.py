"""The main verb: does the twin compute what the network computes?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Unpack

from twinnet.checking.options import CheckKeywords, Options, options_of, spelt
from twinnet.extras import optional_packages
from twinnet.result import Result, ResultSet
from twinnet.trust import trusting
from twinnet.upload import offer_run

__all__ = ["check", "check_with", "run_folder"]


@spelt(CheckKeywords)
def check(
    network: Any,
    inputs: Any = None,
    twin: Any = "onnxruntime",
    *,
    out: str | Path | None = None,
    trust: bool = False,
    argv: Sequence[str] = (),
    **keywords: Unpack[CheckKeywords],
) -> Result | ResultSet:
    """Compare a network with its twin, site by site, and judge the difference against the noise floor.

    Args:
        network: An `nn.Module`, a file, or `file.py:factory`.
        inputs: Arrays or files; None for synthetic samples.
        twin: An engine spec (several separated by commas), a Python function, or another network: an `nn.Module`,
            an exported program, an ONNX model.
        out: Run folder to write; it is also sent to the dashboard of TWINNET_SERVER, if there is one.
        reference: Engine spec that runs the network itself; by default torch, for ONNX files `onnxruntime?opt=off`.
        shapes: Shapes of inputs, by name, for dimensions that the network leaves open.
        preprocess: Your function from an image path or array to an input, or `file.py:fn`.
        samples: Number of samples to read or to make.
        seed: Seed of synthetic samples.
        level: Compare every tensor ("intermediates"), or the outputs only ("outputs").
        watch: Compare only inner sites whose tensor, module or operator matches one of these patterns.
        skip: Leave out inner sites that match one of these patterns.
        names: Map from tensors, modules or outputs of the network to tensors of the twin, for those that cannot be
            paired automatically.
        names_out: File to write the pairs to, with the most likely ones for the rest, to be edited and used as `names`.
        tolerance: Limits to use instead of the noise floor: a `Tolerance` for the outputs, or a file of rules.
        metric: Your own score of the outputs, a function or `file.py:fn`; shown beside the verdict.
        baseline: Run folder of an earlier check; only new failures count.
        keep: Tensors to keep in the run folder.
        limits: Threads, memory and time that may be used.
        advise: Also find which segments to keep in float.
        debug_ir: Folder where compiling engines write their intermediate representation.
        profile: Also measure the twin: its time, memory and size (`result.cost`), and where the time goes (`profile/`
            in the run folder).
        on: Where the twin runs: `ssh://[user@]host[:port]`; None is this machine. A place in the spec itself,
            `onnxruntime@ssh://host`, takes precedence.
        trust: Let code in a .pt2 file run; without it, a file that holds code is refused.
        argv: The command line that started this check, for the report.
        progress: Called with the current step and the share of it that is done; by default a notebook shows it, and
            nothing else does.

    Returns:
        The result, whose `repr` is the one-screen report; for several twins a `ResultSet`.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    >>> check(net, torch.linspace(-1, 1, 16).reshape(2, 8), "torch?dtype=float64").verdict
    'PASS'
    """
    with trusting(trust), options_of(CheckKeywords, keywords) as options:
        result = check_with(options, network, inputs, twin, out=out, argv=argv)
    if out is not None:
        offer_run(out)
    return result


@optional_packages()
def check_with(
    options: Options,
    network: Any,
    inputs: Any = None,
    twin: Any = "onnxruntime",
    *,
    out: str | Path | None = None,
    argv: Sequence[str] = (),
) -> Result | ResultSet:
    """Like `check`, with the keywords in one object."""
    from twinnet.checking.case import Case, modes_kept, read_network, read_twins, run_folders
    from twinnet.checking.run import check_case
    from twinnet.report.files import run_written, write_run

    with modes_kept(network, twin), ExitStack() as stack:
        twins = read_twins(twin, inputs)
        loaded, feed = read_network(network, inputs, options, twins)
        if options.baseline is not None:
            Result.load(options.baseline)  # a wrong path is reported before anything has run
        # One twin that cannot be read does not stop the others; if none can, the call is wrong.
        several = len(twins) > 1
        cases = [Case.of(loaded, feed, one, options, given=network) for one in twins]
        folders = [None] * len(cases) if out is None else run_folders(out, [case.twin for case in cases])
        outer = Path(out) if several and out is not None else None
        stage = stack.enter_context(run_written(outer))
        if outer is not None:
            (outer / "result.json").unlink(missing_ok=True)  # the folders inside are about to change
        results = [
            check_case(case, folder=folder, argv=argv, lenient=several)
            for case, folder in zip(cases, folders, strict=True)
        ]
        if not several:
            return results[0]
        if all(r.stage == "read" for r in results):
            check_case(cases[0], argv=argv)  # raises the error
        together = ResultSet(tuple(results))
        if stage is not None:
            write_run(together, stage, page=outer)
    return together


def run_folder(network: str, twin: str) -> Path:
    """The default run folder of a check, `runs/<network>-<twin>`.

    >>> run_folder("nets/detector.py:build", "onnxruntime?opt=off").as_posix()
    'runs/detector.build-onnxruntime-opt-off'
    """
    from twinnet.engines.spec import file_name

    place, _, attribute = network.rpartition(":") if ":" in network else (network, "", "")
    stem = Path(place).name.removesuffix(".py").removesuffix(".onnx").removesuffix(".pt2")
    name = f"{stem}.{attribute}" if attribute else stem
    return Path("runs") / file_name(f"{name}-{twin}".replace("/", "-"), 120).strip("-.")
