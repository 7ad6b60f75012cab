"""One segment to explain: what did the twin compute instead of these layers?

A `Problem` holds the network's canonical layers between paired tensors, the inputs that the twin had there and the
output it computed. A `Patch` is one changed way to compute the segment; `Problem.run` evaluates it, `Problem.score`
says how much of the error it explains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from twinnet.errors import EngineError
from twinnet.layers import evaluate_with_error, kinds
from twinnet.layers.evaluate import wide
from twinnet.layers.graph import Graph, Layer
from twinnet.precision import TINY

if TYPE_CHECKING:
    from twinnet.blame.repertoire import Repertoire
    from twinnet.judge.expectation import Kept
    from twinnet.pairing import Transform

__all__ = ["ByCause", "NotApplicable", "Patch", "Problem", "Score"]


_KERNEL = (RuntimeError, IndexError, ValueError, TypeError, ArithmeticError)
"""What torch raises if a layer cannot be computed with these operands or attributes."""


class NotApplicable(Exception):
    """Raised by a cause whose hypothesis does not fit the layers at hand; the hypothesis is dropped."""


@dataclass(frozen=True)
class ByCause:
    """The `run` of an opaque layer that a cause puts into a patch. Exceptions it raises are bugs and propagate."""

    run: Callable[..., tuple[torch.Tensor, ...]]

    def __call__(self, *operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.run(*operands)


@dataclass(frozen=True)
class Patch:
    """Layers `start` to `stop` (exclusive) of a segment, replaced; `constants` are new or changed ones."""

    start: int
    stop: int
    layers: tuple[Layer, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """How much of the error a hypothesis explains beyond rounding, and what it leaves, in noise floors."""

    explains: float
    left: float

    def named(self, share: float = 0.99, floors: float = 16.0) -> bool:
        """Whether it explains enough to be called the cause."""
        return self.explains >= share and self.left <= floors


@dataclass(frozen=True)
class Problem:
    """The segment `layers` that makes `target` from the twin's `inputs`, and what the twin has there.

    `errors` bound what each input may be off by its own rounding. `twin` is the twin's own graph of the
    same segment, its values renamed to the network's where they correspond; None if it is not known. `kept` is what a
    quantised twin declares of the segment: its steps are then part of the floor; `steps` are those of its inputs, by
    the network's names. `network` is the whole network; the twin may have confused its layers. `repertoire` says which
    causes may apply (None: the general ones).
    """

    layers: tuple[Layer, ...]
    constants: Mapping[str, Any]
    inputs: Mapping[str, torch.Tensor]
    target: str
    got: torch.Tensor
    unit: float = 2.0**-24
    errors: Mapping[str, torch.Tensor] = field(default_factory=dict)
    twin: Graph | None = None
    graph_inputs: frozenset[str] = frozenset()
    kept: Kept | None = None
    steps: Mapping[str, Transform] = field(default_factory=dict)
    network: Graph | None = None
    repertoire: Repertoire | None = None

    # -- the network's own way -----------------------------------------------------------------------------

    @cached_property
    def values(self) -> dict[str, Any]:
        """Every value of the segment, computed the network's way from the twin's inputs."""
        known: dict[str, Any] = {n: wide(v) for n, v in self.constants.items()}
        known.update({n: wide(v) for n, v in self.inputs.items()})
        for layer in self.layers:
            _step(layer, known)
        return known

    @cached_property
    def expected(self) -> torch.Tensor:
        """What the network computes from the twin's inputs."""
        return self.values[self.target]

    @cached_property
    def floor(self) -> torch.Tensor:
        """How far rounding, or the steps of a quantised twin, may move it."""
        floor = self._bound(self.layers, self.constants, self.expected)
        return floor if self.kept is None else torch.maximum(floor, self.kept.allowed)

    @property
    def slack(self) -> float:
        """How many floors may be left unexplained; the steps of a quantised twin are a hard limit."""
        return 4.0 if self.kept is None else 1.0

    @cached_property
    def wanted(self) -> torch.Tensor:
        """The twin's output, floats in float64."""
        return wide(self.got)

    @property
    def same_shape(self) -> bool:
        return self.wanted.shape == self.expected.shape

    @property
    def is_float(self) -> bool:
        return self.wanted.is_floating_point() and self.expected.is_floating_point()

    @property
    def has_complex(self) -> bool:
        """Whether it computes with complex numbers, for which no causes are known."""
        return any(isinstance(v, torch.Tensor) and v.is_complex() for v in self.values.values())

    @cached_property
    def error(self) -> torch.Tensor:
        """Twin minus network; 0 where both are the same NaN or infinity."""
        return _difference(self.wanted, self.expected)

    @cached_property
    def agrees(self) -> bool:
        """Whether nothing differs beyond rounding."""
        if not self.same_shape:
            return False
        if not self.is_float:
            return bool((self.wanted == self.expected).all())
        return not bool((self.error.abs() > self.floor).any())

    def operand(self, index: int, place: int) -> Any:
        """The value a layer reads at a place, or None."""
        inputs = self.layers[index].inputs
        name = inputs[place] if place < len(inputs) else None
        return None if name is None else self.values[name]

    def tensor(self, index: int, place: int) -> torch.Tensor:
        """The tensor a layer reads at a place; NotApplicable where there is none."""
        value = self.operand(index, place)
        if not isinstance(value, torch.Tensor):
            raise NotApplicable(f"{self.layers[index].label} reads no tensor at {place}")
        return value

    def constant(self, index: int, place: int) -> Any:
        """The constant a layer reads at a place (float64), or None if it is absent or computed."""
        inputs = self.layers[index].inputs
        name = inputs[place] if place < len(inputs) else None
        return self.values[name] if name is not None and name in self.constants else None

    def out(self, index: int) -> Any:
        """The first output of a layer that is used; None if there is none."""
        return next((self.values[name] for name in self.layers[index].outputs if name), None)

    # -- another way ---------------------------------------------------------------------------------------

    def run(self, patch: Patch) -> Any:
        """The target computed with the patch; None if that is impossible."""
        known = dict(self.values)
        known.update({n: wide(v) for n, v in patch.constants.items()})
        dirty = set(patch.constants)
        try:
            for layer in patch.layers:
                for name in layer.outputs:
                    known.pop(name, None)
                _step(layer, known)
                dirty.update(layer.outputs)
            for layer in self.layers[patch.stop :]:
                if dirty.intersection(layer.inputs):
                    _step(layer, known)
                    dirty.update(layer.outputs)
        except EngineError:
            return None
        found = known.get(self.target)
        if self.kept is not None and self.kept.step is not None and isinstance(found, torch.Tensor):
            found = found.clamp(*self.kept.step.range)  # the last quantiser clamps to its range
        return found if isinstance(found, torch.Tensor) else None

    def score(self, patch: Patch) -> Score | None:
        """How well a patch explains what the twin did; None if it cannot be evaluated or has another shape."""
        found = self.run(patch)
        if found is None or found.shape != self.wanted.shape:
            return None
        if found.is_floating_point() != self.wanted.is_floating_point():
            return None
        if not found.is_floating_point():
            return self._score_whole(found)
        floor = self.floor if self.same_shape else None
        score = self._score(found, floor)
        if score.explains > 0.9 and not score.named():
            # The floor depends on how a value is computed: take that of the patched layers into account.
            layers = (*self.layers[: patch.start], *patch.layers, *self.layers[patch.stop :])
            own = self._bound(layers, {**self.constants, **patch.constants}, found)
            score = self._score(found, own if floor is None else torch.maximum(floor, own))
        return score

    def score_close(self, patch: Patch) -> Score | None:
        """Like `score`, for hypotheses that round: a few elements may fall to the other side of a tie."""
        found = self.run(patch)
        if found is None or not self.same_shape or found.shape != self.wanted.shape:
            return None
        rest = _difference(self.wanted, found).abs()
        whole = _difference(self.wanted, self.expected).abs()
        floor = self.floor if self.is_float else torch.zeros_like(rest)
        over = rest > self.slack * floor
        left = torch.where(over, rest, 0.0)
        top = float(whole.max())
        few = float(over.double().mean()) <= 0.01 and float(left.max()) <= 4 * top
        if top == 0 or not math.isfinite(top) or not few:
            return Score(0.0, math.inf)
        share = float(((left / top) ** 2).sum() / ((whole / top) ** 2).sum())
        return Score(1.0 - share, 0.0)

    def _score(self, found: torch.Tensor, floor: torch.Tensor | None) -> Score:
        if found.numel() == 0:
            return Score(0.0, 0.0)
        rest = _difference(self.wanted, found).abs()
        if floor is None:
            top = float(found.abs().max())
            floor = torch.full_like(found, self.unit * 16 * (top if math.isfinite(top) else 1.0))
        left = float((rest / floor).max())
        excess = (rest - floor).clamp_min_(0.0)
        if not self.same_shape:
            size = self.wanted.abs()
            return Score(1.0 - _share(excess, size), left)
        return Score(1.0 - _share(excess, self.error.abs()), left)

    def _score_whole(self, found: torch.Tensor) -> Score:
        """Integers and flags: the share of differing elements that become right."""
        wrong = int((found != self.wanted).sum())
        before = int((self.expected != self.wanted).sum()) if self.same_shape else self.wanted.numel()
        return Score(1.0 - wrong / max(before, 1), 0.0 if wrong == 0 else 8.0)

    def _bound(
        self, layers: tuple[Layer, ...], constants: Mapping[str, Any], value: torch.Tensor
    ) -> torch.Tensor:
        graph = Graph(layers, tuple(self.inputs), (self.target,), dict(constants))
        errors = {n: e for n, e in self.errors.items() if n in self.inputs}
        base = torch.where(value.isfinite(), value.abs() * self.unit, 0.0) + TINY
        try:
            bound = evaluate_with_error(graph, dict(self.inputs), errors, unit=self.unit)[self.target][1]
        except EngineError:
            bound = None
        if bound is None or bound.shape != base.shape:
            return base
        return base + bound

    # -- patches -------------------------------------------------------------------------------------------

    def change(self, index: int, /, *, kind: str | None = None, inputs: Any = None, **attrs: Any) -> Patch:
        """Layer `index` with another kind, other operands or other attributes."""
        layer = self.layers[index]
        changed = replace(
            layer,
            kind=kind or layer.kind,
            inputs=tuple(layer.inputs if inputs is None else inputs),
            attrs={**layer.attrs, **attrs},
        )
        return Patch(index, index + 1, (changed,))

    def set(self, index: int, name: str, value: Any) -> Patch:
        """Layer `index` with one attribute changed."""
        layer = self.layers[index]
        return Patch(index, index + 1, (replace(layer, attrs={**layer.attrs, name: value}),))

    def made(self, index: int, value: torch.Tensor) -> Patch:
        """Layer `index` replaced by the constant `value`."""
        name = f"{self.layers[index].outputs[0]}/made"
        return replace(self.become(index, "identity", (name,)), constants={name: value})

    def become(
        self, index: int, kind: str, inputs: tuple[str | None, ...] | None = None, /, **attrs: Any
    ) -> Patch:
        """Layer `index` replaced by another kind, with only the attributes given."""
        layer = self.layers[index]
        made = replace(
            layer, kind=kind, inputs=inputs or layer.inputs[:1], attrs=attrs, outputs=layer.outputs[:1]
        )
        return Patch(index, index + 1, (made,))

    def drop(self, index: int, place: int = 0) -> Patch:
        """Layer `index` left out: it passes on the operand at `place`."""
        inputs = self.layers[index].inputs
        if place >= len(inputs):
            raise NotApplicable(f"{self.layers[index].label} reads nothing that it could pass on")
        return self.become(index, "identity", (inputs[place],))

    def then(
        self, index: int, kind: str, constants: Mapping[str, Any] | None = None, /, **attrs: Any
    ) -> Patch:
        """One more layer after layer `index`, reading its first output and then the new constants."""
        layer = self.layers[index]
        inner = layer.outputs[0] + "/before"
        made = replace(layer, outputs=(inner, *layer.outputs[1:]))
        operands = (inner, *(constants or {}))
        extra = Layer(kind, operands, (layer.outputs[0],), attrs)
        return Patch(index, index + 1, (made, extra), dict(constants or {}))

    def first(self, index: int, place: int, kind: str, /, **attrs: Any) -> Patch:
        """One more layer before layer `index`, on the operand at `place`."""
        layer = self.layers[index]
        name = layer.inputs[place]
        new = f"{name}/changed"
        inputs = tuple(new if p == place else n for p, n in enumerate(layer.inputs))
        return Patch(index, index + 1, (Layer(kind, (name,), (new,), attrs), replace(layer, inputs=inputs)))

    def reading(self, name: str, run: Callable[[torch.Tensor], tuple[torch.Tensor]]) -> Patch:
        """An input of the segment changed for every layer that reads it."""
        new = f"{name}/read"
        layers = tuple(
            replace(layer, inputs=tuple(new if n == name else n for n in layer.inputs))
            for layer in self.layers
        )
        return Patch(0, len(layers), (Layer("opaque", (name,), (new,), {"run": ByCause(run)}), *layers))

    def give(self, index: int, place: int, value: Any) -> Patch:
        """Layer `index` reading another constant at `place`."""
        return self.give_all(index, {place: value})

    def give_all(self, index: int, values: Mapping[int, Any]) -> Patch:
        """Layer `index` reading other constants at several places."""
        layer = self.layers[index]
        names = {place: f"{layer.outputs[0]}/constant{place}" for place in values}
        inputs = [*layer.inputs, *(None,) * (max(values) + 1 - len(layer.inputs))]
        for place, name in names.items():
            inputs[place] = name
        constants = {names[place]: value for place, value in values.items()}
        return Patch(index, index + 1, (replace(layer, inputs=tuple(inputs)),), constants)


