"""From a run to a repro."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from twinnet.errors import EngineError, UsageError
from twinnet.pairing import Transform
from twinnet.result import Result, ResultSet
from twinnet.shrink import script
from twinnet.shrink.confidential import anonymous, hide, hide_model
from twinnet.shrink.folder import Contents, check_target, start, write_folder
from twinnet.shrink.inputs import simpler_values, smaller_input
from twinnet.shrink.issue import code, networks, numbers, write_issue
from twinnet.shrink.nodes import fewer_nodes
from twinnet.shrink.refusal import hidden_refusal, names_of, smallest_refusal
from twinnet.shrink.script import normalised
from twinnet.shrink.seed import Link, Runner, Seed, load_seeds
from twinnet.shrink.trial import Bench, Candidate, exact_values, run

__all__ = ["Repro", "repro"]

Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class Repro:
    """A repro as it was written. `confirmed`: its `repro.py` was started and showed the fault."""

    folder: Path
    kind: str
    sentence: str
    nodes: int
    elements: int
    trials: int = 0
    failed_trials: int = 0
    kept: tuple[str, ...] = ()
    confirmed: bool = False
    said: str = ""

    def __str__(self) -> str:
        lines = [f"repro    {self.sentence}"]
        if self.trials:
            crashed = f", {self.failed_trials} of them could not run" if self.failed_trials else ""
            lines.append(f"tried    {self.trials} smaller ones{crashed}")
        if self.kept:
            lines.append(f"kept     {', '.join(self.kept)} as in your network: the fault needs it")
        lines.append(
            "check    repro.py exits with 1: it shows the fault"
            if self.confirmed
            else f"check    repro.py does NOT show the fault here: {self.said.splitlines()[-1] if self.said else ''}"
        )
        lines.append(f"files    {self.folder}/repro.py, {self.folder}/ISSUE.md")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Machine-readable form."""
        return json.dumps({**asdict(self), "folder": str(self.folder)}, indent=1)


def repro(
    run: Any,
    out: str | Path | None = None,
    *,
    confidential: bool = False,
    finding: int = 0,
    progress: Progress = lambda step, share: None,
) -> Repro:
    """Write the smallest network and input that still show a finding of `run`, and one file that runs them.

    `run` is a run folder or the result of a check. The folder `out` (default `repro` in the run folder) gets
    `repro.py`, which needs neither twinnet nor the user's code, the network, the inputs and `ISSUE.md`.

    >>> import tempfile, torch, twinnet
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> found = twinnet.check(net, torch.ones(1, 4), lambda x: {"output": x * 0 - 1})
    >>> repro(found, tempfile.mkdtemp()).kind
    'stored'
    """
    seeds, folder = _seeds(run)
    target = Path(out) if out is not None else folder / "repro" if folder is not None else None
    if target is None:
        raise UsageError("no folder for the repro is named", hint="repro(result, DIR)")
    check_target(target)
    if not 0 <= finding < len(seeds):
        raise UsageError(
            f"this run has no finding {finding + 1} that a repro can be made of",
            hint=f"it has {len(seeds)}, the first in the network first",
        )
    seed = seeds[finding]
    if seed.kind == "error":
        made, contents = _refusal(seed, confidential, progress)
    elif seed.kind == "live":
        made, contents = _live(seed, confidential, progress)
    else:
        made, contents = _stored(seed, confidential)
    progress("writing", None)
    write_folder(target, contents)
    exit_code, said = start(target)
    return Repro(target, seed.kind, said=said, confirmed=exit_code == 1, **made)


def _seeds(run: Any) -> tuple[tuple[Seed, ...], Path | None]:
    if isinstance(run, ResultSet):
        failing = [r for r in run if r.verdict != "PASS"]
        if not failing:
            raise UsageError("every twin passed: there is nothing to reproduce")
        run = failing[0]
    if isinstance(run, Result):
        result, folder = run, Path(run.folder) if run.folder else None
    else:
        loaded = Result.load(run)
        if isinstance(loaded, ResultSet):
            places = ", ".join(r.folder or r.twin.spec for r in loaded if r.verdict != "PASS")
            raise UsageError(
                "this folder holds several runs", hint=f"name one of them: {places or 'all passed'}"
            )
        result, folder = loaded, Path(run) if Path(run).is_dir() else Path(run).parent
    if result.verdict == "PASS":
        raise UsageError("this run passed: there is nothing to reproduce")
    seeds = getattr(result, "_seeds", ()) or (load_seeds(folder) if folder is not None else ())
    if not seeds:
        why = (
            f"the ERROR came from {result.stage or 'elsewhere'}, before an engine had an ONNX network to refuse"
            if result.verdict == "ERROR"
            else "the tensors of its findings were not kept (--keep none, a stated tolerance, or a very large part)"
        )
        raise UsageError(
            f"this run holds nothing that a repro can be made of: {why}", hint="run the check again"
        )
    return tuple(seeds), folder


