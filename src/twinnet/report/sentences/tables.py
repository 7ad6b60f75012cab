"""Lookup tables: how a twin's tables differ, and how two files of tables differ.

Most facts have a predicate, so that a check can say "the twin pads edge where the network pads reflect" and a
comparison of two files "B pads edge where A pads reflect".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinnet.report.sentences.registry import Saying, few, plain, sayings, sentence
from twinnet.result import Fact

Offsets = tuple[tuple[int, int], ...]
Predicate = Callable[..., str]
_PREDICATES: dict[str, Predicate] = {}

_TAPS = "abcdefghijklmnop"
_TURNED = {
    "left_right": "mirrored left to right",
    "top_bottom": "mirrored top to bottom",
    "both": "mirrored both ways",
    "transposed": "with rows and columns exchanged",
}
_ORDERS = {
    "reversed": "in the reverse order",
    "transposed": "with rows and columns of the block exchanged",
    "rows_reversed": "with the rows of the block from bottom to top",
    "columns_reversed": "with the columns of the block from right to left",
    "channels_last": "with the channels innermost",
}
_VERBS = {"div": "divides by", "mul": "multiplies by", "add": "adds", "clip": "clamps to"}


def predicate(code: str) -> Callable[[Predicate], Predicate]:
    """Register the predicate of a fact about the twin. `it` names the other side; `term` names the lookups."""

    def register(say: Predicate) -> Predicate:
        _PREDICATES[code] = say

        @sentence(code)
        def _(term: str = "", **params: Any) -> str:
            return f"the twin {say(it='the network', **params)}" + (f" ({term})" if term else "")

        return say

    return register


def _told(fact: Fact, it: str) -> str:
    params = {name: value for name, value in fact.params.items() if name != "term"}
    return _PREDICATES[fact.code](it=it, **params)


@sentence("table.between")
def _(place: str, difference: Fact) -> str:
    said = f"B {_told(difference, 'A')}"
    return f"{place}: {said}" if place else said


@predicate("table.several")
def _(it: str, facts: tuple[Fact, ...]) -> str:
    return " and ".join(_told(fact, it) for fact in facts)


_TEXTS = {
    "table.upscale": "scales by {twin} where {it} has {network}",
    "table.channels": "has channels: {twin} where {it} has {network}",
    "table.cell": "has one site per {twin}x{twin} pixels where {it} has one per {network}x{network}",
    "table.padding": "pads {twin} where {it} pads {network}",
    "table.window": "samples the window {twin} the pixel where {it} samples below and right of it: "
    "it pads the other side",
    "table.weights_rounded": "rounds the weighted taps {twin} where {it} rounds them {network}",
    "table.whole_pixels": "takes whole pixels where {it} keeps fractions of weighted taps",
    "table.residual_left_out": "leaves out the residual: only the current planes are sampled",
    "table.residual_alone": "takes the residual alone where {it} blends it in",
    "table.residual_exchanged": "blends the other way round: the gains belong to the current planes",
    "table.residual_reversed": "has the residual's gains in the reverse order",
    "table.rotation": "samples rotation {twin} where {it} samples rotation {network}",
    "table.rotated_backwards": "turns the image the other way: rotation 1 is sampled as rotation 3, and 3 as 1",
    "table.unturned": "samples every rotation unturned",
    "table.strides": "counts rows by {twin} nodes per tap where the table has {network}",
    "table.last_node": "looks up bin {bin} with node {twin} where {it} takes node {network}",
    "table.made_with": "looks up bin {bin} with node {node} where its table was made with {twin} "
    "({it}'s with {network})",
    "table.says_last": "says its last node is {twin} where {it} has {network}; the entries are equal",
    "table.lookups_rounded": "rounds every lookup {twin} where {it} rounds only their sum",
    "table.table": "looks up table {twin} where {it} looks up {network}",
    "table.row": "has another row at {node}: {outputs} of its {payload} outputs differ",
    "table.entries_off_band": "has other entries in {rows} of {of} rows of its off-band table",
    "table.entries_unsigned": "reads its entries as {twin} where {it} has {network}",
    "table.block_rotation": "turns the block back by rotation {twin} where {it} turns it by {network}",
    "table.blocks_backwards": "turns the blocks back the wrong way: "
    "rotation 1 is turned back as rotation 3, and 3 as 1",
    "table.blocks_unturned": "leaves the blocks of every rotation unturned",
    "table.rounding": "rounds {twin} where {it} rounds {network}",
    "table.rounded_often": "rounds after every division where {it} rounds once",
    "table.clamp": "leaves out the clamp to 0..255: values wrap around",
    "table.rotations_exchanged": "samples rotation {network[1]} for rotation {network[0]}, and "
    "{network[0]} for {network[1]}",
    "table.spacing": "takes nodes {twin[0]:g} apart, up to {twin[1]}, where {it} has {network[0]}, up "
    "to {network[1]}",
}
"""Predicates that need no logic."""

for _code, _text in _TEXTS.items():
    predicate(_code)(Saying(_text))

sayings(
    {
        "table.scale": "scale x{network} against x{twin}",
        "table.no_site": "not a site of the tables",
        "table.unseen": "entries may be off by one, and the sites between are not shown",
        "table.shape": "shape {twin} where the tables give {network}",
        "tie.term": "they are rotations of {term}",
    }
)


# ---- structure ---------------------------------------------------------------------------------------


@predicate("table.stages")
def _(it: str, network: tuple[str, ...], twin: tuple[str, ...]) -> str:
    return f"has the stages {' '.join(twin)} where {it} has {' '.join(network)}"


@predicate("table.has_term")
def _(it: str, name: str, network: bool, twin: bool) -> str:
    return f"has {name}, which {it} does not have" if twin else f"has no {name}"


# ---- which pixels ------------------------------------------------------------------------------------


def _taps(offsets: Offsets) -> str:
    return " ".join(f"({y},{x})" for y, x in offsets)


@predicate("table.offsets")
def _(it: str, network: Offsets, twin: Offsets, turned: str) -> str:
    how = f"{_TURNED[turned]}: " if turned else ""
    return f"samples {how}{_taps(twin)} where {it} samples {_taps(network)}"


@predicate("table.turned")
def _(it: str, network: str, twin: str) -> str:
    return f"samples {_TURNED[twin]} where {it} samples as it is"


@predicate("table.moved")
def _(it: str, network: tuple[int, int], twin: tuple[int, int], offsets: Offsets | None) -> str:
    way = {(1, 0): "down", (-1, 0): "up", (0, 1): "right", (0, -1): "left"}[twin]
    return f"samples one pixel further {way}" + (
        "" if offsets is None else f" than the taps {_taps(offsets)}"
    )


@predicate("table.taps")
def _(it: str, network: tuple[int, ...], twin: tuple[int, ...]) -> str:
    ours, theirs = (" ".join(_TAPS[k] for k in order) for order in (network, twin))
    return f"takes the taps in the order {theirs} where {it} has {ours}"


@predicate("table.weights")
def _(it: str, taps: int | None, off: int, turned: str) -> str:
    if turned:
        return f"samples {_TURNED[turned]}: its sampler weights are {it}'s, turned over"
    return "has other sampler weights" + ("" if taps is None else f" in {off} of {taps} taps")


@predicate("table.planes")
def _(it: str, network: tuple[tuple[str, int], ...], twin: tuple[tuple[str, int], ...]) -> str:
    ours, theirs = (" ".join(f"{register}[{c}]" for register, c in planes) for planes in (network, twin))
    return f"reads {theirs} where {it} reads {ours}"


@predicate("table.channel")
def _(it: str, network: int, twin: int, register: str = "") -> str:
    of = f" of {register}" if register else ""
    return f"reads channel {twin}{of} where {it} reads channel {network}"


@predicate("table.residual")
def _(it: str, network: tuple[int, ...] | None, twin: tuple[int, ...] | None) -> str:
    ours, theirs = ("none" if gains is None else f"gains {gains}" for gains in (network, twin))
    if twin is None:
        return f"leaves out the residual where {it} blends with {ours}"
    return f"blends in the residual with {theirs} where {it} has {ours}"


# ---- rotations ---------------------------------------------------------------------------------------


@predicate("table.rotations")
def _(it: str, name: str, network: tuple[int, ...], twin: tuple[int, ...]) -> str:
    missing = [r for r in network if r not in twin]
    if missing and len(twin) == len(network) - len(missing):
        return f"leaves out rotation {' and '.join(map(str, missing))} of {name}"
    return f"takes rotations {twin} of {name} where {it} takes {network}"


# ---- which rows --------------------------------------------------------------------------------------


@predicate("table.bin")
def _(it: str, network: str, twin: str | tuple[str, int], top: int) -> str:
    way, axis = (twin, None) if isinstance(twin, str) else twin
    how = {
        "next": "one bin too high",
        "previous": "one bin too low",
        "nearest": "in the nearest bin, not the one below",
        "clipped": f"with the bins clipped at {top - 1} where {it} has {top}",
    }[way]
    return f"looks up {how}" if axis is None else f"looks up tap {_TAPS[axis]} {how}"


@predicate("table.interpolation")
def _(it: str, network: str, twin: str) -> str:
    how = {
        "rising": "uses simplex interpolation from the smallest fraction up",
        "nearest": "takes the nearest entry",
        "lower": "takes the entry below, without interpolation,",
        "srlut-2021": "uses the slip of SR-LUT 2021",
    }.get(twin, f"uses {twin} interpolation")
    return f"{how} where {it} uses {network}"


# ---- what is in them ---------------------------------------------------------------------------------


@predicate("table.grid")
def _(it: str, network: tuple[Any, ...], twin: tuple[Any, ...]) -> str:
    def grid(nodes: int, step: int, axes: int, band: tuple[int, ...] | None) -> str:
        banded = "" if band is None else f", band {'/'.join(map(str, band))}"
        return f"{nodes} nodes, {step} apart, on {axes} axes{banded}"

    return f"has a table on another grid: {grid(*twin)} where {it} has {grid(*network)}"


def _rows(rows: int, seen: bool) -> str:
    return f"the {rows} rows that these images pin down" if seen else f"{rows} rows"


@predicate("table.entry")
def _(it: str, node: tuple[int, ...], output: int | None, network: int, twin: int) -> str:
    where = f"entry {plain(node)}" + ("" if output is None else f", output {output},")
    return f"reads {twin} at {where} where {it} has {network}"


@predicate("table.entries_at_last")
def _(it: str, rows: int, of: int, seen: bool, last: int) -> str:
    said = f"has other entries only where a tap is at the last node, in {rows} of {_rows(of, seen)}"
    return said + (f": as if it stood for another value than {last}" if rows > 3 else "")


@predicate("table.entries_negated")
def _(it: str, rows: int, of: int, seen: bool) -> str:
    return f"reads its entries with the sign flipped in {rows} of {_rows(of, seen)}"


@predicate("table.entries")
def _(rows: int, of: int, seen: bool, mean: float, **at: Any) -> str:
    only = "" if at["output"] is None else f", all in output {at['output']} of {at['payload']}"
    most = ": as from another export or training" if rows > 0.5 * of else ""
    return f"has other entries in {rows} of {_rows(of, seen)}, by {mean:.3g} on average{only}{most}"


@predicate("table.entries_moved")
def _(it: str, network: int, twin: int) -> str:
    return f"has every entry {abs(twin)} too {'large' if twin > 0 else 'small'}"


@predicate("table.entries_scaled")
def _(it: str, network: int, twin: int) -> str:
    return (
        "takes its entries with the sign flipped"
        if twin < 0
        else f"takes {twin} for 1.0 where {it}'s entries have {network}"
    )


@predicate("table.row_order")
def _(it: str, network: str, twin: str) -> str:
    return f"has the outputs of a row {_ORDERS[twin]}"


@sentence("table.cells")
def _(taps: tuple[tuple[int, tuple[int, ...]], ...]) -> str:
    return ", ".join(f"only where tap {_TAPS[axis]} is in bin {few(bins)}" for axis, bins in taps)


# ---- blocks and sums ---------------------------------------------------------------------------------


@predicate("table.block")
def _(it: str, network: tuple[int, int, int], twin: tuple[int, int, int]) -> str:
    def block(upscale: int, channels: int, rotation: int) -> str:
        return f"blocks of {upscale}x{upscale} in {channels} channels, rotation {rotation}"

    return f"writes {block(*twin)} where {it} writes {block(*network)}"


@predicate("table.block_order")
def _(it: str, network: str, twin: str) -> str:
    return f"writes the block {_ORDERS[twin]}"


@predicate("table.block_moved")
def _(it: str, network: str, twin: tuple[int, ...]) -> str:
    moved = sum(k != v for k, v in enumerate(twin))
    return f"writes the outputs of a row in another order: {moved} of {len(twin)} elsewhere"


@predicate("table.summed")
def _(it: str, network: int, twin: int, name: str, rotation: str = "") -> str:
    what = f"rotation {rotation} of {name or 'every branch'}" if rotation else name
    return f"counts {what} twice" if twin else f"leaves out {what}"


@predicate("table.left_out")
def _(it: str, names: tuple[str, ...], network: Any, twin: Any) -> str:
    return f"leaves out {', '.join(names)}"


# ---- 8 bit -------------------------------------------------------------------------------------------


@predicate("table.requant_step")
def _(it: str, step: str, network: tuple[float, ...], twin: tuple[float, ...]) -> str:
    verb = _VERBS.get(step, step)
    ours, theirs = (", ".join(f"{float(v):g}" for v in values) for values in (network, twin))
    return f"{verb} {theirs} where {it} {verb} {ours}, before it rounds to 8 bit"


@predicate("table.requant_added")
def _(it: str, step: str, network: None, twin: float) -> str:
    return f"{_VERBS[step]} {plain(twin)} before it rounds; {it} does not"


@predicate("table.requant")
def _(it: str, network: tuple[Any, ...], twin: tuple[Any, ...]) -> str:
    def steps(all_steps: tuple[Any, ...]) -> str:
        return ", ".join(" ".join(v if isinstance(v, str) else f"{v:g}" for v in step) for step in all_steps)

    return f"requantises by {steps(twin)} where {it} requantises by {steps(network)}"


# ---- judgements --------------------------------------------------------------------------------------


@sentence("table.values")
def _(count: int, elements: int, exact: bool) -> str:
    how = "exact" if exact else "one unit per entry"
    return f"{count} of {elements} values are not what the tables give ({how})"
