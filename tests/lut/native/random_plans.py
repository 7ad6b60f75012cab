"""Random small plans that together reach every feature of `twinnet.lut.plan`."""

from __future__ import annotations

import numpy as np

from twinnet.lut.plan import INPUT, Blend, Plan, Plane, Requant, Sample, Stage, Table, Term

GRIDS = [
    (17, 16),
    (9, 32),
    (5, 64),
    (3, 128),
    (2, 256),
    (16, 17),
    (33, 8),
    (7, 43),
    (2, 300),
    (129, 2),
    (257, 1),
]
"""(nodes, step)."""


def band_rows(nodes: int, near: int, width: int) -> tuple[np.ndarray, int]:
    """Index of a band, [b0][offset mod diameter].., rows in lexicographic order; and their number."""
    diameter = 2 * width + 1
    index = np.full((nodes, *[diameter] * near), -1, np.int64)
    count = 0
    for b0 in range(nodes):
        for others in np.ndindex(*[nodes] * near):
            away = [b - b0 for b in others]
            if all(abs(a) <= width for a in away):
                index[(b0, *[a % diameter for a in away])] = count
                count += 1
    return index, count


def random_table(rng: np.random.Generator, axes: int, payload: int, banded: bool) -> Table:
    grids = [g for g in GRIDS if g[0] ** axes * payload <= 2_000_000]
    if banded:
        grids = [g for g in grids if g[0] in (9, 17, 5, 33)]
    nodes, step = grids[rng.integers(len(grids))]
    entries = int(rng.choice([127, 128, 20, 0], p=[0.5, 0.3, 0.15, 0.05]))
    draw = lambda rows: rng.integers(-entries, min(entries, 127) + 1, (rows, payload)).astype(np.int8)  # noqa: E731
    if not banded:
        return Table(draw(nodes**axes), axes, nodes, step)
    near, width = int(rng.integers(1, axes)), int(rng.integers(1, 4))
    thin = int(rng.choice([t for t in (2, 4, 8) if (nodes - 1) % t == 0]))
    index, rows = band_rows(nodes, near, width)
    values, coarse = draw(rows * nodes ** (axes - 1 - near)), draw(((nodes - 1) // thin + 1) ** axes)
    return Table(values, axes, nodes, step, near=near, width=width, thin=thin, index=index, coarse=coarse)


def random_sample(rng: np.random.Generator, axes: int, planes: list[Plane], reach: int) -> Sample:
    weighted = rng.random() < 0.3
    count = int(rng.integers(1, 10)) if weighted else axes
    offsets = tuple((int(y), int(x)) for y, x in rng.integers(-reach, reach + 1, (count, 2)))
    chosen = (
        tuple(planes[i] for i in rng.integers(len(planes), size=count))
        if rng.random() < 0.3
        else (planes[0],)
    )
    padding = "reflect" if rng.random() < 0.4 else "edge"
    value_bits = int(rng.integers(0, 9)) if weighted or rng.random() < 0.2 else 0
    if not weighted:
        return Sample(chosen, offsets, padding, None, 0, value_bits)
    bits = int(rng.integers(value_bits, 18))
    weights = []
    for _ in range(axes):
        cuts = np.sort(rng.integers(0, (1 << bits) + 1, count - 1))
        weights.append(tuple(int(w) for w in np.diff([0, *cuts, 1 << bits])))
    return Sample(chosen, offsets, padding, tuple(weights), bits, value_bits)


def random_requant(rng: np.random.Generator, lookups: int) -> Requant:
    kind = rng.integers(5)
    if kind == 0:
        return Requant("centred", (("div", lookups), ("add", 127), ("clip", 0, 255), ("round",)))
    if kind == 1:
        return Requant("direct", (("clip", 0, 255), ("round",)))
    if kind == 2:
        return Requant("through one", (("div", 255), ("clip", 0, 1), ("mul", 255), ("round",)))
    if kind == 3:
        return Requant("odd", (("mul", 1.7), ("add", 100.25), ("clip", 3, 251.5), ("round",)))
    return Requant("divided", (("div", 4), ("div", 3), ("clip", 0, 255), ("round",)))


def random_plan(seed: int) -> Plan:
    """One to three stages; every later stage reads from the ones before."""
    rng = np.random.default_rng(seed)
    tables: dict[str, Table] = {}
    stages: list[Stage] = []
    planes = {1: [Plane(INPUT)]}
    scale = 1
    for number in range(int(rng.integers(1, 4))):
        scale = int(rng.choice(list(planes)))
        cell = int(rng.choice([c for c in (1, 2, 3) if scale % c == 0]))
        upscale = int(rng.choice([1, 1, 2, 3, 4, 5])) if number else int(rng.choice([1, 2, 2, 3, 4]))
        channels = int(rng.choice([1, 1, 1, 2, 3, 17 if upscale == 1 else 1]))
        payload = channels * upscale**2
        terms = []
        for t in range(int(rng.choice([1, 2, 3, 4, 5]))):
            axes = int(rng.choice([1, 2, 3, 4, 4, 4, 5], p=[0.05, 0.15, 0.15, 0.2, 0.2, 0.2, 0.05]))
            banded = axes in (2, 3, 4) and rng.random() < 0.3
            name = f"t{number}_{t}"
            tables[name] = random_table(rng, axes, payload, banded)
            sample = random_sample(rng, axes, planes[scale], int(rng.choice([1, 3, 9])))
            blend = None
            if rng.random() < 0.2:
                bits = int(rng.integers(1, 17))
                gains = tuple(int(g) for g in rng.integers(0, (1 << bits) + 1, axes))
                blend = Blend((planes[scale][int(rng.integers(len(planes[scale])))],), gains, bits)
            linear = not banded and axes * (tables[name].step << sample.value_bits).bit_length() < 38
            linear = linear and rng.random() < 0.15
            slip = axes == 4 and not banded and not linear and rng.random() < 0.3
            full = rng.random() < 0.6
            rotations = (
                (0, 1, 2, 3) if full else tuple(int(r) for r in rng.permutation(4)[: rng.integers(1, 5)])
            )
            terms.append(
                Term(
                    sample, name, group=f"in_c{t % 2}", branch=f"b{t}", rotations=rotations, blend=blend,
                    interpolation="multilinear" if linear else "simplex", compat="srlut-2021" if slip else "",
                )
            )  # fmt: skip
        lookups = sum(len(term.rotations) for term in terms)
        stages.append(
            Stage(f"stage{number}", tuple(terms), random_requant(rng, lookups), channels, upscale, cell)
        )
        scale = scale // cell * upscale
        if scale <= 6:
            planes.setdefault(scale, []).extend(Plane(f"stage{number}", c) for c in range(channels))
        else:
            break
    return Plan.build(stages, tables)


def cornered_plan(seed: int) -> Plan:
    """Like the nets that ship: four pixels per table, steps of 16 or 32, dense or banded, cells and cascades."""
    rng = np.random.default_rng(seed)
    tables: dict[str, Table] = {}
    stages: list[Stage] = []
    source, scale = Plane(INPUT), 1
    for number in range(int(rng.integers(1, 4))):
        cell = 2 if scale % 2 == 0 and rng.random() < 0.7 else 1
        upscale = int(rng.choice([1, 2, 2, 3, 4])) if scale // cell * 4 <= 8 else int(rng.choice([1, 2]))
        channels = int(rng.choice([1, 2, 3, 4, 11])) if upscale == 1 and rng.random() < 0.5 else 1
        payload, terms = channels * upscale**2, []
        for t in range(int(rng.integers(1, 6))):
            banded = rng.random() < 0.6
            nodes, step = ((17, 16), (9, 32))[int(rng.random() < 0.5 or (not banded and payload > 1))]
            name = f"t{number}_{t}"
            draw = lambda rows, n=payload: rng.integers(-128, 128, (rows, n)).astype(np.int8)  # noqa: E731
            if banded:
                near, width = int(rng.choice([1, 2, 3, 3, 3])), int(rng.choice([1, 2, 2, 3]))
                index, rows = band_rows(nodes, near, width)
                tables[name] = Table(
                    draw(rows * nodes ** (3 - near)), 4, nodes, step, near=near, width=width, thin=2,
                    index=index, coarse=draw(((nodes - 1) // 2 + 1) ** 4),
                )  # fmt: skip
            else:
                tables[name] = Table(draw(nodes**4), 4, nodes, step)
            offsets = tuple((int(y), int(x)) for y, x in rng.integers(-3, 4, (4, 2)))
            padding = "reflect" if rng.random() < 0.3 else "edge"
            sample = Sample((source,), offsets, padding, None, 0, int(rng.random() < 0.1))
            rotations = (0, 1, 2, 3) if rng.random() < 0.7 else tuple(int(r) for r in rng.integers(0, 4, 3))
            terms.append(
                Term(sample, name, group=f"in_c{t % 2}", branch=f"b{t}", rotations=tuple(set(rotations)))
            )
        lookups = sum(len(term.rotations) for term in terms)
        stages.append(
            Stage(f"stage{number}", tuple(terms), random_requant(rng, lookups), channels, upscale, cell)
        )
        source, scale = Plane(f"stage{number}", int(rng.integers(channels))), scale // cell * upscale
    return Plan.build(stages, tables)


def random_image(seed: int, rows: int, columns: int) -> np.ndarray:
    """Smooth ramps, flat areas, noise and extremes in one picture, so that ties, bands and ends all occur."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:rows, :columns]
    image = (128 + 100 * np.sin(y / 3.0 + seed) * np.cos(x / 4.0)).astype(np.int64)
    noisy = rng.random((rows, columns)) < 0.3
    image = np.where(noisy, rng.integers(0, 256, (rows, columns)), image)
    ends = rng.random((rows, columns))
    image = np.where(ends < 0.08, 0, np.where(ends > 0.92, 255, image))
    image[: rows // 4] = image[: rows // 4] // 16 * 16
    return image.astype(np.uint8)
