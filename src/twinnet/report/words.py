"""Sentences of a result, shared by all ways of showing it."""

from __future__ import annotations

import math
from collections import Counter

from twinnet.engines import known_engine
from twinnet.report.figures import NBSP, clean, count, figure, grouped, percent, times
from twinnet.report.sentences import words
from twinnet.result import Finding, Guard, InputsInfo, PairResult, Result, SideInfo, TaskMetric, coded

__all__ = [
    "also_words",
    "broken_rules",
    "differs",
    "guard_words",
    "inherited_words",
    "inputs_words",
    "known_words",
    "metric_words",
    "pairs_words",
    "place_words",
    "reason_words",
    "recalibrate_words",
    "share_words",
    "side_words",
    "takes_network",
    "total_time",
    "verdict_words",
    "weak_words",
    "worst_output",
    "worst_ratio",
]

# An output further off than this many times the network's own rounding does not agree, whoever is to blame.
_CLEARLY = 16.0


def side_words(side: SideInfo) -> str:
    """One side of the comparison.

    >>> side_words(SideInfo("detector.build", "torch", format="PyTorch", parameters=12))
    'detector.build (PyTorch, 12\\xa0parameters)'
    """
    version = ".".join(side.version.split("+")[0].split(".")[:2])
    engine = f"{side.engine} {version}".strip()
    options = side.spec.partition("@ssh://")[0].partition("?")[2].partition(":")[0].replace("&", " ")
    named_by_engine = side.name in ("", side.engine, side.spec)
    head = engine if named_by_engine else side.name
    details = [] if named_by_engine or not side.format else [side.format]
    # What runs the network as it is need not be named.
    if not named_by_engine and side.engine not in ("", side.name) and not takes_network(side):
        details.append(f"on {engine}")
    elif not named_by_engine and not side.format and side.engine:
        details.append(engine)
    details += [text for text in (options, side.description) if text]
    if side.parameters is not None:
        details.append(_parameters(side.parameters))
    if side.precision not in ("", "float32") and side.precision not in " ".join(details):
        details.append(side.precision)
    return clean(f"{head} ({', '.join(details)})" if details else head)


def takes_network(side: SideInfo) -> bool:
    """Whether a side runs the network as it is, converted to nothing.

    >>> takes_network(SideInfo("net", "torch")), takes_network(SideInfo("net", "onnxruntime"))
    (True, False)
    """
    engine = known_engine(side.engine)
    return engine is not None and engine.takes == "network"


def _parameters(number: int) -> str:
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g}{NBSP}{unit}{NBSP}parameters"
    return count(number, "parameter")


def inputs_words(inputs: InputsInfo) -> str:
    """What was fed.

    >>> inputs_words(InputsInfo(12, "photos/", False, {"x": "1x3x360x640"}, "RGB [0,1]", "12 real images"))
    '12 real images, RGB [0,1] 1x3x360x640'
    """
    kind = "synthetic" if inputs.synthetic else "real"
    what = (
        inputs.description
        or f"{grouped(inputs.samples)}{NBSP}{kind} sample{'s' if inputs.samples != 1 else ''}"
    )
    if inputs.synthetic and "synthetic" not in what:
        what = f"{what} (synthetic)"
    shapes = [(name, dims) for name, dims in inputs.shapes.items() if dims not in what]
    if len(inputs.shapes) == 1 and shapes:
        shape = shapes[0][1]
    else:
        shape = ", ".join(f"{name} {dims}" for name, dims in shapes[:4])
        shape += f", + {len(shapes) - 4} more" if len(shapes) > 4 else ""
    prepared = " ".join(part for part in (inputs.preprocessing, shape) if part and part not in what)
    return clean(", ".join(part for part in (what, prepared) if part))


def pairs_words(result: Result) -> str:
    """How much of the network was compared."""
    coverage = result.coverage
    text = (
        f"{grouped(coverage.paired)} of {count(coverage.sites, 'site')} matched ({percent(coverage.share)})"
    )
    if missing := max(coverage.sites - coverage.paired, len(coverage.unmatched)):
        text += f", {grouped(missing)} listed with --unmatched"
    said = any(guard.name == "coverage" for guard in result.guards)
    return text + (f"; {clean(words(coverage.note))}" if coverage.note is not None and not said else "")


