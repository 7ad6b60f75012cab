"""Seeds: what a check keeps of a finding so that a repro can be made from it later, without the user's code."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from twinnet.engines import known_engine
from twinnet.errors import UsageError
from twinnet.files import atomic_write, checked, read_json
from twinnet.pairing import IDENTITY, Transform
from twinnet.store import TensorFile, storable_dtype, write_tensors
from twinnet.trust import made_here, signature

if TYPE_CHECKING:
    import onnx

    from twinnet.result import Fact

__all__ = ["Link", "Place", "Runner", "Seed", "load_seeds", "save_seeds"]

SCHEMA = 1
FOLDER = "seeds"
LARGEST = 128 << 20
"""Limit for all seeds of a run together, in bytes; a finding that would exceed it gets no seed."""


@dataclass(frozen=True, slots=True)
class Link:
    """A value of the network's part and the value of the twin's part that must carry the same tensor."""

    network: str
    twin: str
    transform: Transform = IDENTITY


@dataclass(frozen=True, slots=True)
class Runner:
    """The engine that runs a side, and its options. `engine` is empty if the side cannot be run alone."""

    engine: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    version: str = ""

    def __str__(self) -> str:
        shown = (f"{k}={v}" for k, v in self.options.items() if k != "description")
        return " ".join([self.engine, self.version, *shown]).strip()


@dataclass(frozen=True, slots=True)
class Place:
    """Where the finding is in the network."""

    tensor: str
    label: str = ""
    module: str = ""
    source: str = ""
    layers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seed:
    """One finding, or one ERROR, ready to be made smaller.

    `kind` "live": both parts are ONNX models and the twin's can be run. "expected": the twin's part can be run, and is
    compared with stored values. "part": the same, but the twin's part is a file in its engine's own format: its bytes
    are `arrays["file"]`, its suffix and operators in `steps`. "stored": neither can be run alone; the values are all
    there is. "table": steps of a table network, described by `steps` and `arrays`. "error": an engine refuses `twin`.
    `inputs` are by the network's names and in its layout, as the twin had them; those of a "part" by its own.
    `quantised` means that the finding was judged by the steps that the twin declares; its repro is too.
    `links` begin with the inputs; `output` is the value that differs, `observed` what the twin made of it.
    """

    kind: Literal["live", "expected", "part", "stored", "table", "error"]
    place: Place
    network_side: Runner
    twin_side: Runner
    network: onnx.ModelProto | None = None
    twin: onnx.ModelProto | None = None
    links: tuple[Link, ...] = ()
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    output: str = ""
    observed: np.ndarray | None = None
    expected: np.ndarray | None = None
    allowed: np.ndarray | None = None
    unit: float = 2.0**-24
    limit: float = 4.0
    ratio: float = 0.0
    error: str = ""
    note: str = ""
    steps: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    starts: tuple[str, ...] = ()
    """What a seed from elsewhere would start; empty for one that was made here."""
    quantised: bool = False
    cause: Fact | None = None
    """The finding's cause; known only after the check, so it is not saved."""

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        arrays = [*self.inputs.values(), *self.arrays.values(), self.observed, self.expected, self.allowed]
        models = [m for m in {id(m): m for m in (self.network, self.twin)}.values() if m is not None]
        return sum(a.nbytes for a in arrays if a is not None) + sum(m.ByteSize() for m in models)


def save_seeds(folder: Path, seeds: Sequence[Seed]) -> None:
    """Save seeds in a run folder.

    A seed with tensors that cannot be stored (complex numbers in double precision) is left out: a check must not fail
    for lack of a repro.
    """
    home = folder / FOLDER
    storable = [s for s in seeds if all(storable_dtype(a.dtype) for a in _tensors(s).values())]
    for number, seed in enumerate(storable):
        _save(home / str(number), seed)


def _tensors(seed: Seed) -> dict[str, np.ndarray]:
    tensors = {f"input:{n}": np.asarray(a) for n, a in seed.inputs.items()}
    tensors |= {f"array:{n}": np.asarray(a) for n, a in seed.arrays.items()}
    for name in ("observed", "expected", "allowed"):
        array = getattr(seed, name)
        if array is not None:
            tensors[name] = np.asarray(array)
    return tensors


