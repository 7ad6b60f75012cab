"""Repros of stored values, for twins that cannot be run without the user's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinnet.errors import UsageError
from twinnet.report.quoting import prose
from twinnet.report.sentences import counted
from twinnet.shrink import script
from twinnet.shrink.folder import Contents
from twinnet.shrink.issue import networks, numbers, write_issue
from twinnet.shrink.seed import Seed
from twinnet.shrink.words import form_of, origin_words, side_spec

__all__ = ["stored_values"]

Progress = Callable[[str, float | None], None]


def stored_values(seed: Seed, confidential: bool, progress: Progress) -> tuple[dict[str, Any], Contents]:
    """Describe the values as they were: without running the twin they cannot be made smaller.

    Nor can they be hidden: they are the proof. Nobody can tell what the twin would compute from other data, so random
    values would show a made-up difference. Scaling, shifting or reordering both sides alike would keep the difference
    but hide nothing, since it is easily undone.
    """
    if confidential:
        raise UsageError(
            "this twin cannot be run apart from your code: its values are the only proof, so they cannot be replaced",
            hint="leave out --confidential and look at the folder before you pass it on",
        )
    assert seed.expected is not None and seed.allowed is not None and seed.observed is not None
    keys = {name: f"in{i}" for i, name in enumerate(seed.inputs)}
    spec: dict[str, Any] = {"network": None, "twin": {"values": "observed.npz"}}
    arrays = {"expected.npz": {"expected": seed.expected, "allowed": seed.allowed}}
    engines: list[str] = []
    file = f"twin{seed.steps.get('suffix', '.onnx')}"
    if seed.kind in ("expected", "part"):
        link = seed.links[0]
        form = {} if link.transform.is_identity else {link.twin: form_of(link.transform, to_twin=False)}
        spec["twin"] = side_spec(file, seed.twin_side, keys, link.twin, {}, form)
        engines.append(seed.twin_side.engine)
    else:
        arrays["observed.npz"] = {"observed": seed.observed}
    if seed.network is not None and seed.network_side.engine:
        held = {i.name for i in seed.network.graph.input}
        inputs = {n: k for n, k in keys.items() if n in held}
        spec["network"] = side_spec("network.onnx", seed.network_side, inputs, seed.output, {}, {})
        engines.append(seed.network_side.engine)
    layers = ", ".join(seed.place.layers) or seed.place.label
    elements = sum(a.size for a in seed.inputs.values())
    twin = (
        f"{file} under {seed.twin_side}"
        if seed.kind in ("expected", "part")
        else f"stored values of {seed.twin_side}"
    )
    title = f"{seed.place.label or seed.place.tensor}: the twin differs from the network"
    what = (
        f"From the same inputs, {prose(layers)} gives other values in the twin than in the network.\n\n"
        f"- network: stored values of `expected.npz`, its layers evaluated in float64\n- twin: {prose(twin)}"
    )
    about = (
        f"It compares {twin} with expected.npz: the network's layers ({layers}) evaluated in "
        "float64 on the inputs the twin itself had (inputs.npz), and how far float rounding may move each element. "
    )
    if seed.kind == "stored":
        about += (
            "The twin is not run: to test a new version of it, put what it now makes of inputs.npz into observed.npz "
            "(numpy.savez, key 'observed')."
        )
    if seed.note:
        about += f" Note: {seed.note}."
    inputs_words = "\n".join(
        f"- `{key}`: {prose(name)} {seed.inputs[name].shape}" for name, key in keys.items()
    )
    sections = [
        ("Expected and observed", numbers(seed.observed, seed.expected, seed.allowed)),
        ("The inputs in inputs.npz", inputs_words),
        ("The network", networks(seed.network, seed.twin)),
        ("Where it comes from", origin_words(seed)),
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
        {file: seed.arrays["file"].tobytes()} if seed.kind == "part" else {},
    )
    operators = seed.steps.get("operators", ())
    count = len(model.graph.node) if model is not None else len(operators) or len(seed.place.layers)
    sentence = f"stored values of {layers}: {counted(elements, 'input element')}"
    if seed.kind == "part":
        sentence = (
            f"{counted(count, 'operator')} ({', '.join(operators[:4])}): {counted(elements, 'input element')}"
        )
    made: dict[str, Any] = {"sentence": sentence, "nodes": count, "elements": elements}
    if seed.kind == "part":
        made["repair"] = f"a part of a {file.rpartition('.')[2]} file is kept as it is"
    return made, contents
