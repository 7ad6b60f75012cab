"""Export any network to ONNX, with a map back to the user's code.

torch.onnx keeps fx names on ONNX values, but later steps strip the metadata, so the map (value -> fx node -> module
path -> source line) is stored in a file beside the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.cache import cached_folder, content_key
from twinnet.errors import EngineError, MissingExtra, UsageError, failed, foreign_as
from twinnet.job import Job
from twinnet.network import ModuleNetwork, Network
from twinnet.network.content import exported_program, program_content
from twinnet.precision import UNITS
from twinnet.progress import quiet
from twinnet.signature import Signature, by_position

if TYPE_CHECKING:
    import onnx
    import torch

    from twinnet.layers import Graph
    from twinnet.onnx.network import OnnxNetwork

__all__ = ["OnnxArtefact", "Origin", "onnx_artefact"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an ONNX value comes from: the fx node, the module that made it, the line of the user's code."""

    fx: str = ""
    module: str = ""
    call: int = 0
    source: str = ""


@dataclass
class OnnxArtefact:
    """An ONNX model ready for an engine. `input_names` maps the network's input names to the model's."""

    network: OnnxNetwork
    origin: Mapping[str, Origin] = field(default_factory=dict)
    input_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def model(self) -> onnx.ModelProto:
        return self.network.model

    @property
    def path(self) -> Path | None:
        return self.network.path

    @property
    def size(self) -> int:
        """Bytes of the model and of the files beside it."""
        return self.network.model.ByteSize() + sum(file.stat().st_size for file in self.network.external)

    @property
    def base_dir(self) -> Path | None:
        return self.network.base_dir

    @property
    def signature(self) -> Signature:
        return self.network.signature

    @cached_property
    def graph(self) -> Graph:
        """The canonical layers of the model."""
        from twinnet.onnx.read import read_onnx

        return read_onnx(self.model, weights=self.network.weights())

    @property
    def provenance(self) -> dict[str, str] | None:
        """Maps values of the model to those of the original network; None if the names are the same."""
        if not any(o.fx for o in self.origin.values()):
            return None
        return {name: origin.fx for name, origin in self.origin.items() if origin.fx}

    @property
    def inputs(self) -> dict[str, str]:
        """Names in a sample to names in the model."""
        named = {theirs: ours for ours, theirs in self.input_names.items()}
        return {named.get(i.name, i.name): i.name for i in self.signature.inputs}

    def feeds(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """A sample under the model's names; inputs that were pruned on export are left out.

        Float inputs are rounded to the model's float format, as in deployment.
        """
        declared = {spec.name: spec.dtype for spec in self.signature.inputs}
        return {
            theirs: _as_float(np.asarray(inputs[ours]), declared.get(theirs, ""))
            for ours, theirs in self.inputs.items()
            if ours in inputs
        }

    @cached_property
    def precision(self) -> str:
        """The model's number format: the coarsest of its inputs and weights, float32 if there are none."""
        import onnx

        names = [spec.dtype for spec in self.signature.inputs]
        names += [
            np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).name
            for tensor in self.model.graph.initializer
            if len(tensor.dims) > 1 and tensor.data_type in _FLOATS
        ]
        found = [name for name in names if name in UNITS]
        return max(found, key=lambda name: UNITS[name], default="float32")


_FLOATS = (1, 10, 11, 16)
"""ONNX's numbers of float32, float16, float64 and bfloat16."""


