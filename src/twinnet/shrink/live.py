"""Repros of which both sides can be run: made smaller, then described."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from twinnet.errors import EngineError
from twinnet.judge.verdicts import Born
from twinnet.onnx.read import read_onnx
from twinnet.report.quoting import prose
from twinnet.report.sentences import counted
from twinnet.shrink import script
from twinnet.shrink.confidential import anonymous, hide
from twinnet.shrink.folder import Contents
from twinnet.shrink.inputs import simpler_values, smaller_input
from twinnet.shrink.issue import networks, numbers, write_issue
from twinnet.shrink.nodes import fewer_nodes
from twinnet.shrink.repair import Repair
from twinnet.shrink.seed import Link, Seed
from twinnet.shrink.trial import Bench, Candidate, exact_values, run
from twinnet.shrink.words import form_of, hidden_words, origin_words, side_spec

__all__ = ["smallest_live"]

Progress = Callable[[str, float | None], None]

_MEASURED = 1e12


def smallest_live(seed: Seed, confidential: bool, progress: Progress) -> tuple[dict[str, Any], Contents]:
    """Make both parts smaller while the difference shows, and describe them for their folder."""
    assert seed.network is not None and seed.twin is not None
    links = {k.network: k for k in seed.links}
    candidate = Candidate.of(seed.network, seed.twin, seed.inputs, links)
    bench = Bench(
        seed.network_side, seed.twin_side, seed.unit, seed.limit, quantised=seed.quantised, cause=seed.cause
    )
    if bench.shows(candidate) is None:
        raise EngineError(
            f"{seed.place.label}: the difference no longer shows",
            hint=f"the run was made with {seed.twin_side}; run the check again",
        )
    progress("leaving out nodes", None)
    candidate = fewer_nodes(bench, candidate)
    progress("cropping the input", None)
    candidate = smaller_input(bench, candidate)
    candidate = simpler_values(bench, candidate)
    kept: tuple[str, ...] = ()
    if confidential:
        progress("randomising weights and data", None)
        # A fresh budget: hiding matters more than shrinking.
        fresh = replace(bench, ran=0, failed=0)
        hidden = hide(fresh, candidate)
        candidate, kept = hidden.candidate, hidden.kept
        candidate, names = anonymous(candidate)
        kept = tuple(names.get(n, "a weight of the twin") for n in kept)
    return _written_live(seed, bench, candidate, confidential, kept)


def _written_live(
    seed: Seed, bench: Bench, candidate: Candidate, confidential: bool, kept: tuple[str, ...]
) -> tuple[dict[str, Any], Contents]:
    found = bench.judge(candidate)
    if found is None:
        raise EngineError("the smallest part no longer shows the difference", stage="shrink")
    output = found.output
    link = candidate.links.get(output, Link(output, output))
    expected, allowed = bench.expected(candidate, output)
    repair = bench.repair(candidate, output)
    if repair is not None and seed.quantised and not candidate.same_file:
        # The repaired file rounds too: that is not the fault.
        value, steps = bench.expected(repair.candidate, output)
        wider = np.maximum(allowed, steps) + np.abs(value - expected)
        allowed = wider if script.beyond(found.observed, expected, wider).any() else allowed
    own_expected: dict[str, np.ndarray] = {}
    if seed.network_side.engine:
        if seed.quantised:  # the network's side has no steps
            exact = exact_values(read_onnx(candidate.network), candidate.feeds, output, seed.unit, seed.limit)
            own_expected = dict(zip(("network_expected", "network_allowed"), exact, strict=True))
        own = np.asarray(run(seed.network_side, candidate.network, candidate.feeds)[output])
        if not np.issubdtype(expected.dtype, np.floating) and own.shape == expected.shape:
            allowed = np.where(own != expected, 1.0, allowed)  # a tie: the network may decide it either way
    network, twin = _typed(candidate, output, link, expected, found.observed)
    keys = {name: f"in{i}" for i, name in enumerate(candidate.feeds)}
    held = {i.name for i in network.graph.input}
    spec: dict[str, Any] = {"network": None, "twin": None}
    if seed.network_side.engine:
        inputs = {n: k for n, k in keys.items() if n in held}
        spec["network"] = side_spec("network.onnx", seed.network_side, inputs, output, {}, {})
    needed = {i.name for i in twin.graph.input}
    by_twin = {candidate.links.get(n, Link(n, n)).twin: n for n in keys}
    forms = {
        t: form_of(candidate.links[n].transform, to_twin=True)
        for t, n in by_twin.items()
        if n in candidate.links and not candidate.links[n].transform.is_identity
    }
    form = {} if link.transform.is_identity else {link.twin: form_of(link.transform, to_twin=False)}
    file = "network.onnx" if candidate.same_file else "twin.onnx"
    twin_inputs = {t: keys[n] for t, n in by_twin.items() if t in needed}
    spec["twin"] = side_spec(file, seed.twin_side, twin_inputs, link.twin, forms, form)
    count = len(network.graph.node)
    ops = ", ".join(dict.fromkeys(n.op_type for n in network.graph.node))
    size = _size(found.born, "its steps can explain" if seed.quantised else "rounding can explain")
    subject = ops if count <= 4 else counted(count, "node")
    title = f"{subject}: {seed.twin_side} computes wrong values"
    if not candidate.same_file:
        title = f"{subject}: the twin's file computes something different from the network"
    what = (
        f"A network of {counted(count, 'node')} ({prose(ops)}) on {counted(candidate.size, 'input element')}: "
        f"the twin's result is {size}.\n\n" + _sides_words(seed, candidate)
    )
    sections = [
        ("Expected and observed", numbers(found.observed, expected, allowed)),
        ("The network", networks(network, None if candidate.same_file else twin)),
        ("What differs between the files", "" if candidate.same_file else _file_difference(network, twin)),
        ("Where it comes from", "" if confidential else origin_words(seed)),
        ("What was hidden", hidden_words(kept, seed.network_side, seed.twin_side) if confidential else ""),
    ]
    moves = "the steps that the twin declares" if seed.quantised else "float rounding"
    about = (
        f"The twin ({seed.twin_side}, {file}) is compared with expected.npz: network.onnx evaluated in float64 on "
        f"inputs.npz, and how far {moves} may move "
        f"each element (a running error bound{'' if seed.quantised else f' times {seed.limit:g}'}). "
        + (
            f"The network's own engine ({seed.network_side}) runs beside it, to show that it agrees."
            if seed.network_side.engine
            else "The network is not an ONNX model: network.onnx is its export, and these stored values stand for "
            "its side."
        )
    )
    contents = Contents(
        title=title,
        issue=write_issue(
            title, what, [s for s in (seed.network_side, seed.twin_side) if s.engine], sections
        ),
        spec=spec,
        body=script.compare_sides,
        about=about,
        inputs={keys[n]: a for n, a in candidate.feeds.items()},
        network=network,
        twin=None if candidate.same_file else twin,
        arrays={"expected.npz": {"expected": expected, "allowed": allowed, **own_expected}},
        engines=list(dict.fromkeys(s.engine for s in (seed.network_side, seed.twin_side) if s.engine)),
    )
    sentence = f"{counted(count, 'node')} ({ops}), {counted(candidate.size, 'input element')}: {size}"
    if repair is not None:
        contents = replace(contents, repaired=_repaired(contents, repair, output, keys))
    made = {
        "repair": _repair_words(repair, seed),
        "sentence": sentence,
        "nodes": count,
        "elements": candidate.size,
        "trials": bench.ran,
        "failed_trials": bench.failed,
        "kept": kept,
    }
    return made, contents


def _repair_words(repair: Repair | None, seed: Seed) -> str:
    if repair is not None:
        return repair.what
    if seed.quantised:
        return "no cause is named" if seed.cause is None else "the cause names nothing to repair in the file"
    return "there is no other engine to run this file"


def _repaired(contents: Contents, repair: Repair, output: str, keys: Mapping[str, str]) -> Contents:
    """The folder with the twin's side repaired."""
    candidate, spec = repair.candidate, dict(contents.spec)
    link = candidate.links.get(output, Link(output, output))
    twin = dict(spec["twin"], engine=repair.side.engine, options=dict(repair.side.options))
    if candidate.same_file:
        held = {i.name for i in candidate.network.graph.input}
        inputs = {n: k for n, k in keys.items() if n in held}
        twin |= {
            "file": "network.onnx",
            "inputs": inputs,
            "output": output,
            "input_form": {},
            "output_form": {},
        }
    else:
        twin["output_form"] = (
            {} if link.transform.is_identity else {link.twin: form_of(link.transform, to_twin=False)}
        )
        held_outputs = [] if contents.twin is None else list(contents.twin.graph.output)
        repaired = deepcopy(candidate.twin)
        del repaired.graph.output[:]
        repaired.graph.output.extend(held_outputs)
        contents = replace(contents, twin=repaired)
    engines = list(dict.fromkeys((*contents.engines, repair.side.engine)))
    return replace(contents, spec={**spec, "twin": twin}, engines=engines)


