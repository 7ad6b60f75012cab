"""Times of the nodes of an ONNX Runtime session, from the profile that it writes."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.engines.timing import WARM_UP, LayerTime, Span, Stopwatch

if TYPE_CHECKING:
    import onnx

__all__ = ["Made", "empty_steps", "loading_times", "made_by_nodes", "node_times", "timer_cost"]

Made = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
"""What each node makes, by its name: tensors of the network, and those that it only helps to make."""

_INSIDE = ("If", "Loop", "Scan")
"""Nodes whose time holds that of other nodes."""
_TINY, _CHAIN, _TRIES = (1, 1, 1, 1), 64, 20
_LAYOUT = ("ReorderInput", "ReorderOutput")
_ANEW = re.compile(r"_token_\d+$")
"""What a node that was made again for another layout has behind its name."""
_OWN_LAYOUT = "_nchwc"
"""A convolution in ONNX Runtime's own layout is named after the tensor it made before anything was fused with it."""


def made_by_nodes(
    graph: onnx.GraphProto, before: onnx.GraphProto, known: frozenset[str]
) -> dict[str, tuple[Any, Any]]:
    """What the nodes of an optimised graph make; a tensor that optimising put in between counts toward the next.

    `before` is the graph before its layout was changed: nodes keep their names, tensors do not.
    """
    named = {n.name: tuple(t for t in n.output if t in known) for n in before.node if n.name}
    unfused = {name: node for node in before.node for name in node.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    later: dict[str, list[int]] = {}
    for place, node in enumerate(before.node):
        for name in node.input:
            later.setdefault(name, []).append(place)

    def with_fused(node: onnx.NodeProto, made: str) -> str:
        """What a convolution makes that is named after `made`: a sum and an activation may have become part of it."""
        plain = unfused.get(made)
        if plain is None:
            return made
        hops = [found(node) and not found(plain) for found in (_adds, _activates)]
        for _ in filter(None, hops):
            made = _behind(made, before.node, later) or made
        return made

    def own(node: onnx.NodeProto) -> tuple[str, ...]:
        if node.op_type in _LAYOUT:
            return ()
        if node.name.endswith(_OWN_LAYOUT) and node.name.removesuffix(_OWN_LAYOUT) in known:
            made = with_fused(node, node.name.removesuffix(_OWN_LAYOUT))
            return (made if made in known else node.name.removesuffix(_OWN_LAYOUT),)
        # What it makes in ONNX Runtime's own layout has its name only behind the step that turns it back.
        turned = [
            n for o in node.output for r in readers.get(o, ()) if r.op_type in _LAYOUT for n in r.output
        ]
        made = tuple(name for name in (*node.output, *turned) if name in known)
        return made or named.get(node.name, ()) or named.get(_ANEW.sub("", node.name), ())

    def next_known(node: onnx.NodeProto) -> tuple[str, ...]:
        found: dict[str, None] = dict.fromkeys(n for n in node.output if n in known)
        seen: set[str] = set()
        stack = [] if found else [node]
        while stack:
            for name in stack.pop().output:
                for reader in readers.get(name, ()) if name not in seen else ():
                    made = own(reader)
                    found.update(dict.fromkeys(made))
                    if not made:
                        stack.append(reader)
                seen.add(name)
        return tuple(found)

    made: dict[str, tuple[Any, Any]] = {}
    for place, node in enumerate(graph.node):
        mine = own(node)
        # Unnamed nodes are named after operator and position.
        made[node.name or f"{node.op_type}_{place}"] = mine, () if mine else next_known(node)
    return made


def _activates(node: onnx.NodeProto) -> bool:
    return any(attribute.name == "activation" for attribute in node.attribute)


def _adds(node: onnx.NodeProto) -> bool:
    """Whether a convolution also adds another tensor."""
    return "Conv" in node.op_type and len(node.input) > 3 and bool(node.input[3])


def _behind(tensor: str, nodes: Sequence[onnx.NodeProto], readers: Mapping[str, Sequence[int]]) -> str:
    """The nearest tensor that whatever is computed from a tensor goes through; empty if there is none."""
    waiting = set(readers.get(tensor, ()))
    while waiting:
        place = min(waiting)
        waiting.discard(place)
        made = [name for name in nodes[place].output if name]
        if not waiting:
            return made[0] if len(made) == 1 else ""
        waiting.update(reader for name in made for reader in readers.get(name, ()))
    return ""


def empty_steps() -> onnx.ModelProto:
    """A network of many nodes that compute next to nothing: what they take is what any step takes."""
    from onnx import TensorProto, helper

    nodes = [helper.make_node("Add", ["x", "x"], ["v0"])]
    nodes += [helper.make_node("Add", [f"v{i}", "x"], [f"v{i + 1}"]) for i in range(_CHAIN - 1)]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, _TINY) for n in ("x", f"v{_CHAIN - 1}"))
    graph = helper.make_graph(nodes, "empty", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def timer_cost(plain: Callable[[Any], object], timed: Any) -> float:
    """Seconds that the profiler adds to the time of a node, by two sessions of `empty_steps`, the second with profiler.

    Before the end of a node's time is taken, the profiler writes down shapes and memory.
    """
    feeds = {"x": np.ones(_TINY, np.float32)}
    bare = Stopwatch()
    for _ in range(_TRIES):
        bare(lambda: plain(feeds))
        timed.run(None, feeds)
    events = json.loads(Path(timed.end_profiling()).read_text(encoding="utf-8"))
    steps = node_times(events, {}, WARM_UP)
    spans = [statistics.fmean(span.seconds for step in steps for span in step.spans if span.run == run)
             for run in range(_TRIES - WARM_UP)]  # fmt: skip
    return max(0.0, min(spans) - min(bare.cpu[WARM_UP:]) / _CHAIN)


def node_times(
    events: Sequence[Mapping[str, Any]], made: Made, skipped: int, timer: float = 0.0
) -> tuple[LayerTime, ...]:
    """The nodes of a profile in the order of their first execution; the first `skipped` runs do not count.

    >>> node = {"cat": "Node", "name": "c1_kernel_time", "args": {"op_name": "Conv", "provider": "CPU"}}
    >>> run = {"cat": "Session", "name": "model_run"}
    >>> log = [{**node, "ts": 2, "dur": 900}, {**run, "ts": 0, "dur": 950},
    ...        {**node, "ts": 1001, "dur": 40}, {**run, "ts": 1000, "dur": 60}]
    >>> (step,) = node_times(log, {"c1": (("y",), ())}, 1)
    >>> step.name, step.op, step.seconds, step.spans[0].start, step.tensors
    ('c1', 'Conv', 4e-05, 1e-06, ('y',))
    """
    runs = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e.get("name") == "model_run")[skipped:]
    nodes = sorted(
        (e for e in events if e.get("cat") == "Node" and str(e.get("name", "")).endswith("_kernel_time")),
        key=lambda e: (e["ts"], -e["dur"]),
    )
    spans: dict[tuple[str, str], list[Span]] = {}
    told: dict[tuple[str, str], Mapping[str, Any]] = {}
    current = 0
    for event, ticks in _exclusive(nodes):
        while current < len(runs) and event["ts"] >= runs[current][1]:
            current += 1
        if current == len(runs) or event["ts"] < runs[current][0]:
            continue
        said = event["args"]
        name = str(event["name"]).removesuffix("_kernel_time")
        key = name, str(said.get("node_index", ""))
        told[key] = said
        memory = said.get("mem_bytes_in_use")
        spans.setdefault(key, []).append(
            Span(
                current,
                ticks / 1e6,
                (event["ts"] - runs[current][0]) / 1e6,
                int(event.get("tid", 0)),
                None if memory is None else int(memory),
            )
        )
    steps = []
    for (name, index), seen in spans.items():
        own, toward = made.get(name, ((), ()))
        said = told[name, index]
        # Nodes that optimising adds may share a name.
        shown = name if sum(other == name for other, _ in spans) == 1 else f"{name}#{index}"
        steps.append(
            LayerTime(
                shown,
                said["op_name"],
                tuple(seen),
                tuple(own),
                said.get("provider", ""),
                tuple(toward),
                timer,
            )
        )
    return tuple(steps)


def _exclusive(nodes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Nodes with their own ticks: those of a branch or a loop without the nodes inside it."""
    ticks = [float(e["dur"]) for e in nodes]
    around: list[int] = []
    for i, event in enumerate(nodes):
        while around and event["ts"] >= nodes[around[-1]]["ts"] + nodes[around[-1]]["dur"]:
            around.pop()
        if around:
            ticks[around[-1]] -= float(event["dur"])
        if event["args"].get("op_name") in _INSIDE:
            around.append(i)
    return zip(nodes, (max(t, 0.0) for t in ticks))


def loading_times(events: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, float], ...]:
    """What loading took: reading the model, and preparing the session."""
    return tuple(
        (str(e["name"]), float(e["dur"]) / 1e6)
        for e in events
        if e.get("cat") == "Session" and str(e.get("name")).startswith(("model_loading", "session_init"))
    )