def _as_float(array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype not in UNITS or array.dtype.name not in UNITS or array.dtype.name == dtype:
        return array
    from twinnet.store import numpy_dtype

    return array.astype(numpy_dtype(dtype))


def onnx_artefact(network: Network | None, file: str | None, job: Job) -> OnnxArtefact:
    """The ONNX form of a network: from `file` if given, else exported."""
    try:
        from twinnet.onnx.network import OnnxNetwork
    except ImportError:
        raise MissingExtra("onnx", "onnx") from None
    if file is not None:
        loaded = _read(file)
        ours = [i.name for i in network.signature.inputs] if network else []
        names = by_position(ours, [i.name for i in loaded.signature.inputs])
        return OnnxArtefact(loaded, origin=_origin_of_file(loaded, network, job), input_names=names)
    if network is None:
        raise UsageError("no network and no file to load")
    if isinstance(network, OnnxNetwork):
        return OnnxArtefact(network, origin=_from_metadata(network.model, {}))
    return _exported(network, job)


def _read(file: str) -> OnnxNetwork:
    from twinnet.network import load_network
    from twinnet.onnx.network import OnnxNetwork

    loaded = load_network(file)
    if not isinstance(loaded, OnnxNetwork):
        raise UsageError(f"{file} is not an ONNX file")
    return loaded


def _origin_of_file(loaded: OnnxNetwork, network: Network | None, job: Job) -> dict[str, Origin]:
    """The origin of a file's values: from its metadata, and from our own export of the network.

    torch.onnx names values after the exported graph. Exporting the network here gives the same names, so a value whose
    name and operator agree in both files is the same value.
    """
    origin = _from_metadata(loaded.model, {})
    written_by_torch = any(
        p.key.startswith("pkg.torch.onnx") for n in loaded.model.graph.node for p in n.metadata_props
    )
    if written_by_torch and isinstance(network, ModuleNetwork):
        try:
            ours = _exported(network, job)
        except EngineError:
            return origin
        ops = {name: node.op_type for node in ours.model.graph.node for name in node.output}
        for node in loaded.model.graph.node:
            for name in node.output:
                if ops.get(name) == node.op_type and name in ours.origin:
                    origin[name] = ours.origin[name]
    return origin


def _exported(network: Network, job: Job) -> OnnxArtefact:
    import torch

    from twinnet.onnx.network import OnnxNetwork

    with job.step("export"):
        program = exported_program(network, job.inputs, "exported to ONNX", "FILE.onnx")
    key = content_key("onnx", torch.__version__, _onnxscript_version(), *program_content(program))

    def build(folder: Path) -> None:
        with job.step("convert to ONNX"):
            _write_onnx(program, folder)

    folder = cached_folder(key, build)
    sidecar = json.loads((folder / "origin.json").read_text())
    loaded = OnnxNetwork.load(folder / "network.onnx", name=network.name)
    origin = {name: Origin(**fields) for name, fields in sidecar["values"].items()}
    return OnnxArtefact(loaded, origin=origin, input_names=sidecar["inputs"])


def _onnxscript_version() -> str:
    try:
        import onnxscript
    except ImportError:
        raise MissingExtra("onnxscript (needed to export PyTorch networks)", "onnx") from None
    return onnxscript.__version__


def _write_onnx(program: torch.export.ExportedProgram, folder: Path) -> None:
    import torch

    from twinnet.torch_versions import onnx_operators_kept

    # The exporter traces the program again. With gradients on, views and in-place changes of parameters stop it.
    silent = quiet("torch.onnx", "onnxscript", "onnx_ir")
    refused = foreign_as(lambda error: _not_converted(program, error))
    with torch.no_grad(), silent, onnx_operators_kept(), refused:
        exported = torch.onnx.export(program, (), dynamo=True, verbose=False)
    assert exported is not None
    size = sum(
        t.numel() * t.element_size() for t in program.state_dict.values() if isinstance(t, torch.Tensor)
    )
    exported.save(str(folder / "network.onnx"), external_data=size > (1 << 30))
    from twinnet.layers.read_fx import read_fx
    from twinnet.network import input_placeholders

    layers = {
        name: Origin(name, layer.module, layer.call, layer.source)
        for layer in read_fx(program)
        for name in layer.outputs
    }
    same = same_values(program, exported.exported_program)
    values = _from_metadata(
        exported.model_proto, {name: layers[fx] for name, fx in same.items() if fx in layers}
    )
    data = {"values": {k: asdict(v) for k, v in values.items()}, "inputs": input_placeholders(program)}
    (folder / "origin.json").write_text(json.dumps(data))


def _not_converted(program: torch.export.ExportedProgram, error: BaseException) -> EngineError:
    """The error of a conversion, with the module and the line that made the operator it stopped at."""
    from twinnet.layers.fx import place, spoken

    told = failed("convert the network to ONNX", "torch.onnx", error)
    messages, chain = "", error
    while chain is not None:
        messages += f"{chain}\n"
        chain = chain.__cause__
    named = re.findall(r"(?:node|executing) [(]?%?(\w+)", messages)
    node = next((n for name in named for n in program.graph.nodes if n.name == name), None)
    if node is None or node.op != "call_function":
        return told
    where = place(node)
    at = ", ".join(part for part in (where.module, where.source) if part) or node.name
    return EngineError(
        f"{told.what} (at {spoken(node)}, in {at})",
        stage=told.stage,
        log=told.log,
        hint=f"write {spoken(node)} there with other operators, or give the twin as a file: --twin FILE.onnx",
    )


def _from_metadata(model: onnx.ModelProto, layers: Mapping[str, Origin]) -> dict[str, Origin]:
    """Origins by value name: the fx node of that name, else the one named in the node's metadata."""
    import ast

    found: dict[str, Origin] = {}
    for node in model.graph.node:
        entries = {p.key: p.value for p in node.metadata_props}
        fx = entries.get("pkg.torch.onnx.fx_node", "").partition(" ")[0].lstrip("%")
        module = ""
        try:
            scopes = ast.literal_eval(entries.get("pkg.torch.onnx.name_scopes", "[]"))
            module = scopes[-2] if len(scopes) > 1 else ""
        except (ValueError, SyntaxError):
            pass
        for name in node.output:
            if name in layers:
                found[name] = layers[name]
            elif fx:
                # An intermediate of the fx node: it has a source line, but no counterpart.
                whole = layers.get(fx, Origin(module=module))
                found[name] = Origin("", whole.module, whole.call, whole.source)
    return found


def same_values(program: torch.export.ExportedProgram, decomposed: Any) -> dict[str, str]:
    """Map nodes of the exporter's decomposed program to the nodes of `program` with the same value.

    The exporter renumbers nodes that it decomposes, so names prove nothing; the recorded origin of a node does. If a
    node was split into several, the last of them has its value.
    """
    import operator

    from twinnet.torch_versions import name_of_origin, operator_family

    getitems = {
        (n.args[0].name, n.args[1]): n.name for n in program.graph.nodes if n.target is operator.getitem
    }
    kinds = {n.name: operator_family(n.target) for n in program.graph.nodes}
    last: dict[str, str] = {}
    found: dict[str, str] = {}
    for node in decomposed.graph.nodes:
        if node.op == "placeholder":
            continue
        source = name_of_origin(node)
        if source not in kinds:
            continue
        if node.target is operator.getitem:
            # Parts of a result are matched by index, if the operator itself was not decomposed.
            taken = node.args[0]
            whole = last.get(source) == taken.name and operator_family(taken.target) == kinds.get(source)
            part = getitems.get((source, node.args[1])) if whole else None
            if part is not None:
                found[node.name] = part
            continue
        last[source] = node.name
    several = {source for source, _ in getitems}
    found.update({name: source for source, name in last.items() if source not in several})
    return found
