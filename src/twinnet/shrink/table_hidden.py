"""A table finding that tells nothing about the network it came from: other entries, other pixels, no names.

Nothing of the user's is changed a little: tables, sampler weights, gains and pixels are drawn afresh, with the rows
that the new pixels read. What the finding is about stays: taps, padding, rotation, interpolation, grid, requantisation,
and the way in which the two sides differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinnet.errors import EngineError, UsageError
from twinnet.layers.graph import Layer
from twinnet.lut.dfc import band_index
from twinnet.lut.variants import Lookup
from twinnet.shrink.seed import Place, Runner, Seed
from twinnet.shrink.table_cause import alike, cause_of, done_as
from twinnet.shrink.table_draw import Draw, same_grid, with_steps
from twinnet.shrink.table_hidden_onnx import OnnxTwin
from twinnet.shrink.table_names import Names
from twinnet.shrink.table_relation import Relation, relate
from twinnet.shrink.table_side import Side, Values, differ, layers_of, rows_needed, steps_side
from twinnet.shrink.tables import smallest_values

__all__ = ["HiddenTable", "hide_table"]

_TRIES = 24
_SAID = 3
"""Draws that show the fault and are asked whether they show the same cause."""
_Twin = tuple[Side, tuple[Layer, ...]]
"""The twin's side, and the steps that stand for it where they are known."""
Maker = Callable[[Draw, tuple[Layer, ...], Values], _Twin | None]
"""The twin beside the network's new steps, for new values."""


@dataclass(frozen=True)
class HiddenTable:
    """A seed with random data under new names, and what had to stay as it was."""

    seed: Seed
    kept: tuple[str, ...]


def hide_table(seed: Seed) -> HiddenTable:
    """Replace entries, sampler weights, gains, pixels and names while the same fault shows.

    Raises UsageError where nothing of the data could be replaced.
    """
    names = Names()
    ours = names.layers(layers_of(seed.steps["network"], _arrays(seed, "network")))
    known = _known(ours, _arrays(seed, "network"))
    inputs = {names.site(n): np.asarray(a) for n, a in seed.inputs.items()}
    told = seed.steps["twin"]
    theirs: tuple[Layer, ...] = ()
    maker: Maker
    if told["kind"] == "steps":
        theirs = names.layers(layers_of(told["steps"], _arrays(seed, "twin")))
        maker = _steps_maker(ours, theirs, known, _arrays(seed, "twin"), seed.cause)
    elif told["kind"] == "onnx":
        maker = OnnxTwin.of(seed, names, ours, known).side
    else:
        if not seed.cause:
            raise _refused("the twin left only its values, and why they differ is not known")
        maker = _cause_maker(names.told(seed.cause))
    allowed = float(seed.steps["allowed"])
    made = _made(ours, theirs, inputs, maker, allowed, names.told(seed.cause))
    if made is None and told["kind"] == "stored":
        raise _refused(f"the twin left only its values, and this cause is known on them alone: {seed.cause}")
    if made is None:
        raise _refused("no other tables and pixels show this fault")
    return HiddenTable(_seed(seed, made, allowed), (*made.kept, *_indices(ours, theirs)))


def _refused(why: str) -> UsageError:
    return UsageError(
        f"the data of this repro cannot be replaced: {why}",
        hint="leave out --confidential and look at what the folder holds before you pass it on",
    )


# ---- trying ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Made:
    network: tuple[Layer, ...]
    twin: Side
    values: Values
    expected: np.ndarray
    observed: np.ndarray
    cause: str
    kept: tuple[str, ...]


def _made(
    ours: tuple[Layer, ...],
    theirs: tuple[Layer, ...],
    inputs: Mapping[str, np.ndarray],
    maker: Maker,
    allowed: float,
    cause: str,
) -> _Made | None:
    """The first draw that shows the fault, if possible by a cause that says the same; own pixels come last."""
    first: _Made | None = None
    asked = 0
    for kept in ((), ("the pixels",)):
        for number in range(_TRIES):
            draw = Draw(number)
            network = draw.network(ours)
            values = dict(inputs) if kept else draw.values([*ours, *theirs], inputs)
            found = maker(draw, network, values)
            made = None if found is None else _shown(network, found[0], values, allowed, kept)
            if found is None or made is None:
                continue
            said = _said(made, found[1], cause, draw)
            if said or not cause:
                return replace(made, cause=said)
            first, asked = first or made, asked + 1
            if asked == _SAID:
                return first
        if first is not None:
            return first
    return first