def worst_output(result: Result) -> PairResult | None:
    """The output that decides: one that differs, then the largest ratio, then the largest difference."""
    if not result.outputs:
        return None
    return max(
        result.outputs, key=lambda p: (differs(result, p), _rank(p.ratio), _rank(p.difference.max_abs))
    )


def differs(result: Result, output: PairResult) -> bool:
    """Whether an output is not what the network gives, be the error born in its last segment or inherited."""
    if output.status == "fail" or (output.ratio is not None and output.ratio > _CLEARLY):
        return True
    from twinnet.judge.aggregate import visible
    from twinnet.precision import coarser, unit_of

    precision = coarser(result.network.precision, result.twin.precision)
    return visible(output.difference, unit_of(precision))


def _rank(value: float | None) -> float:
    return -1.0 if value is None else math.inf if math.isnan(value) else value


def worst_ratio(result: Result) -> float | None:
    """The largest error of any finding, output or pair, in units of what may be there."""
    shown = (*result.findings, *result.outputs, *result.pairs)
    if result.known and result.verdict == "PASS":  # what is known is no part of a PASS
        shown = tuple(p for p in result.pairs if p.status != "fail")
    ratios = [x.ratio for x in shown if x.ratio is not None]
    return max(ratios, key=_rank) if ratios else None


def verdict_words(result: Result) -> str:
    """The verdict's sentence: how large the difference is, in units that mean something."""
    if result.verdict == "ERROR":
        stage = f" at the stage '{clean(result.stage)}'" if result.stage else ""
        return f"the check could not run{stage}; this says nothing about the numbers"
    output = worst_output(result)
    if result.verdict == "PASS":
        return _pass_words(result, output)
    if broken := broken_rules(result):
        return _rule_words(broken)
    if output is not None and differs(result, output):
        return _output_words(result, output)
    return _inner_words(result, output)


def broken_rules(result: Result) -> dict[str, list[PairResult]]:
    """The rules of a tolerance file that are broken, and where; empty if a site or an output has no other reason."""
    failing = [p for p in result.pairs if p.status == "fail"]
    if result.tolerance in ("", "automatic") or any(
        p.rule == "structure" for p in (*failing, *result.outputs)
    ):
        return {}
    found: dict[str, list[PairResult]] = {}
    for pair in failing:
        if pair.reason is not None and pair.reason.code.startswith("tolerance."):
            found.setdefault(pair.rule, []).append(pair)
    return found if any(": " in rule for rule in found) else {}


def _rule_words(broken: dict[str, list[PairResult]]) -> str:
    rule, pairs = next(iter(broken.items()))
    more = f"; {count(len(broken) - 1, 'more rule')} broken" if len(broken) > 1 else ""
    first = f"{clean(pairs[0].site.label)} {clean(words(pairs[0].reason))}"
    where = f", first at {first}" if len(pairs) > 1 else f": {first}"
    return f"the rule '{clean(rule)}' is broken at {count(len(pairs), 'site')}{where}{more}"


def recalibrate_words(result: Result) -> str:
    """What to do about several ranges that are too small: one mistake of calibration; empty for fewer than two."""
    shares = {
        clean(f.site.label): float(f.reason.params.get("clipped") or 0.0)
        for f in result.findings
        if coded(f.reason, "born.beyond_steps") and f.reason is not None
        if (f.cause is not None and coded(f.cause.fact, "steps.range")) or f.reason.params.get("clipped")
    }
    shares = {name: share for name, share in shares.items() if share > 0}
    if len(shares) < 2:
        return ""
    worst = sorted(shares, key=lambda name: -shares[name])
    named = ", ".join(f"{name} {percent(shares[name])}" for name in worst[:5])
    more = f" and {len(worst) - 5} more" if len(worst) > 5 else ""
    most = percent(shares[worst[0]])
    return f"recalibrate: these ranges clip up to {most} of the network's values: {named}{more}"


def known_words(result: Result) -> str:
    """The failures that the baseline had, each with its size and cause; empty without any."""
    named = {f.site.tensor: f for f in result.known_findings}
    said = [
        f"{place_words(f)}, {times(f.ratio)} its noise floor{f': {clean(f.cause.sentence)}' if f.cause else ''}"
        for f in named.values()
    ]
    also = {site.tensor for f in named.values() for site in f.also}
    said += [clean(name) for name in result.known if name not in named and name not in also]
    return "; ".join(said)