# -- both sides run ----------------------------------------------------------------------------------------------


def _live(seed: Seed, confidential: bool, progress: Progress) -> tuple[dict[str, Any], Contents]:
    assert seed.network is not None and seed.twin is not None
    links = {k.network: k for k in seed.links}
    candidate = Candidate.of(
        seed.network, seed.network if seed.twin is seed.network else seed.twin, seed.inputs, links
    )
    bench = Bench(seed.network_side, seed.twin_side, seed.unit, seed.limit)
    if bench.shows(candidate) is None:
        raise EngineError(
            f"{seed.place.label}: the difference does not show any more",
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
        # An allowance of its own: what is hidden matters more than what is small.
        fresh = Bench(seed.network_side, seed.twin_side, seed.unit, seed.limit, first=bench.first)
        hidden = hide(fresh, candidate)
        candidate, kept = hidden.candidate, hidden.kept
        names: dict[str, str] = {}
        hide_model(candidate.network, names)
        candidate = anonymous(candidate)
        kept = tuple(names.get(n, "a weight of the twin") for n in kept)
    return _written_live(seed, bench, candidate, confidential, kept)


def _written_live(
    seed: Seed, bench: Bench, candidate: Candidate, confidential: bool, kept: tuple[str, ...]
) -> tuple[dict[str, Any], Contents]:
    from twinnet.layers.read_onnx import read_onnx

    found = bench.judge(candidate)
    if found is None:
        raise EngineError("the smallest part does not show the difference any more", stage="shrink")
    output = found.output
    link = candidate.links.get(output, Link(output, output))
    expected, allowed = exact_values(
        read_onnx(candidate.network), candidate.feeds, output, seed.unit, seed.limit
    )
    own: np.ndarray | None = None
    if seed.network_side.engine:
        own = np.asarray(run(seed.network_side, candidate.network, candidate.feeds)[output])
        if not np.issubdtype(expected.dtype, np.floating) and own.shape == expected.shape:
            allowed = np.where(
                own != expected, 1.0, allowed
            )  # a tie that the network itself decides either way
    network, twin = _typed(candidate, output, link, expected, found.observed)
    keys = {name: f"in{i}" for i, name in enumerate(candidate.feeds)}
    held = {i.name for i in network.graph.input}
    spec: dict[str, Any] = {"network": None, "twin": None}
    if seed.network_side.engine:
        inputs = {n: k for n, k in keys.items() if n in held}
        spec["network"] = _side("network.onnx", seed.network_side, inputs, output, {}, {})
    needed = {i.name for i in twin.graph.input}
    by_twin = {candidate.links.get(n, Link(n, n)).twin: n for n in keys}
    forms = {
        t: _form(candidate.links[n].transform, to_twin=True)
        for t, n in by_twin.items()
        if n in candidate.links and not candidate.links[n].transform.is_identity
    }
    form = {} if link.transform.is_identity else {link.twin: _form(link.transform, to_twin=False)}
    file = "network.onnx" if candidate.same_file else "twin.onnx"
    twin_inputs = {t: keys[n] for t, n in by_twin.items() if t in needed}
    spec["twin"] = _side(file, seed.twin_side, twin_inputs, link.twin, forms, form)
    count = len(network.graph.node)
    ops = ", ".join(dict.fromkeys(n.op_type for n in network.graph.node))
    size = f"{found.born.born:.3g}" if found.born.born is not None else found.born.reason
    times = (
        f", {found.born.ratio:.3g} x what rounding can explain"
        if found.born.ratio not in (None, np.inf)
        else ""
    )
    subject = ops if count <= 4 else _count(count, "node")
    title = f"{subject}: {seed.twin_side} gives other values than it should"
    if not candidate.same_file:
        title = f"{subject}: the twin's file computes something else than the network"
    what = (
        f"A network of {_count(count, 'node')} ({ops}) on {_count(candidate.size, 'input element')}: "
        f"the twin's result is off by {size}{times}.\n\n" + _sides_words(seed, candidate)
    )
    sections = [
        ("Expected and observed", numbers(found.observed, expected, allowed)),
        ("The network", networks(network, None if candidate.same_file else twin)),
        ("What differs between the files", "" if candidate.same_file else _file_difference(network, twin)),
        ("Where it comes from", "" if confidential else _origin(seed)),
        ("What was hidden", _hidden_words(kept) if confidential else ""),
    ]
    about = (
        f"The twin ({seed.twin_side}, {file}) is compared with expected.npz: network.onnx evaluated in float64 on "
        "inputs.npz, and how far float rounding may move each element (a running error bound times "
        f"{seed.limit:g}). "
        + (
            f"The network's own engine ({seed.network_side}) runs beside it, to show that it agrees."
            if seed.network_side.engine
            else "The network was not made with ONNX: network.onnx is what it exports to, and its side is these stored values."
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
        arrays={"expected.npz": {"expected": expected, "allowed": allowed}},
        engines=list(dict.fromkeys(s.engine for s in (seed.network_side, seed.twin_side) if s.engine)),
    )
    sentence = (
        f"{_count(count, 'node')} ({ops}), {_count(candidate.size, 'input element')}: off by {size}{times}"
    )
    made = {
        "sentence": sentence,
        "nodes": count,
        "elements": candidate.size,
        "trials": bench.ran,
        "failed_trials": bench.failed,
        "kept": kept,
    }
    return made, contents


def _side(
    file: str,
    side: Runner,
    inputs: Mapping[str, str],
    output: str,
    input_form: Mapping[str, Any],
    output_form: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "file": file,
        "engine": side.engine,
        "options": dict(side.options),
        "inputs": dict(inputs),
        "output": output,
        "input_form": dict(input_form),
        "output_form": dict(output_form),
    }


def _form(transform: Transform, *, to_twin: bool) -> tuple[Any, Any]:
    """A transform as (permutation, shape): what `turned` takes."""
    if not to_twin:
        return transform.perm, transform.shape
    perm = None if transform.perm is None else tuple(int(i) for i in np.argsort(transform.perm))
    return perm, transform.twin_shape


def _typed(
    candidate: Candidate, output: str, link: Link, expected: np.ndarray, observed: np.ndarray
) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The models with the types of their outputs declared, as the specification asks."""

    def declared(model: onnx.ModelProto, name: str, shape: tuple[int, ...], dtype: Any) -> onnx.ModelProto:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        del copy.graph.output[:]
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        copy.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, shape))
        return copy

    theirs = link.transform.to_twin(observed)
    twin = declared(candidate.twin, link.twin, theirs.shape, observed.dtype)
    if candidate.same_file:
        return twin, twin
    return declared(candidate.network, output, expected.shape, observed.dtype), twin


def _sides_words(seed: Seed, candidate: Candidate) -> str:
    ours = (
        f"- network: `network.onnx` under {seed.network_side}"
        if seed.network_side.engine
        else "- network: stored values of `expected.npz` (`network.onnx` evaluated in float64)"
    )
    file = "network.onnx" if candidate.same_file else "twin.onnx"
    return f"{ours}\n- twin: `{file}` under {seed.twin_side}"


def _file_difference(network: onnx.ModelProto, twin: onnx.ModelProto) -> str:
    from twinnet.layers.read_onnx import read_onnx
    from twinnet.structure import compare_graphs

    found = compare_graphs(read_onnx(network), read_onnx(twin))
    lines = [f"- {c.sentence}" for c in found.changes[:8]]
    return "(A is `network.onnx`, B is `twin.onnx`)\n\n" + "\n".join(lines) if lines else ""


def _origin(seed: Seed) -> str:
    place = f"`{seed.place.label or seed.place.tensor}`" + (
        f" ({seed.place.source})" if seed.place.source else ""
    )
    layers = "\n".join(f"- {layer}" for layer in seed.place.layers[:8])
    return (
        f"It was found at {place}, in a part made of:\n\n{layers}" if layers else f"It was found at {place}."
    )


def _hidden_words(kept: tuple[str, ...]) -> str:
    said = (
        "Names and metadata were removed; weights and inputs are random, of the same shape, type and spread"
    )
    if kept:
        return f"{said}, except {', '.join(kept)}, which had to keep their values for the fault to show."
    return (
        f"{said}. Operators, attributes, shapes and the way in which the two files differ are as they were."
    )


def _count(n: int, word: str) -> str:
    return f"{n} {word}" + ("" if n == 1 else "s")


# -- stored values -----------------------------------------------------------------------------------------------


def _stored(seed: Seed, confidential: bool) -> tuple[dict[str, Any], Contents]:
    """What cannot be made smaller without running the twin elsewhere: its values as they were."""
    if confidential:
        raise UsageError(
            "this twin cannot be run apart from your code, so its weights and data cannot be replaced",
            hint="leave out --confidential and look at what the folder holds before you pass it on",
        )
    assert seed.expected is not None and seed.allowed is not None and seed.observed is not None
    keys = {name: f"in{i}" for i, name in enumerate(seed.inputs)}
    spec: dict[str, Any] = {"network": None, "twin": {"values": "observed.npz"}}
    arrays = {"expected.npz": {"expected": seed.expected, "allowed": seed.allowed}}
    engines: list[str] = []
    if seed.kind == "expected":
        link = seed.links[0]
        form = {} if link.transform.is_identity else {link.twin: _form(link.transform, to_twin=False)}
        spec["twin"] = _side("twin.onnx", seed.twin_side, keys, link.twin, {}, form)
        engines.append(seed.twin_side.engine)
    else:
        arrays["observed.npz"] = {"observed": seed.observed}
    if seed.network is not None and seed.network_side.engine:
        held = {i.name for i in seed.network.graph.input}
        inputs = {n: k for n, k in keys.items() if n in held}
        spec["network"] = _side("network.onnx", seed.network_side, inputs, seed.output, {}, {})
        engines.append(seed.network_side.engine)
    layers = ", ".join(seed.place.layers) or seed.place.label
    elements = sum(a.size for a in seed.inputs.values())
    twin = (
        f"`twin.onnx` under {seed.twin_side}"
        if seed.kind == "expected"
        else f"stored values of {seed.twin_side}"
    )
    title = f"{seed.place.label or seed.place.tensor}: the twin differs from the network"
    what = (
        f"From the same inputs, {layers} gives other values in the twin than in the network.\n\n"
        f"- network: stored values of `expected.npz`, its layers evaluated in float64\n- twin: {twin}"
    )
    about = (
        f"It compares {twin.replace('`', '')} with expected.npz: the network's layers ({layers}) evaluated in float64 on "
        "the inputs the twin itself had (inputs.npz), and how far float rounding may move each element. "
    )
    if seed.kind == "stored":
        about += (
            "The twin is not run: to test a new version of it, put what it now makes of inputs.npz into observed.npz "
            "(numpy.savez, key 'observed')."
        )
    if seed.note:
        about += f" Note: {seed.note}."
    inputs_words = "\n".join(f"- `{key}`: {name} {seed.inputs[name].shape}" for name, key in keys.items())
    sections = [
        ("Expected and observed", numbers(seed.observed, seed.expected, seed.allowed)),
        ("The inputs in inputs.npz", inputs_words),
        ("The network", networks(seed.network, seed.twin)),
        ("Where it comes from", _origin(seed)),
    ]
    sides = [s for s in (seed.network_side, seed.twin_side) if s.engine]
    model = seed.twin or seed.network
    contents = Contents(
        title,
        write_issue(title, what, sides, sections),
        spec,
        script.compare_sides,
        about,
        {keys[n]: a for n, a in seed.inputs.items()},
        seed.network,
        seed.twin,
        arrays,
        list(dict.fromkeys(engines)),
    )
    count = len(model.graph.node) if model is not None else len(seed.place.layers)
    sentence = f"stored values of {layers}: {_count(elements, 'input element')}"
    return {"sentence": sentence, "nodes": count, "elements": elements}, contents


# -- a refusal ---------------------------------------------------------------------------------------------------


def _refusal(seed: Seed, confidential: bool, progress: Progress) -> tuple[dict[str, Any], Contents]:
    progress("leaving out nodes", None)
    found = smallest_refusal(seed)
    kept: tuple[str, ...] = ()
    if confidential:
        found, kept = hidden_refusal(seed, found)
    model, feeds, message = found.model, found.feeds, found.message
    keys = {name: f"in{i}" for i, name in enumerate(feeds)}
    side = _side("network.onnx", seed.twin_side, keys, "", {}, {})
    names = sorted(names_of(model))
    spec = {
        "twin": {
            **side,
            "package": {"onnx-reference": "onnx"}.get(seed.twin_side.engine, seed.twin_side.engine),
        },
        "names": names,
        "message": normalised(message, names),
    }
    ops = ", ".join(dict.fromkeys(n.op_type for n in model.graph.node))
    count = len(model.graph.node)
    title = f"{seed.twin_side} refuses {ops}" if count <= 4 else f"{seed.twin_side} refuses a network"
    elements = sum(a.size for a in feeds.values())
    sections = [
        ("The message", code(message)),
        ("The network", networks(model, None)),
        ("What was hidden", _hidden_words(kept) if confidential else ""),
    ]
    what = f"A network of {_count(count, 'node')} ({ops}) cannot be loaded or run; expected is that it runs."
    contents = Contents(
        title,
        write_issue(title, what, [seed.twin_side], sections),
        spec,
        script.expect_refusal,
        f"network.onnx is loaded and run under {seed.twin_side}, which refuses it.",
        {keys[n]: a for n, a in feeds.items()},
        model,
        engines=[seed.twin_side.engine],
    )
    first = message.splitlines()[0][:160] if message else ""
    made = {
        "sentence": f"{_count(count, 'node')} ({ops}) refused: {first}",
        "nodes": count,
        "elements": elements,
        "trials": found.trials,
        "kept": kept,
    }
    return made, contents
