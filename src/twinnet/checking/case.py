"""A case to check, made from what the user names."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinnet.checking.options import Options
from twinnet.engines import Spec, parse_spec, parse_specs, reference_spec
from twinnet.engines.spec import Twin, file_name, place_name
from twinnet.errors import UsageError
from twinnet.job import Arrays, Job
from twinnet.judge.task import load_metric
from twinnet.judge.tolerance import Tolerances, read_tolerances
from twinnet.result import InputsInfo

if TYPE_CHECKING:
    from twinnet.engines.base import Session
    from twinnet.inputs import Inputs
    from twinnet.network import Network

__all__ = ["Case", "modes_kept", "placed", "read_network", "read_twins", "run_folders", "twin_name"]


@dataclass(frozen=True)
class Case:
    """Everything a check starts from: one network, one twin, the samples and the rules.

    `reference` runs the network itself. `given` is the name or path by which the user named the network, if any.
    `watch_all` also traces tensors without a partner. Make one with `Case.of`.
    """

    network: Network
    feed: Inputs
    reference: Spec | Session
    twin: Twin
    options: Options
    tolerances: Tolerances
    metric: Callable[..., Any] | None
    job: Job
    given: str = ""
    watch_all: bool = False

    @staticmethod
    def of(
        network: Network,
        feed: Inputs,
        twin: Twin,
        options: Options,
        *,
        reference: Spec | Session | None = None,
        given: Any = "",
    ) -> Case:
        """Make a case; unreadable tolerance files and metrics are reported here, before anything has run."""
        if reference is None:
            reference = parse_spec(options.reference) if options.reference else reference_spec(network, twin)
        twin = placed(twin, options.on)
        limits = options.limits
        job = Job(
            inputs=feed.samples[0],
            samples=feed.samples,
            threads=limits.threads,
            time_limit=limits.time_limit,
            memory=limits.memory,
            ir_folder=_ir_folder(options.debug_ir, network, twin),
            report=options.progress,
        )
        named = str(given) if isinstance(given, str | Path) else ""
        tolerances, metric = read_tolerances(options.tolerance), load_metric(options.metric)
        return Case(network, feed, reference, twin, options, tolerances, metric, job, named)

    @property
    def first(self) -> Arrays:
        """The first sample, kept because it is used often and samples are made on demand."""
        return self.job.inputs


def placed(twin: Twin, on: str | None) -> Twin:
    """A twin at the place that `--on` names, unless its spec names one itself.

    >>> str(placed(Spec("onnxruntime"), "ssh://pi@board"))
    'onnxruntime@ssh://pi@board'
    """
    board = place_name(on)
    if not board or (isinstance(twin, Spec) and twin.on):
        return twin
    if not isinstance(twin, Spec):
        raise UsageError(
            "only a twin that an engine runs can run on a board",
            hint="name it by a spec, such as onnxruntime",
        )
    return replace(twin, on=board)


def _ir_folder(root: str | Path | None, network: Network, twin: Twin) -> Path | None:
    """The folder of one case, named after network and twin."""
    return None if root is None else Path(root) / file_name(f"{network.name}-{twin_name(twin)}").strip("-.")


def twin_name(twin: Twin) -> str:
    """A name for a twin that is safe in folder names.

    >>> twin_name(Spec("onnxruntime", {"opt": "off"})), twin_name(len)
    ('onnxruntime-opt-off', 'len')
    """
    name = getattr(twin, "slug", None) or getattr(twin, "__name__", None) or getattr(twin, "name", "callable")
    return file_name(name, 80)


def run_folders(out: str | Path, twins: Sequence[Any]) -> list[Path]:
    """The folder of each twin inside `out`, or `out` itself for a single one; no two twins share one."""
    if len(twins) == 1:
        return [Path(out)]
    taken: dict[str, None] = {}
    for twin in twins:
        slug = name = twin_name(twin)
        number = 2
        while name in taken:
            name, number = f"{slug}-{number}", number + 1
        taken[name] = None
    return [Path(out) / name for name in taken]


@contextmanager
def modes_kept(*networks: Any) -> Iterator[None]:
    """Restore the training mode of modules and their submodules, which a check sets to eval."""
    modules: list[Any] = [n[0] if isinstance(n, tuple) and n else n for n in networks]
    modules = [m for m in modules if callable(getattr(m, "modules", None)) and not isinstance(m, type)]
    parts = [p for m in modules for p in m.modules()]
    modes = [part.training for part in parts]
    try:
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode


def read_network(
    network: Any, inputs: Any, options: Options, twins: Iterable[Twin] = ()
) -> tuple[Network, Inputs]:
    """Load the network and its samples.

    Shapes that nobody states are those of the first twin that does; inputs that nobody gives those of a recording.
    """
    from twinnet.checking.borrowed import recorded_inputs, with_shapes_of
    from twinnet.inputs import load_inputs, python_sample
    from twinnet.network import load_network

    options.progress("reading the network", None)
    loaded = load_network(network, shape=options.shapes)
    ungiven = inputs is None or (isinstance(inputs, list | tuple) and not inputs)
    recorded = recorded_inputs(twins, loaded) if ungiven else None
    if recorded is not None:
        inputs = recorded.samples
    loaded = loaded.with_example(python_sample(inputs))
    signature, notes = loaded.signature, () if recorded is None else recorded.notes
    if ungiven and recorded is None and not options.shapes:
        signature, notes = with_shapes_of(twins, loaded)
    feed = load_inputs(
        signature,
        inputs,
        shapes=options.shapes,
        preprocess=options.preprocess,
        seed=options.seed,
        samples=options.samples,
        bounds=loaded.bounds(),
    )
    if recorded is not None:
        feed = replace(feed, info=_from(feed.info, recorded.place))
    return loaded, replace(feed, notes=(*notes, *feed.notes))


def _from(info: InputsInfo, place: str) -> InputsInfo:
    """Inputs that a recording holds."""
    described = info.description.replace(info.source, place) if info.source else info.description
    return replace(info, source=place, description=described)


def read_twins(twin: Any, inputs: Any = None) -> Sequence[Twin]:
    """Convert the `twin` argument to a list of specs, functions and networks."""
    from twinnet.inputs import python_sample
    from twinnet.network import is_network, load_network
    from twinnet.pyfile import kind_words

    # A module may be a sequence of modules as well; it is one twin all the same.
    several = isinstance(twin, Iterable) and not (isinstance(twin, str) or callable(twin) or is_network(twin))
    given: list[Any] = list(twin) if several else [twin]
    twins: list[Twin] = []
    for one in given:
        if isinstance(one, str | os.PathLike):
            twins += parse_specs(os.fspath(one))
        elif is_network(one):
            twins.append(load_network(one).with_example(_example_for(one, python_sample(inputs))))
        elif callable(one):
            twins.append(one)
        else:
            raise UsageError(
                f"{kind_words(one)} is not a twin",
                hint="give an engine spec such as 'onnxruntime', a function, an nn.Module, an exported program or an "
                "ONNX model",
            )
    if not twins:
        raise UsageError("no twin given", hint="for example: --twin onnxruntime")
    return twins


def _example_for(twin: Any, sample: Any) -> Any:
    """The network's sample, or None if it names inputs that the twin's `forward` does not have."""
    forward = getattr(twin, "forward", None)
    if forward is not None and isinstance(sample, Mapping):
        try:
            inspect.signature(forward).bind(**sample)
        except TypeError:
            return None
    return sample