def _pass_words(result: Result, output: PairResult | None) -> str:
    if result.known:
        failures = count(len(result.known), "failure is known", "failures are known")
        text = f"nothing new: {failures} from the baseline and not counted"
        if output is not None and differs(result, output):
            text += f"; the output still differs by {figure(output.difference.max_abs)} because of that"
        return text
    if output is None:
        verb = "agrees" if len(result.pairs) == 1 else "agree"
        text = f"{count(len(result.pairs), 'pair')} {verb}" if result.pairs else "no difference was found"
    else:
        noun = "outputs agree" if len(result.outputs) > 1 else "output agrees"
        size = figure(output.difference.max_abs)
        same = output.difference.differing == 0 and output.difference.max_abs == 0
        text = (
            f"{noun}: no element differs"
            if same
            else f"{noun}: largest difference {size}{_small(result, output)}"
        )
    return text


def _small(result: Result, output: PairResult) -> str:
    """How little an agreeing output differs."""
    if result.tolerance not in ("", "automatic"):
        return f", within the stated tolerance ({clean(result.tolerance)})"
    if output.ratio is None:
        return ""
    from twinnet.precision import coarser

    precision = clean(coarser(result.network.precision, result.twin.precision))
    if output.ratio <= 1:
        return f", {times(output.ratio)} what {precision} rounding can explain"
    return f", {times(output.ratio)} the network's own {precision} rounding"


def _output_words(result: Result, output: PairResult) -> str:
    name = "output" if len(result.outputs) == 1 else f"output '{clean(output.site.own_name)}'"
    difference = output.difference
    if difference.nonfinite_mismatch:
        places = count(difference.nonfinite_mismatch, "element")
        return f"{name} has NaN or Inf in other places than the network ({places})"
    if output.rule == "structure" or (output.reason is not None and not difference.elements):
        return f"{name}: {clean(words(output.reason))}"
    if output.status == "fail" and output.reason is not None and result.tolerance not in ("", "automatic"):
        return f"{name} breaks the stated tolerance: {clean(words(output.reason))}"
    ratio = output.ratio
    if ratio is None and output.floor:
        ratio = difference.max_abs / output.floor
    if ratio is None or ratio <= 1:
        return f"{name} differs by {figure(difference.max_abs)}"
    explained = f"{times(ratio)} what {clean(result.twin.precision)} rounding can explain"
    return f"{name} differs by {figure(difference.max_abs)}, which is {explained}"


def _inner_words(result: Result, output: PairResult | None) -> str:
    sites = count(len(result.findings) or result.failing, "inner site creates", "inner sites create")
    ratio = max((f.ratio for f in result.findings), key=_rank, default=None)
    size = f" (worst: {times(ratio)} its noise floor)" if ratio is not None and math.isfinite(ratio) else ""
    inner = f"{sites} more error than {clean(result.twin.precision)} rounding can explain{size}"
    if output is None:
        return inner
    noun = "the outputs still agree" if len(result.outputs) > 1 else "the output still agrees"
    return f"{noun} (largest difference {figure(output.difference.max_abs)}), but {inner}"


def share_words(finding: Finding) -> str:
    """What a finding accounts for: its share of the output error where known, else its size, if any."""
    if finding.born_share is not None:
        return f"{percent(finding.born_share)} of the output error"
    if not math.isfinite(finding.ratio):
        return f"creates {figure(finding.born)} where nothing may differ" if finding.born else ""
    return f"creates {figure(finding.born)}, {times(finding.ratio)} its noise floor"


def place_words(finding: Finding) -> str:
    """Where a finding is born: the guilty layer where the cause tells which, and the segment it stands in.

    >>> from twinnet.result import Cause, fact
    >>> from twinnet.site import Site
    >>> norm, conv = Site("norm", op="batch_norm", module="0.norm"), Site("conv", op="conv2d", module="0.conv")
    >>> cause = Cause("padding", fact("padding.mode", network="zeros", twin="edge"), 1.0, conv)
    >>> found = Finding(norm, norm, 1.0, 0.0, 9.0, 1.0, cause=cause, segment=(norm.label, conv.label))
    >>> place_words(found)
    '0.conv conv2d (in a segment of 2 layers that ends in 0.norm batch_norm)'
    """
    place, site = clean(finding.place.label), finding.site
    if len(finding.segment) < 2:
        return place
    if finding.place is site:
        return f"{place} (a segment of {len(finding.segment)} layers)"
    return f"{place} (in a segment of {len(finding.segment)} layers that ends in {clean(site.label)})"