def _shown(
    network: tuple[Layer, ...], twin: Side, values: Values, allowed: float, kept: tuple[str, ...]
) -> _Made | None:
    """The draw, if both sides differ on it; a twin that follows a cause is made smaller, as it was not before."""
    ours = steps_side(network)
    try:
        if not differ(twin.run(values), ours.run(values), allowed):
            return None
        if twin.spec["kind"] == "stored" and not kept:
            values = smallest_values(values, ours, twin, allowed)
        observed = twin.run(values)
    except Exception:  # what cannot run shows nothing
        return None
    return _Made(network, twin, values, ours.run(values), observed, "", kept)


def _said(made: _Made, theirs: tuple[Layer, ...], cause: str, draw: Draw) -> str:
    """The cause as this draw shows it, where it is of the same kind."""
    if not cause:
        return ""
    if made.twin.spec["kind"] == "stored":
        return made.twin.spec["said"](made.values)
    said = cause_of(made.network, made.values, made.observed, theirs or None)
    if alike(said, cause):
        return said
    # Too few pixels to exclude all else; it is enough that the cause accounts for every number.
    deed = done_as(made.network, made.values, cause, draw)
    if deed is None:
        return ""
    again = deed.run(made.values)
    exact = again.shape == made.observed.shape and np.allclose(again, made.observed, rtol=0, atol=1e-9)
    return deed.said(made.values) if exact else ""


# ---- twins -----------------------------------------------------------------------------------------------------


def _steps_maker(
    ours: Sequence[Layer],
    theirs: Sequence[Layer],
    known: Mapping[tuple[str, str], dict[int, np.ndarray]],
    arrays: Mapping[str, np.ndarray],
    cause: str,
) -> Maker:
    """A twin of steps: those of the network's new ones, differing as they did."""
    old = _lookups(ours)
    by_table = {step.term.table: step for step in old.values()}
    there = _known(theirs, arrays)
    partners: dict[str, Lookup | None] = {}
    relations: dict[str, dict[str, Relation]] = {}
    for name, step in _lookups(theirs).items():
        table = step.term.table
        partner = old.get(name) or by_table.get(table)
        partners[name] = partner
        if partner is not None and same_grid(partner.table, step.table):
            relations.setdefault(table, _relations(partner, step, known, there, cause))

    def make(draw: Draw, network: tuple[Layer, ...], values: Values) -> _Twin:
        new = _lookups(network)
        tables = {step.term.table: step for step in new.values()}

        def beside(layer: Layer, step: Lookup) -> Lookup:
            partner = partners[layer.outputs[0]]
            now = None if partner is None else new.get(layer.outputs[0]) or tables[partner.term.table]
            return draw.twin_lookup(partner, now, step)

        plain = with_steps(theirs, beside)
        read = _read(plain, values)

        def related(layer: Layer, step: Lookup) -> Lookup:
            name = step.term.table
            if name not in relations:
                return step
            return replace(step, table=draw.related(name, step.table, relations[name], read[name]))

        made = with_steps(plain, related)
        return steps_side(made), made

    return make


def _cause_maker(cause: str) -> Maker:
    """A twin that left only its values: what one with this fault gives."""

    def make(draw: Draw, network: tuple[Layer, ...], values: Values) -> _Twin | None:
        deed = done_as(network, values, cause, draw)
        if deed is None:
            return None

        def run(given: Values) -> np.ndarray:
            if not alike(deed.said(given), cause):
                raise EngineError("these pixels show it as another fault", stage="shrink")
            return deed.run(given)

        return Side({"kind": "stored", "said": deed.said}, (), run, {}), ()

    return make


