"""The main verb: does the twin compute what the network computes?"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinnet.errors import EngineError, UsageError
from twinnet.result import InputsInfo, Result, ResultSet

if TYPE_CHECKING:
    from twinnet.engines.spec import Spec
    from twinnet.inputs import Inputs
    from twinnet.judge.judgement import Judgement
    from twinnet.network import Network

__all__ = [
    "CheckOptions",
    "check",
    "default_spec",
    "modes_kept",
    "prepare",
    "read_network",
    "run_folder",
    "run_judgement",
]


@dataclass(frozen=True)
class CheckOptions:
    """Everything a check can be told beside network, inputs and twin. Each has a flag of the same name."""

    as_spec: str | None = None
    shapes: Mapping[str, tuple[int, ...]] | None = None
    preprocess: Any = None
    watch: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    level: str = "intermediates"
    threads: int | None = None
    seed: int = 0
    samples: int | None = None
    memory: int | None = None
    time_limit: float | None = None
    rtol: float | None = None
    atol: float | None = None
    ulp: float | None = None
    snr: float | None = None
    psnr: float | None = None
    cosine: float | None = None
    tolerance_file: str | None = None
    metric: Any = None
    baseline: str | None = None
    names: Mapping[str, str] | None = None
    keep: str = "worst"
    debug_ir: str | Path | None = None
    advise: bool = False
    advise_target: float | None = None
    advise_out: str | None = None
    progress: Callable[[str, float | None], None] = lambda step, share: None


def run_folder(network: str, twin: str) -> Path:
    """The default run folder of a check, `runs/<network>-<twin>`.

    >>> run_folder("nets/detector.py:build", "onnxruntime?opt=off").as_posix()
    'runs/detector.build-onnxruntime-opt-off'
    """
    place, _, attribute = network.rpartition(":") if ":" in network else (network, "", "")
    stem = Path(place).name.removesuffix(".py").removesuffix(".onnx").removesuffix(".pt2")
    name = f"{stem}.{attribute}" if attribute else stem
    from twinnet.engines.spec import file_name

    text = f"{name}-{twin}".replace("/", "-")
    return Path("runs") / file_name(text, 120).strip("-.")


def default_spec(network: Network, twin: Any = None) -> str:
    """The engine that runs the network itself when nobody says otherwise.

    Tables are judged beside the network they were made from, the native engine beside the tables.
    """
    from twinnet.engines import reference_spec

    return str(reference_spec(network, twin))


def check(
    network: Any,
    inputs: Any = None,
    twin: Any = "onnxruntime",
    *,
    out: str | Path | None = None,
    command: str = "",
    **options: Any,
) -> Result | ResultSet:
    """Compare a network with its twin, site by site, and judge the difference against the noise floor.

    `network` is an `nn.Module`, a file, or `file.py:factory`; `inputs` arrays, files or None (synthesised); `twin` an
    engine spec (several separated by commas), a Python function, or another network: an `nn.Module`, an exported
    program, an ONNX model. With `out` a run folder is written. The other keywords are the fields of `CheckOptions`.
    The result's `repr` is the one-screen report.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    >>> check(net, torch.linspace(-1, 1, 16).reshape(2, 8), "torch?dtype=float64").verdict
    'PASS'
    """
    unknown = sorted(set(options) - {f.name for f in fields(CheckOptions)})
    if unknown:
        known = ", ".join(f.name for f in fields(CheckOptions))
        raise UsageError(f"check has no option {unknown[0]!r}", hint=f"options: {known}")
    with modes_kept(network), modes_kept(twin):
        return _check(network, inputs, twin, out, command, CheckOptions(**options))


@contextmanager
def modes_kept(network: Any) -> Iterator[None]:
    """A module is set to eval for the check; afterwards it, and each of its parts, is as its owner left it."""
    module: Any = network[0] if isinstance(network, tuple) and network else network
    parts = list(module.modules()) if callable(getattr(module, "modules", None)) else []
    modes = [part.training for part in parts]
    try:
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode


def _check(
    network: Any, inputs: Any, twin: Any, out: str | Path | None, command: str, settings: CheckOptions
) -> Result | ResultSet:
    from twinnet.engines import parse_spec

    loaded, feed, specs = prepare(network, inputs, twin, settings)
    if settings.baseline is not None:
        Result.load(settings.baseline)  # a wrong path is said before anything has run
    results = []
    taken: set[str] = set()
    # One twin that cannot be read does not stop the others; if none can, it is the call that is wrong.
    refused: list[UsageError] | None = [] if len(specs) > 1 else None
    for spec in specs:
        folder = _folder(out, spec, taken, several=len(specs) > 1)
        reference = parse_spec(settings.as_spec or default_spec(loaded, spec))
        results.append(_check_one(loaded, feed, reference, spec, settings, folder, command, refused))
    if refused and len(refused) == len(specs):
        raise refused[0]
    if len(results) == 1:
        return results[0]
    together = ResultSet(tuple(results))
    if out is not None:
        from twinnet.report.files import write_set

        write_set(together, Path(out))
    return together


def read_network(network: Any, inputs: Any, settings: CheckOptions) -> tuple[Network, Inputs]:
    """From what a person names to the network and its samples."""
    from twinnet.inputs import load_inputs, python_sample
    from twinnet.network import load_network

    settings.progress("reading the network", None)
    loaded = load_network(network, shape=settings.shapes)
    loaded = loaded.with_example(python_sample(inputs))
    feed = load_inputs(
        loaded.signature,
        inputs,
        shapes=settings.shapes,
        preprocess=settings.preprocess,
        seed=settings.seed,
        samples=settings.samples,
        bounds=loaded.bounds(),
    )
    return loaded, feed


def prepare(
    network: Any, inputs: Any, twin: Any, settings: CheckOptions
) -> tuple[Network, Inputs, Sequence[Spec | Network | Callable[..., Any]]]:
    """From what a person names to the network, its samples, and what its twins are."""
    from twinnet.engines import parse_specs
    from twinnet.inputs import python_sample
    from twinnet.network import is_network, load_network
    from twinnet.pyfile import kind_words

    loaded, feed = read_network(network, inputs, settings)
    # A module may be a sequence of modules as well; it is one twin all the same.
    several = isinstance(twin, Iterable) and not (isinstance(twin, str) or callable(twin) or is_network(twin))
    given: list[Any] = list(twin) if several else [twin]
    specs: list[Spec | Network | Callable[..., Any]] = []
    for one in given:
        if isinstance(one, str):
            specs += parse_specs(one)
        elif is_network(one):
            specs.append(load_network(one).with_example(_example_for(one, python_sample(inputs))))
        elif callable(one):
            specs.append(one)
        else:
            raise UsageError(
                f"{kind_words(one)} is not a twin",
                hint="give an engine spec such as 'onnxruntime', a function, an nn.Module, an exported program or an "
                "ONNX model",
            )
    if not specs:
        raise UsageError("no twin is named", hint="--twin onnxruntime")
    return loaded, feed, specs


def _example_for(twin: Any, sample: Any) -> Any:
    """The network's sample, unless it is by names that the twin's own `forward` does not have."""
    forward = getattr(twin, "forward", None)
    if forward is not None and isinstance(sample, Mapping):
        try:
            inspect.signature(forward).bind(**sample)
        except TypeError:
            return None
    return sample


def _folder(out: str | Path | None, spec: Any, taken: set[str], *, several: bool) -> Path | None:
    """Where the run of one twin goes; two twins never share a folder, whatever their files are called."""
    if out is None or not several:
        return None if out is None else Path(out)
    slug = name = _slug(spec)
    number = 2
    while name in taken:
        name, number = f"{slug}-{number}", number + 1
    taken.add(name)
    return Path(out) / name


def _slug(spec: Any) -> str:
    from twinnet.engines.spec import file_name

    name = getattr(spec, "slug", None) or getattr(spec, "__name__", None) or getattr(spec, "name", "callable")
    return file_name(name, 80)


def _check_one(
    network: Network,
    feed: Any,
    reference: Spec,
    spec: Any,
    settings: CheckOptions,
    folder: Path | None,
    command: str,
    refused: list[UsageError] | None,
) -> Result:
    from twinnet.judge.judgement import Judgement

    judgement = Judgement(network, feed, reference, spec, settings)
    return run_judgement(judgement, settings, folder, command, refused)


def run_judgement(
    judgement: Judgement,
    settings: CheckOptions,
    folder: Path | None,
    command: str,
    refused: list[UsageError] | None = None,
) -> Result:
    """Carry a judgement out, turn an engine's failure into ERROR, and write the run folder.

    With a list in `refused`, a twin that cannot be read is an ERROR as well, and is noted there.
    """
    from twinnet.environment import environment
    from twinnet.shrink.collect import Seeds

    start = time.perf_counter()
    collected = Seeds(judgement)
    seeds = ()
    try:
        result = judgement.result()
        seeds = collected.of(result)
    except EngineError as error:
        result = _error_result(judgement, judgement.feed.info, error)
        seeds = collected.of_error(error)
    except UsageError as error:
        if refused is None:
            raise
        refused.append(error)
        unread = EngineError(error.what, stage="read", hint=error.hint)
        result = _error_result(judgement, judgement.feed.info, unread)
    finally:
        judgement.close()
    result = replace(
        result,
        timings={**result.timings, "total": time.perf_counter() - start},
        environment=environment(),
        command=command,
        folder="" if folder is None else str(folder),
    )
    if settings.baseline is not None:
        from twinnet.judge.again import against_baseline

        result = against_baseline(result, settings.baseline)
    object.__setattr__(result, "_seeds", seeds)  # for twinnet.repro; no part of result.json
    if folder is not None:
        from twinnet.report.files import write_run
        from twinnet.report.show import save_tensors

        settings.progress("writing the report", None)
        write_run(result, folder, judgement.keeper.tensors)
        save_tensors(folder, judgement.keeper.tensors)
        collected.save(folder, seeds)
    return result


def _error_result(judgement: Judgement, inputs: InputsInfo, error: EngineError) -> Result:
    """A side that could not run: ERROR, with the engine's own words, and never a comparison."""
    return Result(
        verdict="ERROR",
        network=judgement.sides.network_info(),
        twin=judgement.sides.twin_info(),
        inputs=inputs,
        error=error.what if error.hint is None else f"{error.what}\n  {error.hint}",
        stage=error.stage,
        log=error.log,
        timings=dict(judgement.timings),
    )