def also_words(finding: Finding) -> str:
    """Why a finding is one in several places."""
    return clean(words(finding.tie)) or "it is the same fault"


def finding_notes(finding: Finding) -> list[str]:
    """What else is known about a finding: whether its segment alone shows it, and where else it is."""
    notes = []
    if finding.also:
        what = also_words(finding)
        notes.append(f"the same in {clean(', '.join(s.label for s in finding.also))}: {what}")
    if finding.merged:
        together = clean(", ".join(finding.merged))
        notes.append(
            f"only together explain these {percent(finding.explained)} of the output error: {together}"
        )
    if finding.confirmation is not None:
        yes = {True: "confirmed", False: "not confirmed", None: "not confirmed"}[finding.confirmed]
        notes.append(f"{yes}: {clean(words(finding.confirmation))}")
    return notes


def reason_words(result: Result, finding: Finding) -> str:
    """Why a finding fails, where its size alone does not say it."""
    stated = result.tolerance not in ("", "automatic")
    if stated and (finding.reason is None or not finding.reason.code.startswith("tolerance.")):
        return (
            ""
            if finding.cause is not None
            else "it creates more error than rounding can explain; no rule applies to it"
        )
    automatic = not stated and math.isfinite(finding.ratio)
    return "" if automatic and coded(finding.reason, "born.too_large") else clean(words(finding.reason))


def inherited_words(result: Result) -> str:
    """What the other sites do: inherit, agree, or say nothing."""
    parts = []
    inherited = max((f.inherited_by for f in result.findings), default=0)
    if inherited:
        reach = "up to " if len(result.findings) > 1 else ""
        parts.append(f"inherited by {reach}{count(inherited, 'later site')}")
    seen = Counter(pair.status for pair in result.pairs)
    # A site that only passes an error on passes its own test; it does not agree with the network for that.
    agreeing = seen["pass"] + seen["fail"] - max(result.failing, seen["fail"])
    if result.judged_by == "tables":
        exact = count(seen["pass"], "site holds", "sites hold")
        parts.append(f"{exact} exactly what the tables give")
        if result.contributors:
            worst = result.contributors[0]
            parts.append(
                f"tables approximate the network worst at {clean(worst.site.tensor)}: {figure(worst.error)} of 255"
            )
    elif agreeing > 0:
        within = "its quantisation steps" if result.twin.precision == "int8" else "the noise floor"
        parts.append(f"{count(agreeing, 'site agrees', 'sites agree')} within {within}")
    if seen["excused"]:
        parts.append(f"{grouped(seen['excused'])} excused")
    if seen["untested"]:
        parts.append(f"{grouped(seen['untested'])} not tested by this data")
    if seen["not judged"]:
        parts.append(f"{grouped(seen['not judged'])} not judged")
    return "; ".join(parts)


def weak_words(result: Result) -> str:
    """Why agreement proves little here; empty where it proves what it says."""
    if result.evidence != "weak":
        return ""
    names = [guard.name for guard in result.guards if guard.weakens]
    why = f" ({', '.join(dict.fromkeys(names))})" if names else ""
    return f"weak: this data could not have shown a fault{why}, so agreement proves little"


def guard_words(guard: Guard) -> str:
    """One guard's line."""
    return clean(guard.message if guard.name == "note" else f"{guard.name}: {guard.message}")


def metric_words(metric: TaskMetric) -> str:
    """The user's own measure on both sides."""
    parts = [
        f"{side} {value:.4g}"
        for side, value in (
            ("network", metric.network),
            ("twin", metric.twin),
            ("between them", metric.between),
        )
        if value is not None
    ]
    return f"{clean(metric.name)}: {', '.join(parts) or 'not available'}"


def total_time(result: Result) -> float | None:
    """Seconds the check took; None where no time was taken."""
    if not result.timings:
        return None
    return result.timings.get("total", sum(result.timings.values()))
