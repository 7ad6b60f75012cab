"""Repros that reveal nothing about the original network: random weights and data, no names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from twinnet.onnx.cut import weights_of, with_weights
from twinnet.shrink.seed import Link
from twinnet.shrink.trial import Bench, Candidate

__all__ = ["Hidden", "anonymous", "hide", "hide_model", "is_data", "random_like"]

_TRIES = 4


@dataclass(frozen=True)
class Hidden:
    """A candidate with random data, and the names of tensors that had to keep their values."""

    candidate: Candidate
    kept: tuple[str, ...]


def hide(bench: Bench, candidate: Candidate) -> Hidden:
    """Replace weights and inputs by random ones of the same shape, dtype and spread, as long as the fault still shows.

    Two files are changed alike. A weight that only one of them holds, or whose counterpart is not certain, keeps its
    values, so that hiding adds no difference.
    """
    partners = {} if candidate.same_file else _partners(candidate)
    secret = [name for name, w in weights_of(candidate.network).items() if is_data(w)]
    if not candidate.same_file:
        tied = {partner.network for partner in partners.values()}
        alone = [n for n, w in weights_of(candidate.twin).items() if is_data(w) and n not in partners]
        kept = [n for n in secret if n not in tied] + [n for n in alone if n not in secret]
        secret = [n for n in secret if n in tied]
    else:
        kept = []
    names = [*candidate.feeds, *secret]
    for number in range(_TRIES):
        changed = _randomised(candidate, names, partners, np.random.default_rng(number))
        if bench.shows(changed):
            return Hidden(changed, tuple(kept))
    # All at once hides the fault: try one by one, and keep what the fault needs.
    for name in names:
        for number in range(_TRIES):
            changed = _randomised(candidate, [name], partners, np.random.default_rng(number))
            if bench.shows(changed):
                candidate = changed
                break
        else:
            kept.append(name)
    return Hidden(candidate, tuple(kept))


@dataclass(frozen=True)
class _Partner:
    """The network's weight that corresponds to a weight of the twin, and whether the twin holds it transposed."""

    network: str
    transposed: bool = False


def _partners(candidate: Candidate) -> dict[str, _Partner]:
    """Match the twin's weights to the network's by value; a single one left over is matched by name."""
    ours = {n: w for n, w in weights_of(candidate.network).items() if is_data(w)}
    found: dict[str, _Partner] = {}
    differing: list[str] = []
    for name, w in weights_of(candidate.twin).items():
        if not is_data(w):
            continue
        order = sorted(ours, key=lambda n: n != name)
        same = next((n for n in order if _equal(ours[n], w)), None)
        turned = next((n for n in order if ours[n].ndim == w.ndim == 2 and _equal(ours[n].T, w)), None)
        if same is not None:
            found[name] = _Partner(same)
        elif turned is not None:
            found[name] = _Partner(turned, True)
        else:
            differing.append(name)
    if len(differing) == 1:
        name = differing[0]
        w = weights_of(candidate.twin)[name]
        partner = ours.get(name)
        if partner is not None and partner.shape == w.shape and partner.dtype == w.dtype:
            found[name] = _Partner(name)
    return found


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.size == b.size and a.dtype == b.dtype and np.array_equal(a.reshape(-1), b.reshape(-1))


def _randomised(
    candidate: Candidate, names: list[str], partners: Mapping[str, _Partner], generator: np.random.Generator
) -> Candidate:
    feeds = {n: random_like(a, generator) if n in names else a for n, a in candidate.feeds.items()}
    ours = weights_of(candidate.network)
    new = {n: random_like(w, generator) for n, w in ours.items() if n in names}
    network = with_weights(candidate.network, new)
    if candidate.same_file:
        return Candidate.of(network, network, feeds, candidate.links)
    changed: dict[str, np.ndarray] = {}
    for name, w in weights_of(candidate.twin).items():
        partner = partners.get(name)
        if partner is None or partner.network not in new:
            continue
        old, other = ours[partner.network], new[partner.network]
        if partner.transposed:
            old, other = old.T, other.T
        changed[name] = _alike(old.reshape(w.shape), w, other.reshape(w.shape))
    return Candidate.of(network, with_weights(candidate.twin, changed), feeds, candidate.links)


def _alike(old: np.ndarray, twin: np.ndarray, new: np.ndarray) -> np.ndarray:
    """New weights for the twin that differ from `new` as its own differed from `old`: by factor, else by amount."""
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


def is_data(array: np.ndarray) -> bool:
    """Whether a constant is data; short lists of wide integers are axes, shapes and bounds."""
    return array.dtype.kind == "f" or (array.dtype.kind in "iu" and array.itemsize == 1) or array.size > 64


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
        # A constant tensor: draw around its value.
        values = finite[0] * generator.uniform(0.5, 1.5, array.shape)
    else:
        values = np.clip(generator.normal(float(finite.mean()), spread, array.shape), low, high)
    return np.where(np.isfinite(wide), values, wide).astype(array.dtype)


# -- names -------------------------------------------------------------------------------------------------------


def anonymous(candidate: Candidate) -> tuple[Candidate, dict[str, str]]:
    """The candidate with values named t0, t1... and nodes n0, n1..., and the new name of each of the network's."""
    # Inputs first: the network's file does not hold one that only the twin reads.
    names: dict[str, str] = {name: f"t{i}" for i, name in enumerate(candidate.feeds)}
    twins: dict[str, str] = {}
    network = hide_model(candidate.network, names)
    if candidate.same_file:
        twin, twins = network, names
    else:
        # Values that both sides share get one name.
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

    _rename(hidden.graph, fresh, [0], {})
    return hidden


def _rename(
    graph: onnx.GraphProto, fresh: Callable[[str], str], nodes: list[int], sizes: dict[str, str]
) -> None:
    graph.name = "g"
    graph.doc_string = ""
    del graph.value_info[:]
    del graph.metadata_props[:]
    del graph.quantization_annotation[:]
    for item in (*graph.input, *graph.initializer, *graph.output):
        item.name = fresh(item.name)
        item.doc_string = ""
    for value in (*graph.input, *graph.output):
        _rename_sizes(value.type, sizes)
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
                _rename(attribute.g, fresh, nodes, sizes)
            if attribute.type == onnx.AttributeProto.TENSOR:
                attribute.t.name = ""
                attribute.t.doc_string = ""


def _rename_sizes(kind: onnx.TypeProto, sizes: dict[str, str]) -> None:
    """Rename symbolic sizes consistently."""
    kind.denotation = ""
    for size in kind.tensor_type.shape.dim if kind.HasField("tensor_type") else ():
        size.denotation = ""
        if size.HasField("dim_param"):
            size.dim_param = sizes.setdefault(size.dim_param, f"d{len(sizes)}")