def _save(folder: Path, seed: Seed) -> None:
    write_tensors(folder / "tensors.safetensors", _tensors(seed))
    if seed.network is not None:
        atomic_write(folder / "network.onnx", seed.network.SerializeToString())
    if seed.twin is not None and seed.twin is not seed.network:
        atomic_write(folder / "twin.onnx", seed.twin.SerializeToString())
    plain = {
        name: getattr(seed, name)
        for name in ("kind", "output", "unit", "limit", "ratio", "error", "note", "steps", "quantised")
    }
    index = {
        "schema": SCHEMA,
        **plain,
        "ratio": repr(seed.ratio),
        "same_file": seed.twin is seed.network and seed.twin is not None,
        "place": asdict(seed.place),
        "network_side": asdict(seed.network_side),
        "twin_side": asdict(seed.twin_side),
        "links": [asdict(link) for link in seed.links],
    }
    if _started(index):
        index["signature"] = signature(_content(folder, index))
    # Written last: its presence means the seed is complete.
    atomic_write(folder / "seed.json", json.dumps(index, indent=1).encode())


def load_seeds(folder: str | Path) -> tuple[Seed, ...]:
    """The seeds of a run folder, in the order of the findings."""
    home = Path(folder) / FOLDER
    files = sorted(
        home.glob("*/seed.json"), key=lambda p: int(p.parent.name) if p.parent.name.isdigit() else 0
    )
    return tuple(_load(path) for path in files)


def _load(path: Path) -> Seed:
    folder = path.parent
    data, index, models = _read(path)
    tensors = TensorFile(folder / "tensors.safetensors")
    arrays = {name: np.array(tensors[name]) for name in tensors.keys()}  # noqa: SIM118 - not a mapping
    starts = _started(data)
    if starts and made_here(_content(folder, data), data.get("signature")):
        starts = ()
    return Seed(
        starts=starts,
        kind=index.kind,
        place=index.place,
        network_side=index.network_side,
        twin_side=index.twin_side,
        network=models["network"],
        twin=models["network"] if index.same_file else models["twin"],
        links=index.links,
        inputs={n.removeprefix("input:"): a for n, a in arrays.items() if n.startswith("input:")},
        output=index.output,
        observed=arrays.get("observed"),
        expected=arrays.get("expected"),
        allowed=arrays.get("allowed"),
        unit=index.unit,
        limit=index.limit,
        ratio=index.ratio,
        error=index.error,
        note=index.note,
        steps=index.steps,
        quantised=index.quantised,
        arrays={n.removeprefix("array:"): a for n, a in arrays.items() if n.startswith("array:")},
    )


@dataclass(frozen=True)
class _Index:
    """seed.json."""

    schema: int
    kind: Literal["live", "expected", "part", "stored", "table", "error"]
    place: Place
    network_side: Runner
    twin_side: Runner
    links: tuple[Link, ...]
    output: str
    unit: float
    limit: float
    ratio: float
    error: str
    note: str
    same_file: bool
    steps: dict[str, Any] = field(default_factory=dict)
    quantised: bool = False


def _started(index: Mapping[str, Any]) -> tuple[str, ...]:
    """What the sides of a seed start besides their engines."""
    steps = index.get("steps")
    sides = [index["network_side"], index["twin_side"]]
    sides += [steps.get("twin")] if isinstance(steps, dict) else []
    found: list[str] = []
    for side in sides:
        if isinstance(side, dict) and side.get("engine"):
            engine = known_engine(str(side["engine"]))
            options = side.get("options")
            found += (
                engine().starts(options if isinstance(options, dict) else {}) if engine is not None else ()
            )
    return tuple(dict.fromkeys(found))


def _content(folder: Path, index: Mapping[str, Any]) -> bytes:
    """What is signed: the seed and the files beside it."""
    digest = hashlib.sha256()
    told = {k: v for k, v in index.items() if k != "signature"}
    digest.update(json.dumps(json.loads(json.dumps(told)), sort_keys=True).encode())
    for name in ("network.onnx", "twin.onnx", "tensors.safetensors"):
        digest.update(name.encode())
        if (folder / name).is_file():
            with (folder / name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.digest()


def _read(path: Path) -> tuple[dict[str, Any], _Index, dict[str, onnx.ModelProto | None]]:
    """The index of a seed and the models beside it."""
    import onnx
    from google.protobuf.message import DecodeError

    what = f"cannot read the seed of a repro in {path.parent}"
    data = read_json(path, "seed of a repro")
    schema = data.get("schema") if isinstance(data, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise UsageError(f"{path} was written by a newer twinnet (schema {schema})")
    index = checked(_Index, data, what)
    if not (0 < index.unit < math.inf and 0 <= index.limit < math.inf):
        raise UsageError(f"{what}: unit and limit are not sizes")
    try:
        files = {name: path.parent / f"{name}.onnx" for name in ("network", "twin")}
        models = {
            n: onnx.load(str(f), load_external_data=False) if f.exists() else None for n, f in files.items()
        }
    except (OSError, ValueError, DecodeError) as error:
        raise UsageError(f"{what}: {error}") from None
    return data, index, models