def _relations(
    ours: Lookup,
    theirs: Lookup,
    known: Mapping[tuple[str, str], dict[int, np.ndarray]],
    there: Mapping[tuple[str, str], dict[int, np.ndarray]],
    cause: str,
) -> dict[str, Relation]:
    found = {}
    for part in ("values", "coarse"):
        first, second = known.get((ours.term.table, part), {}), there.get((theirs.term.table, part), {})
        rows = sorted(first.keys() & second.keys())
        if rows:
            a, b = (np.stack([side[r] for r in rows]) for side in (first, second))
            found[part] = relate(ours.table, part, np.array(rows), a, b, cause)
    return found


# ---- data ------------------------------------------------------------------------------------------------------


def _arrays(seed: Seed, side: str) -> dict[str, np.ndarray]:
    return {k.partition(":")[2]: v for k, v in seed.arrays.items() if k.startswith(f"{side}:")}


def _lookups(layers: Sequence[Layer]) -> dict[str, Lookup]:
    return {x.outputs[0]: x.attrs["step"] for x in layers if x.kind == "lookup"}


def _known(
    layers: Sequence[Layer], arrays: Mapping[str, np.ndarray]
) -> dict[tuple[str, str], dict[int, np.ndarray]]:
    """The entries that are known, by table and part, then by row."""
    found: dict[tuple[str, str], dict[int, np.ndarray]] = {}
    for number, layer in enumerate(layers):
        for part in ("values", "coarse") if layer.kind == "lookup" else ():
            if f"{number}.{part}" in arrays:
                own = found.setdefault((layer.attrs["step"].term.table, part), {})
                rows = arrays[f"{number}.{part}_rows"]
                own |= {int(r): v for r, v in zip(rows, arrays[f"{number}.{part}"], strict=True)}
    return found


def _read(layers: Sequence[Layer], values: Values) -> dict[str, dict[str, np.ndarray]]:
    """The rows that are read, by table and part."""
    found: dict[str, dict[str, np.ndarray]] = {}
    needed = rows_needed(steps_side(layers), values)
    for (table, part), rows in _known(layers, needed).items():
        found.setdefault(table, {})[part] = np.array(sorted(rows), np.int64)
    return found


def _indices(*sides: Sequence[Layer]) -> tuple[str, ...]:
    """Band indices that say more than the grid does: they are part of the arithmetic, and stay."""
    tables = [step.table for layers in sides for step in _lookups(layers).values()]
    own = any(
        t.index is not None and not np.array_equal(t.index, band_index(t.nodes, t.near, t.width))
        for t in tables
    )
    return ("the index of the band",) if own else ()


def _seed(seed: Seed, made: _Made, allowed: float) -> Seed:
    ours, theirs = steps_side(made.network), made.twin
    held = {f"network:{k}": v for k, v in rows_needed(ours, made.values).items()}
    held |= {f"twin:{k}": v for k, v in rows_needed(theirs, made.values).items()}
    spec: dict[str, Any] = theirs.spec
    if spec["kind"] == "stored":
        spec, held["twin:observed"] = {"kind": "stored"}, made.observed
    what = {"lookup": "A lookup", "place": "A block", "sum_lookups": "A sum", "requant": "A requantisation"}
    label = what[made.network[0].kind] if len(made.network) == 1 else "Some steps"
    target = made.network[-1].outputs[0]
    return replace(
        seed,
        place=Place(target, label),
        network_side=Runner(),
        twin_side=_without_paths(seed.twin_side),
        twin=theirs.model,
        inputs=made.values,
        output=target,
        observed=made.observed,
        expected=made.expected,
        allowed=np.full(made.expected.shape, allowed),
        note="",
        steps={"network": ours.spec["steps"], "twin": spec, "allowed": allowed},
        arrays=held,
        cause=made.cause,
    )


def _without_paths(side: Runner) -> Runner:
    options = {k: v for k, v in side.options.items() if not set(str(v)) & set("/\\:")}
    return replace(side, options=options)
