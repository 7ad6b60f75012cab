"""The card of a model: what it is, what it was made from, what it reaches, where it fails."""

from __future__ import annotations

from typing import Any

from tools.shipped_tables.board_markdown import board_table, by_metric, markdown
from tools.shipped_tables.recipes import TERMS
from twinnet.models.evaluate import board_of
from twinnet.restore.results import ratio

__all__ = ["card"]

_FAILS = {
    "sr": "Regular fine texture (fences, cloth, far bricks) is not made up where the small image has lost it, and may "
    "come out smooth or at a wrong angle. What the small image shows of noise and of JPEG blocks is taken for detail. "
    "Inputs are expected to be shrunk by a bicubic filter; sharper or softer ones come out over- or under-sharpened.",
    "denoise": "Made for Gaussian noise of this strength on gray or single planes, rounded to 8 bit: weaker noise is "
    "smoothed too much, stronger noise stays in part, and noise that is not independent from pixel to pixel stays. "
    "Colour images are denoised plane by plane, which a model that sees all planes at once would do better.",
    "deblock": "Made for JPEGs of this quality, plane by plane. The tables do not know where the blocks are: cropped "
    "JPEGs are restored as well, but what looks like an edge of a block is smoothed wherever it is. Much better JPEGs "
    "lose detail, worse ones keep some of their blocks.",
}


def card(log: dict[str, Any], board: dict[str, Any], facts: dict[str, Any]) -> str:
    """The card as markdown, from the log of the fit, the board of its task and what was measured of the tables."""
    cases = facts["cases"]
    name, task = log["name"], log["name"].partition("-")[0]
    own = next(row for row in board["rows"] if row["name"] == name)
    lines = [
        f"# {name}",
        "",
        f"Lookup tables of int8, {facts['disk']:,} bytes on disk ({log['bytes']:,} of them entries), "
        f"{log['lookups']} lookups per input pixel and plane. "
        "Fitted by least squares, stage by stage, without a network"
        + (", then all stages tuned together." if log.get("tuning") else "."),
        "",
        f"- made in {log['cpu_seconds']:.0f} s of CPU ({log['seconds']:.0f} s on the clock of a shared machine); "
        f"again from twinnet's repository with `python -m tools.shipped_tables.make --force {name}`",
        f"- training data: {'; '.join(TERMS)}",
        "- seeds: degradations are drawn with the number of each image, crops for tuning with 0; a fit is not random",
        "- selection: validation part of CID22 (21 images, CC BY-SA 4.0); no test set was used for it",
        f"- held-out images, all planes, as fitted: {log['validation_psnr']:.2f} dB; without tables "
        f"{log['validation_plain']:.2f} dB",
        "- terms of the tables: CC BY-SA 4.0, with attribution to Cloudinary (CID22)",
        "- log of the fit: `log.json` beside this card; scores of all models: "
        f"`tools/shipped_tables/scores.json` ({board_of(name)}) in twinnet's repository",
        "",
        "## Recipe",
        "",
        *_recipe(log),
        "",
        "## Scores",
        "",
        f"Task: {board['task']}, all images of every test set, as deployed.",
        "",
    ]
    for metric in by_metric(board):
        lines += [f"**{metric}**", "", *markdown(board_table(board, [metric], costs=metric == "PSNR")), ""]
    lines += ["## Flat areas", "", _flat(facts["flatness"]), ""]
    lines += ["## Speed", "", *_speed(own, board), "", "## Known failures", "", _FAILS[task], ""]
    lines += _worst(own, board)
    if cases:
        plain = board["rows"][0]["name"]
        lines += [
            "", "Inputs of other kinds, PSNR in dB:", "",
            *markdown([["input", "tables", plain, "gain"],
                       *([c["what"], f"{c['tables']:.2f}", f"{c['plain']:.2f}", f"{c['tables'] - c['plain']:+.2f}"]
                         for c in cases)]),
        ]  # fmt: skip
    return "\n".join([*lines, ""])


def _recipe(log: dict[str, Any]) -> list[str]:
    rows = [
        [
            "stage",
            "patterns",
            "reads",
            "output per site",
            "cell",
            "nodes",
            "band",
            "error on validation",
            "CPU s",
        ]
    ]
    for stage, report in zip(log["recipe"]["stages"], log["stages"]):
        patterns = stage["patterns"]
        words = patterns if isinstance(patterns, str) else " ".join(str(p).replace(" ", "") for p in patterns)
        bits = stage["interval"] if isinstance(stage["interval"], list) else [stage["interval"]]
        nodes = " ".join(str((256 >> b) + 1) for b in bits)
        rows.append(
            [report["name"], words, " ".join(stage.get("sources", ())) or "the stage before",
             f"{stage['upscale']}x{stage['upscale']}", str(stage["cell"]), nodes, str(stage["band"] or ""),
             f"{report['error']:.3f}", f"{report['cpu_seconds']:.0f}"]
        )  # fmt: skip
    rest = {key: value for key, value in log["recipe"].items() if key not in ("preset", "stages")}
    lines = [*markdown(rows), *(["", f"Other settings: {rest}"] if rest else [])]
    if log.get("tuning"):
        words = ", ".join(f"{key} {value}" for key, value in log["tuning"].items())
        gain = log["validation_psnr"] - log["validation_fitted"]
        lines += ["", f"Tuned together with Adam ({words}): {gain:+.3f} dB on the held-out images."]
    if "finishing" in log:
        lines += ["", *_finishing(log["finishing"])]
    return lines


def _finishing(steps: dict[str, str]) -> list[str]:
    words = []
    if "range" in steps:
        words.append(
            "Fitted to luma of 16..235; then read at other places and scaled, so that they work on 0..255 "
            "(`tools.shipped_tables.ranges`)."
        )
    words.append(
        "Diagonals corrected so that flat areas stay flat"
        + (", in every stage" if steps["flat"] == "every stage" else ", from end to end")
        + " (`twinnet.lut.flat`)."
    )
    return [" ".join(words)]


def _flat(found: dict[str, Any]) -> str:
    """What happens to areas of one grey."""
    if found["exact"] == 256:
        return "All 256 greys stay as they are, in every phase: run one by one."
    return (
        f"Areas of one grey stay even, run one by one: {found['exact']} of 256 greys stay as they are, the others "
        f"move by {found['moved']} level. Black stays {found['black']}, white {found['white']}."
    )


def _speed(own: dict[str, Any], board: dict[str, Any]) -> list[str]:
    if own["ratio"] is None:
        return ["Not measured."]
    return [
        f"{ratio(own['ratio'])} times MuLUT: the time to make an image of 768 x 512, over that of MuLUT's x4 tables "
        "(sdy, two stages) to make one of that size, in the same engine and the same run, one thread, CPU time."
    ]


def _worst(own: dict[str, Any], board: dict[str, Any]) -> list[str]:
    worst = own["worst"]
    if not worst:
        return []
    plain = board["rows"][0]["name"]
    return [
        f"The least is gained on {worst['image']}: {worst['score']:.2f} dB, {plain} {worst['plain']:.2f} dB. "
        f"The tables are behind on {worst['behind']} of {worst['images']} test images."
    ]
