"""Finds the segments worth keeping in float: runs the twin with them in float, in the order of their impact."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.blame.context import Context
from twinnet.engines import Spec
from twinnet.engines.timing import Stopwatch
from twinnet.engines.torch import TorchSession
from twinnet.errors import EngineError, UsageError
from twinnet.files import atomic_write
from twinnet.judge.metrics import compare
from twinnet.precision import dtype_class
from twinnet.result import Advice, AdviceStep, Difference
from twinnet.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx

    from twinnet.engines.base import Session
    from twinnet.engines.spec import Twin
    from twinnet.job import Job
    from twinnet.network import Network
    from twinnet.pairing import Pair

__all__ = ["Adviser", "Tried", "search"]

GAIN = 0.5
"""Gain in dB that makes more segments in float worthwhile."""

_MOST_SAMPLES = 8
_RUNS = 12

Try = Callable[[Sequence[str]], "Tried"]
"""Runs the twin with these segments (network tensors) in float."""


@dataclass(frozen=True)
class Tried:
    """How each output differs from the network's, and the seconds of a run, if it was timed."""

    differences: Sequence[Difference]
    seconds: float | None = None


def search(
    ranked: Sequence[str], places: Mapping[str, str], attempt: Try, target: float | None = None
) -> tuple[tuple[AdviceStep, ...], int]:
    """Keep 1, 2, 4 ... of `ranked` until the SNR reaches `target` or stops growing; return the steps and the best
    number.

    With a target, bisect between the last two steps for the smallest number that reaches it. Without one, keep at most
    half of the segments: all of them in float would be the network again.

    >>> reached = {0: 20.0, 1: 29.0, 2: 30.0, 3: 30.1}
    >>> attempt = lambda kept: Tried([Difference(snr=reached[len(kept)])])
    >>> steps, best = search(["a", "b", "c", "d", "e", "f"], {}, attempt)
    >>> [(s.kept, s.snr) for s in steps], best
    ([(0, 20.0), (1, 29.0), (2, 30.0), (3, 30.1)], 2)
    """
    most = len(ranked) if target is not None else (len(ranked) + 1) // 2

    def step(count: int) -> AdviceStep:
        kept = tuple(ranked[:count])
        tried = attempt(kept)
        found = tried.differences
        worst = min((d.snr for d in found), default=math.inf)
        return AdviceStep(
            count,
            kept,
            tuple(places.get(tensor, tensor) for tensor in kept),
            worst,
            min((d.psnr for d in found), default=math.inf),
            max((d.max_abs for d in found), default=0.0),
            tried.seconds,
        )

    steps = [step(0)]
    count, idle = 1, 0
    while steps[-1].kept < most:
        if target is not None and steps[-1].snr >= target:
            break
        steps.append(step(min(count, most)))
        gained = steps[-1].snr - max(s.snr for s in steps[:-1]) >= GAIN
        idle = 0 if gained else idle + 1
        if idle == 2 and target is None:
            break
        count *= 2
    if target is not None and len(steps) > 1 and steps[-1].snr >= target:
        low, high = steps[-2].kept, steps[-1].kept
        while high - low > 1:
            middle = step((low + high) // 2)
            steps.append(middle)
            low, high = (low, middle.kept) if middle.snr >= target else (middle.kept, high)
        steps.sort(key=lambda s: s.kept)
    return tuple(steps), _best(steps, target)


def _best(steps: Sequence[AdviceStep], target: float | None) -> int:
    if target is not None:
        enough = [s.kept for s in steps if s.snr >= target]
        if enough:
            return enough[0]
    most = max(s.snr for s in steps)
    return next(s.kept for s in steps if s.snr == most or s.snr > most - GAIN)


class Adviser:
    """Runs one twin with some of its segments in float, where its engine and format allow that."""

    def __init__(
        self,
        context: Context,
        sessions: tuple[Session, Session],
        spec: Twin,
        network: Network,
        job: Job,
        *,
        timed: bool = False,
    ) -> None:
        self._timed = timed
        self._context = context
        self._net, self._twin = sessions
        self._spec = spec if isinstance(spec, Spec) else None
        self._network = network
        self._job = job
        self._pairs = {p.site.tensor: p for p in context.pairs}

    def advise(
        self,
        ranked: Sequence[str],
        samples: Sequence[Mapping[str, np.ndarray]],
        *,
        target: float | None = None,
        out: str | Path | None = None,
    ) -> Advice:
        """Try, choose, and write the chosen twin to `out`."""
        places = {t: p.site.module or p.site.label for t, p in self._pairs.items()}
        note = self._obstacle()
        if not note:
            few = [samples[i] for i in range(min(len(samples), _MOST_SAMPLES))]
            try:
                wanted = [list(self._net.run(sample).values()) for sample in few]
                attempt = lambda kept: self._run(kept, few, wanted)  # noqa: E731
                steps, best = search(ranked, places, attempt, target)
                file = self._write(next(s for s in steps if s.kept == best).tensors, out)
                reached = target is None or any(s.kept == best and s.snr >= target for s in steps)
                return Advice(steps, best, "run", len(few), "", target, reached, file)
            except EngineError as error:
                note = f"it could not be run that way: {error.what}"
        if out is not None:
            raise _unwritable(note)
        steps, best = search(ranked, places, self._simulated, target)
        reached = target is None or any(s.kept == best and s.snr >= target for s in steps)
        return Advice(steps, best, "simulated", 1, note, target, reached)

    def refuse(self, out: str | Path | None) -> None:
        """Raise if no improved twin can be written to `out`."""
        if out is None:
            return
        if note := self._obstacle():
            raise _unwritable(note)
        if self._in_torch is not None:
            raise UsageError("a torch twin cannot be written to a file", hint="leave out --advise-out")

    # -- ways to try -----------------------------------------------------------------------------------------------

    def _obstacle(self) -> str:
        """Why the twin cannot be run with a part in float; empty if it can."""
        if self._in_torch is not None:
            return ""
        if self._twin.artefact is None or self._spec is None or self._spec.file is None:
            return f"twinnet cannot change a twin of {self._twin.engine}"
        if self._quantised or self._twin.precision in ("float16", "bfloat16"):
            return ""
        return "it has neither quantisers nor a narrow float format to take out"

    @property
    def _in_torch(self) -> TorchSession | None:
        """The twin, if it is PyTorch in another precision."""
        if isinstance(self._twin, TorchSession) and self._twin.precision != self._net.precision:
            return self._twin
        return None

    @property
    def _quantised(self) -> bool:
        artefact = self._twin.artefact
        return artefact is not None and any(n.op_type == "QuantizeLinear" for n in artefact.model.graph.node)

    def _simulated(self, kept: Sequence[str]) -> Tried:
        from twinnet.blame.simulate import simulate

        found = simulate(self._context, set(kept))
        return Tried(_differences([self._context.trace[n] for n in found], list(found.values())))

    def _run(
        self,
        kept: Sequence[str],
        samples: Sequence[Mapping[str, np.ndarray]],
        wanted: Sequence[Sequence[np.ndarray]],
    ) -> Tried:
        with self._session(kept) as session:
            found: list[Difference] = []
            for sample, ours in zip(samples, wanted, strict=True):
                found += _differences(ours, list(session.run(sample).values()))
            return Tried(found, _seconds(session, samples[0]) if self._timed else None)

    @contextmanager
    def _session(self, kept: Sequence[str]) -> Iterator[Session]:
        if not kept:
            yield self._twin
            return
        if self._in_torch is not None:
            known = {p.twin_site.tensor for p in self._context.pairs}
            yield self._in_torch.in_float([self._pairs[t].twin_site.tensor for t in kept], known)
            return
        assert self._spec is not None
        with scratch_folder("advise") as folder:
            file = Path(folder) / "kept.onnx"
            file.write_bytes(self._model(kept).SerializeToString())
            session = replace(self._spec, file=str(file)).open(self._network, self._job)
            try:
                yield session
            finally:
                session.close()

    def _write(self, kept: Sequence[str], out: str | Path | None) -> str:
        if out is None:
            return ""
        return str(atomic_write(Path(out), self._model(kept).SerializeToString()))

    # -- the ONNX twin ---------------------------------------------------------------------------------------------

    def _model(self, kept: Sequence[str]) -> onnx.ModelProto:
        from twinnet.blame.onnx_float import Part, between_casts, without_quantisers
        from twinnet.onnx.cut import between
        from twinnet.onnx.graph import OnnxGraph

        artefact = self._twin.artefact
        assert artefact is not None
        graph = OnnxGraph(artefact.network.complete())
        parts = []
        for tensor in kept:
            pair = self._pairs[tensor]
            target = pair.twin_site.tensor
            fed = {p.twin_site.tensor for p in self._context.pairs if p is not pair} | set(
                self._twin.inputs.values()
            )
            nodes, _ = between(graph, [target], fed)
            parts.append(Part(nodes, target, self._weights(pair), self._bounds(pair)))
        return without_quantisers(graph, parts) if self._quantised else between_casts(graph, parts)

    def _weights(self, pair: Pair) -> dict[str, np.ndarray]:
        """Float weights for the twin's segment: the network's own where the twin's are a rounded copy of them."""
        import torch

        from twinnet.judge.declared import Declared
        from twinnet.pairing.weights import same_weights

        context = self._context
        found = context.frontier(pair)
        if context.twin_graph is None or found is None:
            return {}
        declared = Declared(context.graph, context.twin_graph, context.pairs, context.twin_inputs)
        part, _ = declared.part(pair.twin_site.tensor)
        allowed: dict[str, torch.Tensor] = dict(declared.weight_steps(part))
        for name in {n for layer in part for n in layer.inputs if n is not None and n in declared.constants}:
            weight = declared.constants[name]
            if weight.dtype in (torch.float16, torch.bfloat16):
                allowed[name] = weight.double().abs() * torch.finfo(weight.dtype).eps + 2.0**-24
        held = {n: declared.constants[n].double() for n in allowed}
        own = declared.own_part(found[0], found[1], pair.site.tensor)
        for name, twin in same_weights(own, part, declared.constants, allowed):
            held[twin] = own.constants[name].double()
        return {
            n.removesuffix(".T") if n.endswith(".T") else n: (t.t() if n.endswith(".T") else t)
            .float()
            .numpy()
            for n, t in held.items()
        }

    def _bounds(self, pair: Pair) -> tuple[float, float] | None:
        """The range of the network's activation that the twin leaves to its quantiser."""
        graph, twin = self._context.graph, self._context.twin_graph
        layer = graph.layers[graph.producer[pair.site.tensor]]
        if twin is None or layer.kind not in ("relu", "clip"):
            return None
        if layer.kind == "relu":
            return 0.0, math.inf
        ends = []
        for place, name in ((1, "min"), (2, "max")):
            value = layer.attrs.get(name)
            if value is None and place < len(layer.inputs):
                value = graph.constants.get(layer.inputs[place] or "")
            ends.append(None if value is None else float(value))
        low, high = ends
        return (-math.inf if low is None else low), (math.inf if high is None else high)


def _seconds(session: Session, sample: Mapping[str, np.ndarray]) -> float:
    """Seconds of a run: a low one of several, which whatever else runs on the machine disturbs least."""
    watch = Stopwatch()
    for _ in range(_RUNS):
        watch(lambda: session.run(sample))
    return sorted(watch.seconds)[_RUNS // 4]


def _unwritable(note: str) -> UsageError:
    return UsageError(
        f"the improved twin cannot be written: {note}",
        hint="--advise-out needs a twin that is an ONNX file with quantisers, or in float16",
    )


def _differences(ours: Sequence[Any], theirs: Sequence[Any]) -> list[Difference]:
    """Compare each float output with the network's; other types do not tell how close the twin is."""
    return [
        compare(np.asarray(a), np.asarray(b))
        for a, b in zip(ours, theirs, strict=False)
        if np.shape(a) == np.shape(b)
        and dtype_class(np.asarray(a).dtype) == dtype_class(np.asarray(b).dtype) == "float"
    ]
