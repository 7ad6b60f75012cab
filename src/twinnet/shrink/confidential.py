"""A repro that tells nothing about the network it came from: other weights, other data, no names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from twinnet.shrink.cut import weights_of, with_weights
from twinnet.shrink.seed import Link
from twinnet.shrink.trial import Bench, Candidate

__all__ = ["Hidden", "anonymous", "hide", "hide_model", "is_data", "random_like"]

_TRIES = 4


@dataclass(frozen=True)
class Hidden:
    """A candidate with random data, and the names of what had to stay as it was."""

    candidate: Candidate
    kept: tuple[str, ...]


def hide(bench: Bench, candidate: Candidate, seed: int = 0) -> Hidden:
    """Replace weights and inputs by random ones of the same shape, dtype and spread, while the fault shows."""
    names = [*candidate.feeds, *_secret(candidate)]
    for number in range(_TRIES):
        changed = _randomised(candidate, names, np.random.default_rng(seed + number))
        if bench.shows(changed):
            return Hidden(changed, ())
    # Not all at once: then one after the other, keeping what the fault needs.
    kept: list[str] = []
    for name in names:
        for number in range(_TRIES):
            changed = _randomised(candidate, [name], np.random.default_rng(seed + number))
            if bench.shows(changed):
                candidate = changed
                break
        else:
            kept.append(name)
    return Hidden(candidate, tuple(kept))


def _secret(candidate: Candidate) -> list[str]:
    return [name for name, w in weights_of(candidate.network).items() if is_data(w)] + [
        name
        for name, w in weights_of(candidate.twin).items()
        if not candidate.same_file and is_data(w) and name not in weights_of(candidate.network)
    ]


def is_data(array: np.ndarray) -> bool:
    """Whether a constant is data; short lists of large integers are axes, shapes and bounds."""
    return array.dtype.kind == "f" or (array.dtype.kind in "iu" and array.itemsize == 1) or array.size > 64


def _randomised(candidate: Candidate, names: list[str], generator: np.random.Generator) -> Candidate:
    feeds = {n: random_like(a, generator) if n in names else a for n, a in candidate.feeds.items()}
    ours = weights_of(candidate.network)
    new = {n: random_like(w, generator) for n, w in ours.items() if n in names}
    network = with_weights(candidate.network, new)
    if candidate.same_file:
        return Candidate.of(network, network, feeds, candidate.links)
    changed: dict[str, np.ndarray] = {}
    for name, w in weights_of(candidate.twin).items():
        if name not in names:
            continue
        partner = ours.get(name)
        if partner is None or partner.shape != w.shape or partner.dtype != w.dtype:
            same = next((n for n, v in ours.items() if v.shape == w.shape and np.array_equal(v, w)), None)
            changed[name] = new[same] if same in new else random_like(w, generator)
        else:
            changed[name] = _alike(partner, w, new[name])
    return Candidate.of(network, with_weights(candidate.twin, changed), feeds, candidate.links)


def _alike(old: np.ndarray, twin: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The twin's weights beside the new ones, differing as they did beside the old: by factor, else by amount."""
    if np.array_equal(old, twin):
        return new
    if old.dtype.kind != "f":
        return np.where(old == twin, new, twin)
    with np.errstate(all="ignore"):
        factor = twin.astype(np.float64) / old.astype(np.float64)
        moved = new.astype(np.float64) + (twin.astype(np.float64) - old.astype(np.float64))
        scaled = new.astype(np.float64) * factor
    usable = np.isfinite(factor) & (np.abs(factor) < 1e3)
    return np.where(old == twin, new, np.where(usable, scaled, moved)).astype(new.dtype)


def random_like(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Random values of the same shape, dtype, mean and spread, inside the same range."""
    if not array.size:
        return array
    if array.dtype == np.bool_:
        return generator.integers(0, 2, array.shape).astype(np.bool_)
    if array.dtype.kind in "iu":
        return generator.integers(int(array.min()), int(array.max()) + 1, array.shape).astype(array.dtype)
    if array.dtype.kind != "f":
        return array
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if not finite.size:
        return array
    low, high, spread = float(finite.min()), float(finite.max()), float(finite.std())
    if spread == 0:
        # One value everywhere: a draw around it, of its own size.
        values = finite[0] * generator.uniform(0.5, 1.5, array.shape)
    else:
        values = np.clip(generator.normal(float(finite.mean()), spread, array.shape), low, high)
    return np.where(np.isfinite(wide), values, wide).astype(array.dtype)


# -- names -------------------------------------------------------------------------------------------------------


def anonymous(candidate: Candidate) -> tuple[Candidate, dict[str, str]]:
    """The candidate with values t0, t1... and nodes n0, n1...; and the network's old names to the new ones."""
    # Inputs first: one that only the twin reads has no place in the network's file.
    names: dict[str, str] = {name: f"t{i}" for i, name in enumerate(candidate.feeds)}
    twins: dict[str, str] = {}
    network = hide_model(candidate.network, names)
    if candidate.same_file:
        twin, twins = network, names
    else:
        # What both sides share has one name.
        for name, link in candidate.links.items():
            if name in names:
                twins[link.twin] = names[name]
        for name in weights_of(candidate.twin):
            if name in names:
                twins[name] = names[name]
        twin = hide_model(candidate.twin, twins, start=len(names))
    feeds = {names.get(n, n): a for n, a in candidate.feeds.items()}
    links: dict[str, Link] = {}
    for name, link in candidate.links.items():
        if name in names and link.twin in twins:
            links[names[name]] = Link(names[name], twins[link.twin], link.transform)
    return Candidate(network, twin, feeds, links), names


def hide_model(model: onnx.ModelProto, names: dict[str, str], start: int = 0) -> onnx.ModelProto:
    """A copy without names, texts and metadata; `names` collects old names to new ones."""
    if model.functions:
        from onnx.inliner import inline_local_functions

        model = inline_local_functions(model)
    hidden = onnx.ModelProto(ir_version=model.ir_version)
    hidden.opset_import.extend(model.opset_import)
    hidden.graph.CopyFrom(model.graph)
    used = set(names.values())
    counter = [start]

    def fresh(name: str) -> str:
        if not name:
            return name
        if name not in names:
            while f"t{counter[0]}" in used:
                counter[0] += 1
            names[name] = f"t{counter[0]}"
            used.add(names[name])
        return names[name]

    _rename(hidden.graph, fresh, [0])
    return hidden


def _rename(graph: onnx.GraphProto, fresh: Callable[[str], str], nodes: list[int]) -> None:
    graph.name = "g"
    graph.doc_string = ""
    del graph.value_info[:]
    del graph.metadata_props[:]
    del graph.quantization_annotation[:]
    for item in (*graph.input, *graph.initializer, *graph.output):
        item.name = fresh(item.name)
        item.doc_string = ""
    for sparse in graph.sparse_initializer:
        sparse.values.name = fresh(sparse.values.name)
    for node in graph.node:
        node.name = f"n{nodes[0]}"
        nodes[0] += 1
        node.doc_string = ""
        del node.metadata_props[:]
        for field in (node.input, node.output):
            renamed = [fresh(n) for n in field]
            del field[:]
            field.extend(renamed)
        for attribute in node.attribute:
            attribute.doc_string = ""
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename(attribute.g, fresh, nodes)
            if attribute.type == onnx.AttributeProto.TENSOR:
                attribute.t.name = ""
                attribute.t.doc_string = ""