def _step(layer: Layer, known: dict[str, Any]) -> None:
    """Evaluate one layer; EngineError where torch cannot."""
    absent = [n for n in layer.inputs if n is not None and n not in known]
    if absent:
        raise EngineError(
            f"{layer.kind} reads {absent[0]}, which the segment does not hold", stage="evaluate"
        )
    kind = kinds.get(layer.kind)
    inputs = [None if n is None else known[n] for n in layer.inputs]
    run = layer.attrs.get("run")
    # A foreign operator may raise anything; a step of a cause is our own code.
    expected = _KERNEL if run is None else () if isinstance(run, ByCause) else Exception
    try:
        with torch.no_grad():
            outputs = kind.evaluate(layer.attrs, *inputs)
    except EngineError:
        raise
    except expected as error:
        raise EngineError(f"{layer.kind} could not be evaluated: {error}", stage="evaluate") from error
    for name, value in zip(layer.outputs, outputs):
        if name:
            known[name] = wide(value)


def _difference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    off = a.to(torch.float64) - b.to(torch.float64)
    if bool(torch.isfinite(off.sum())):
        return off
    same = (a == b) | (a.isnan() & b.isnan())
    return torch.where(same, 0.0, torch.where(off.isnan(), math.inf, off))


def _share(rest: torch.Tensor, whole: torch.Tensor) -> float:
    """The remaining error as a share of the whole: by the largest or by the root mean square, whichever is worse."""
    infinite = torch.isinf(whole)
    if bool(infinite.any()):
        if bool(torch.isinf(rest).any()):
            return 1.0
        whole = torch.where(infinite, 0.0, whole)
        if not bool(whole.any()):
            return float((rest > 0).sum()) / float(infinite.sum())
    top = float(whole.max())
    if top == 0:
        return 1.0
    if not math.isfinite(float(rest.max())):
        return math.inf
    # Scale first: squares of the raw values may overflow or vanish.
    a, b = rest / top, whole / top
    return max(float(a.max()), math.sqrt(float((a * a).mean()) / max(float((b * b).mean()), 1e-300)))