def _typed(
    candidate: Candidate, output: str, link: Link, expected: np.ndarray, observed: np.ndarray
) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The models with the types of their outputs declared, as ONNX requires."""

    def declared(model: onnx.ModelProto, name: str, shape: tuple[int, ...], dtype: Any) -> onnx.ModelProto:
        copy = deepcopy(model)
        del copy.graph.output[:]
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        copy.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, shape))
        return copy

    theirs = link.transform.to_twin(observed)
    twin = declared(candidate.twin, link.twin, theirs.shape, theirs.dtype)
    if candidate.same_file:
        return twin, twin
    return declared(candidate.network, output, expected.shape, observed.dtype), twin


def _sides_words(seed: Seed, candidate: Candidate) -> str:
    ours = (
        f"- network: `network.onnx` under {prose(seed.network_side)}"
        if seed.network_side.engine
        else "- network: stored values of `expected.npz` (`network.onnx` evaluated in float64)"
    )
    file = "network.onnx" if candidate.same_file else "twin.onnx"
    return f"{ours}\n- twin: `{file}` under {prose(seed.twin_side)}"


def _file_difference(network: onnx.ModelProto, twin: onnx.ModelProto) -> str:
    from twinnet.structure import compare_graphs

    found = compare_graphs(read_onnx(network), read_onnx(twin))
    lines = [f"- {prose(c.sentence)}" for c in found.changes[:8]]
    return "(A is `network.onnx`, B is `twin.onnx`)\n\n" + "\n".join(lines) if lines else ""


def _size(born: Born, explained: str) -> str:
    """How far off, in words; without the ratio where operators only move values and do not round."""
    if born.born is None or born.ratio is None:
        return f"wrong: {born.reason}"
    times = f", {born.ratio:.3g} x what {explained}" if born.ratio < _MEASURED else ""
    return f"off by {born.born:.3g}{times}"
