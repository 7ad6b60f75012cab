"""`.lut.safetensors`: one self-describing file per table network.

Tensors are the int8 tables (and, for banded ones, `.coarse`), named as in the plan, and under `float/` the
float weights of learned samplers and residuals, so that a file can be fine-tuned. The index of a band follows
from its size and is left out; files that hold it as `.index` are read all the same. Everything else is
metadata: task, scale and origin as plain strings, and the whole plan as JSON, with taps, padding, grids,
interpolation, requantisation and compression.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.errors import UsageError
from twinnet.files import atomic_write
from twinnet.lut.band import band_index
from twinnet.lut.plan import Plan
from twinnet.lut.serial import plan_from_dict, plan_to_dict

if TYPE_CHECKING:
    from twinnet.lut.net import LutNet

__all__ = ["LutFile", "read", "save", "write"]

FORMAT, VERSION = "twinnet.lut", "1"


@dataclass(frozen=True, eq=False)
class LutFile:
    """The content of a `.lut.safetensors` file."""

    plan: Plan
    name: str = "lut"
    task: str = "sr"
    network: str = ""
    """SHA-256 of the network the tables were made from, if known."""
    notes: tuple[str, ...] = ()
    """Where the tables come from, and which conventions were stated or assumed."""
    floats: dict[str, np.ndarray] = field(default_factory=dict)
    """Float weights of samplers and residuals by module path."""
    config: str = ""
    """Text of the experiment's config the tables were made with, if any."""
    tuned: bool = False
    """Whether the entries were fine-tuned, so that they may differ from what the network gives."""

    @classmethod
    def of(cls, net: LutNet, notes: tuple[str, ...] = ()) -> LutFile:
        """The file of a network in table mode."""
        from twinnet.lut.exporter import network_hash, units
        from twinnet.lut.lowering import lower

        floats = {
            path: tensor.detach().cpu().numpy().astype(np.float32)
            for path, tensor in net.state_dict().items()
            if path.endswith((".sample.logits", ".residual.weight"))
        }
        trained = all(unit.body is not None for _, unit in units(net))
        return cls(lower(net), net.net_name, net.task, network_hash(net) if trained else "", notes, floats)

    def net(self) -> LutNet:
        """A torch network in table mode, for fine-tuning and comparison."""
        import torch

        from twinnet.lut.lowering import raise_plan

        net = raise_plan(self.plan, self.name, self.task)
        state = {path: torch.from_numpy(array) for path, array in self.floats.items()}
        with torch.no_grad():
            for path, tensor in state.items():
                try:
                    net.get_parameter(path).copy_(tensor)
                except (AttributeError, RuntimeError) as error:
                    raise UsageError(f"float tensor {path!r} does not belong to this network") from error
        return net


def save(net: LutNet, path: str | Path, notes: tuple[str, ...] = ()) -> Path:
    """Write a network in table mode to `path`, which should end in `.lut.safetensors`.

    >>> import tempfile
    >>> from twinnet.lut import export, load
    >>> from twinnet.restore.nets import srlut
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(export(srlut.build("V", scale=2, width=4)), Path(folder) / "v.lut.safetensors")
    ...     load(path, executor="reference")(np.zeros((3, 4), np.uint8)).shape
    (6, 8)
    """
    return write(LutFile.of(net, notes), path)


def write(content: LutFile, path: str | Path) -> Path:
    """Write under a temporary name, then rename: no partial file ever has the final name."""
    from safetensors.numpy import save

    target = Path(path)
    arrays: dict[str, np.ndarray] = {}
    for name, table in content.plan.tables.items():
        arrays[name] = np.ascontiguousarray(table.values)
        if table.banded:
            assert table.coarse is not None and table.index is not None
            arrays[f"{name}.coarse"] = np.ascontiguousarray(table.coarse)
            if not np.array_equal(table.index, band_index(table.nodes, table.near, table.width)):
                arrays[f"{name}.index"] = np.ascontiguousarray(table.index.astype(np.int32))
    arrays |= {f"float/{k}": np.ascontiguousarray(v) for k, v in content.floats.items()}
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "name": content.name,
        "task": content.task,
        "scale": str(content.plan.scale),
        "rounding": "C",
        "network": content.network,
        "notes": json.dumps(content.notes),
        "plan": json.dumps(plan_to_dict(content.plan), separators=(",", ":")),
    }
    if content.config:
        metadata["config"] = content.config
    if content.tuned:
        metadata["tuned"] = "yes"
    if not target.parent.is_dir():
        raise UsageError(f"no such folder: {target.parent}")
    return atomic_write(target, save(arrays, metadata))


def read(path: str | Path) -> LutFile:
    """Read and check a file; every defect is a `UsageError` that says what is wrong."""
    from safetensors import SafetensorError, safe_open

    source = Path(path)
    if not source.is_file():
        raise UsageError(f"no such file: {source}")
    try:
        with safe_open(str(source), framework="numpy") as opened:
            metadata: dict[str, str] = opened.metadata() or {}
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"{source} is not a readable safetensors file: {error}") from error
    if metadata.get("format") != FORMAT:
        raise UsageError(f"{source} holds no LUT network", hint="`twinnet lut import` reads published tables")
    if metadata.get("version") != VERSION:
        raise UsageError(
            f"{source} has format version {metadata.get('version')}; this twinnet reads {VERSION}"
        )
    try:
        content = _content(metadata, arrays)
    except UsageError as error:
        raise UsageError(f"{source}: {error.what}", hint=error.hint) from error
    if metadata.get("scale") != str(content.plan.scale):
        raise UsageError(f"{source} says x{metadata.get('scale')}, but its tables give x{content.plan.scale}")
    return content


def _content(metadata: dict[str, str], arrays: dict[str, np.ndarray]) -> LutFile:
    try:
        data: Any = json.loads(metadata["plan"])
        notes = tuple(str(note) for note in json.loads(metadata.get("notes", "[]")))
        known = {k for name in data["tables"] for k in (name, f"{name}.coarse", f"{name}.index")}
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"its description is damaged: {error!r}") from error
    floats = {}
    for name, array in arrays.items():
        if name.startswith("float/"):
            if array.dtype != np.float32 or not np.isfinite(array).all():
                raise UsageError(f"float tensor {name!r} is {array.dtype} or holds NaN or infinity")
            floats[name.removeprefix("float/")] = array
        elif name not in known:
            raise UsageError(f"tensor {name!r} belongs to no table")
        elif array.dtype != (np.int32 if name.endswith(".index") else np.int8):
            raise UsageError(f"table {name!r} is {array.dtype}, not int8", hint="deployed tables are int8")
    return LutFile(
        plan_from_dict(data, arrays),
        metadata.get("name", "lut"),
        metadata.get("task", "sr"),
        metadata.get("network", ""),
        notes,
        floats,
        metadata.get("config", ""),
        metadata.get("tuned", "") == "yes",
    )
