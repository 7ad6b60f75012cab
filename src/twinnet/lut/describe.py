"""Describe a table network, in words and as plain data."""

from __future__ import annotations

from typing import Any

from twinnet.lut.file import LutFile
from twinnet.lut.plan import Plan, Table, Term

__all__ = ["describe", "lines", "lookups"]


def lookups(plan: Plan) -> int:
    """Table lookups per input pixel and plane."""
    return sum(
        (plan.scales[stage.name] // stage.upscale) ** 2 * sum(len(term.rotations) for term in stage.terms)
        for stage in plan.stages
    )


def _compression(table: Table) -> str:
    if not table.banded:
        return "none"
    return f"{'xyzt'[: table.near + 1]}, half-width {table.width}, off-band step {table.step * table.thin}"


def _taps(term: Term) -> str:
    if term.sample.weights is not None:
        side = round(len(term.sample.offsets) ** 0.5)
        return f"{term.sample.axes} learned taps in {side}x{side}" + (" with residual" if term.blend else "")
    return " ".join(f"({dy},{dx})" for dy, dx in term.sample.offsets)


def describe(content: LutFile, disk: int | None = None) -> dict[str, Any]:
    """Everything `twinnet lut info` shows, as plain data. `disk` is the size of its file, if it has one."""
    plan = content.plan
    stages = []
    for stage in plan.stages:
        terms = []
        for term in stage.terms:
            table = plan.tables[term.table]
            terms.append(
                {
                    "table": term.table,
                    "taps": _taps(term),
                    "padding": term.sample.padding,
                    "rotations": len(term.rotations),
                    "nodes": table.nodes,
                    "step": table.step,
                    "last": table.last,
                    "interpolation": term.interpolation + (f" ({term.compat})" if term.compat else ""),
                    "outputs": table.payload,
                    "compression": _compression(table),
                    "bytes": table.nbytes,
                }
            )
        stages.append(
            {
                "name": stage.name,
                "upscale": stage.upscale,
                "cell": stage.cell,
                "channels": stage.channels,
                "requant": stage.requant.name,
                "terms": terms,
            }
        )
    return {
        "name": content.name,
        "task": content.task,
        "scale": plan.scale,
        "rounding": "C (deploy)",
        "lookups": lookups(plan),
        "bytes": sum(table.nbytes for table in plan.tables.values()),
        "disk": disk,
        "reach": plan.reach,
        "network": content.network or None,
        "tuned": content.tuned,
        "config": content.config or None,
        "notes": list(content.notes),
        "stages": stages,
    }


def lines(content: LutFile, disk: int | None = None) -> list[str]:
    """The same for people, one line per table."""
    facts = describe(content, disk)
    out = [
        f"network   {facts['name']}, {facts['task']} x{facts['scale']}, rounding {facts['rounding']}",
        f"tables    {len(content.plan.tables)}, {facts['bytes']:,} bytes of int8"
        + (f", {disk:,} on disk; " if disk is not None else "; ")
        + f"{facts['lookups']} lookups per pixel, looks {facts['reach']} pixels around",
    ]
    if facts["network"]:
        tuned = ", then fine-tuned" if content.tuned else ""
        out.append(f"made from {facts['network'][:16]} (SHA-256 of the network){tuned}")
    if content.config:
        out.append("config    of its experiment is stored in the file; --json prints it")
    for stage in facts["stages"]:
        cell = f", one site per {stage['cell']}x{stage['cell']} pixels" if stage["cell"] > 1 else ""
        out.append(
            f"{stage['name']}  x{stage['upscale']}{cell}, {stage['channels']} channel(s), {stage['requant']}"
        )
        for term in stage["terms"]:
            packed = "" if term["compression"] == "none" else f", compressed {term['compression']}"
            out.append(
                f"  {term['table']}  {term['taps']}, {term['padding']} padding, "
                f"{term['rotations']} rotations, {term['nodes']} nodes (last {term['last']}), "
                f"{term['interpolation']}, {term['outputs']} outputs{packed}"
            )
    return out + [f"note      {note}" for note in facts["notes"]]
