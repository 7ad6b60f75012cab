"""Load ONNX models and check that this installation supports them; external data stays in its files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, Message
from onnx import external_data_helper

from twinnet.errors import UsageError
from twinnet.network.base import Network
from twinnet.network.sniff import describe_file
from twinnet.onnx.external import Weights, all_tensors, element_dtype, external_slice
from twinnet.onnx.graph import model_nodes, walk_nodes
from twinnet.signature import Signature, TensorSpec

__all__ = ["OnnxNetwork"]

# Domains that onnx has no schemas for, but that one of our engines implements.
_ENGINE_DOMAINS = {
    "com.microsoft",
    "com.microsoft.nchwc",
    "com.microsoft.experimental",
    "com.ms.internal.nhwc",
}
_DEEPEST, _MOST_NODES = 100, 1_000_000
_PASS_ON = {"Cast", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Flatten", "Transpose"}


class OnnxNetwork(Network):
    """An ONNX model. `model` never holds external data; `weights()` maps it, `complete()` loads it.

    >>> from onnx import parser
    >>> head = '<ir_version: 10, opset_import: ["": 20]>'
    >>> model = parser.parse_model(f'{head} g (float[n,2] x) => (float[n,2] y) {{ y = Relu(x) }}')
    >>> [str(s) for s in OnnxNetwork(model).signature.inputs]
    ['x: float32 nx2']
    """

    format = "ONNX"

    def __init__(
        self,
        model: onnx.ModelProto,
        *,
        name: str = "",
        path: Path | None = None,
    ) -> None:
        self.model = model
        self.base_dir = None if path is None else path.parent
        where = str(path) if path is not None else "the ONNX model"
        _check_versions(model, where)
        self.external = self._external_files()
        _check_valid(model, where, path, bool(self.external))
        super().__init__(
            name or (path.stem if path is not None else model.graph.name or "model"),
            _signature(model, where),
            parameters=_count(model),
            path=path,
        )

    @classmethod
    def load(cls, path: Path, *, name: str = "") -> OnnxNetwork:
        """Read an .onnx file; tensors in other files stay there."""
        return cls(_parse(path), name=name, path=path)

    def _external_files(self) -> tuple[Path, ...]:
        """Files of external data; their paths are checked here, before any engine opens them."""
        files: dict[Path, None] = {}
        for tensor in all_tensors(self.model):
            if external_data_helper.uses_external_data(tensor):
                if self.base_dir is None:
                    raise UsageError(
                        f"the ONNX model keeps the data of {tensor.name!r} in another file, "
                        "and its folder is unknown",
                        hint="give the path of the .onnx file instead of the loaded model",
                    )
                files[external_slice(tensor, self.base_dir).file] = None
        return tuple(files)

    @property
    def opset(self) -> int:
        """Version of the standard operator set."""
        return max((o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx")), default=0)

    def weights(self) -> Weights:
        """Initializers by name, lazily; external ones are memory-mapped."""
        return Weights(self.model, self.base_dir)

    def complete(self, part: onnx.ModelProto | None = None) -> onnx.ModelProto:
        """A copy of the model, or of a part cut from it, with all external data loaded into it."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model if part is None else part)
        if self.external:
            assert self.base_dir is not None
            external_data_helper.load_external_data_for_model(model, str(self.base_dir))
        return model

    def bounds(self) -> dict[str, tuple[int, int]]:
        """The ranges of inputs that index a weight (Gather) or known classes (OneHot)."""
        constants = {t.name: t for t in self.model.graph.initializer}
        origin = {spec.name: spec.name for spec in self.signature.inputs}
        found: dict[str, tuple[int, int]] = {}
        for node in self.model.graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
                constants[node.output[0]] = node.attribute[0].t
            elif node.op_type in _PASS_ON and node.input and node.input[0] in origin:
                origin[node.output[0]] = origin[node.input[0]]
            elif (size := _table_size(node, constants, origin)) is not None:
                name, rows = size
                found[name] = (0, min(rows - 1, found.get(name, (0, rows))[1]))
        return found


def _parse(path: Path) -> onnx.ModelProto:
    kind = describe_file(path)
    if kind:
        raise UsageError(f"{path} is not an ONNX model: it looks like {kind}")
    size = path.stat().st_size
    if size >= 2**31:
        raise UsageError(
            f"{path} has {size / 2**30:.1f} GiB; a single ONNX file cannot exceed 2 GiB",
            hint="save it with external data: onnx.save(model, path, save_as_external_data=True)",
        )
    model = onnx.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise UsageError(
            f"{path} is not a readable ONNX model: it is truncated or not ONNX ({size} bytes)",
            hint="is the download complete?",
        ) from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    if (bad := _not_text(model)) is not None:
        raise UsageError(f"{path} is damaged: its {bad[0]} {bad[1]!r} is not text")
    return model


def _not_text(message: Message) -> tuple[str, bytes] | None:
    """A name that is not UTF-8: protobuf hands it out as bytes, and no other tool could read the file."""
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        for one in (value,) if isinstance(value, str | bytes | Message) else value:
            found = _not_text(one) if isinstance(one, Message) else None
            if isinstance(one, bytes):
                found = field.name, one
            if found is not None:
                return found
    return None


def _check_versions(model: onnx.ModelProto, where: str) -> None:
    if not model.HasField("graph") or not model.graph.output:
        raise UsageError(f"{where} is not an ONNX network: it has no graph with outputs")
    if not model.opset_import:
        raise UsageError(f"{where} does not say which operator set it uses")
    if model.ir_version > onnx.IR_VERSION:
        raise UsageError(
            f"{where} has ONNX format version {model.ir_version}; "
            f"onnx {onnx.__version__} reads up to {onnx.IR_VERSION}",
            hint="upgrade onnx, or export with an older opset",
        )
    known = {("" if d == "ai.onnx" else d): v for d, v in _supported().items()}
    for opset in model.opset_import:
        domain = "" if opset.domain == "ai.onnx" else opset.domain
        if domain in known and opset.version > known[domain]:
            raise UsageError(
                f"{where} needs opset {opset.version}{f' of {domain}' if domain else ''}; "
                f"onnx {onnx.__version__} knows up to {known[domain]}",
                hint="upgrade onnx, or export with an older opset",
            )
    _check_expansion(model, where)
    local = {(f.domain, f.name) for f in model.functions}
    for node in model_nodes(model):
        standard = node.domain in ("", "ai.onnx") or node.domain in known or node.domain in _ENGINE_DOMAINS
        if not standard and (node.domain, node.op_type) not in local:
            raise UsageError(
                f"{where} uses the operator {node.op_type} of the domain {node.domain!r}, "
                f"which this installation does not know (node {(node.name or node.op_type)!r})",
                hint=f"known: {', '.join(sorted(d or 'ai.onnx' for d in known.keys() | _ENGINE_DOMAINS))}",
            )


def _check_expansion(model: onnx.ModelProto, where: str) -> None:
    """Refuse functions that would become too many nodes where they are called, or that never end."""
    made = {(f.domain, f.name): f for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: Iterable[onnx.NodeProto], within: tuple[tuple[str, str], ...]) -> int:
        return sum(one(node, within) for node in walk_nodes(nodes))

    def one(node: onnx.NodeProto, within: tuple[tuple[str, str], ...]) -> int:
        key = (node.domain, node.op_type)
        if key not in made:
            return 1
        if key in within or len(within) > _DEEPEST:
            raise UsageError(f"{where}: the function {node.op_type} calls itself, or is nested too deeply")
        if key not in sizes:
            sizes[key] = size(made[key].node, (*within, key))
        return sizes[key]

    total = size(model.graph.node, ()) if made else 0
    if total > _MOST_NODES:
        raise UsageError(f"{where}: its functions expand to {total} nodes")


def _supported() -> dict[str, int]:
    versions: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas():
        versions[schema.domain] = max(versions.get(schema.domain, 0), schema.since_version)
    versions[""] = onnx.defs.onnx_opset_version()
    return versions


def _check_valid(model: onnx.ModelProto, where: str, path: Path | None, external: bool) -> None:
    try:
        if path is not None:
            onnx.checker.check_model(str(path))
        elif not external and sum(len(t.raw_data) for t in model.graph.initializer) < 2**30:
            onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        text = str(error).strip().split("\n\n==> Context")[0].strip()
        if "Field 'shape' of 'type' is required" in text:
            return  # inputs and outputs of unknown rank: the specification forbids them, engines run them
        context = str(error).partition("==> Context:")[2].strip()
        raise UsageError(f"{where} is not a valid ONNX model: {text}", hint=context or None) from error
    except (ValueError, RuntimeError, OSError) as error:
        raise UsageError(f"{where} is not a valid ONNX model: {error}") from error


def _signature(model: onnx.ModelProto, where: str) -> Signature:
    held = {t.name for t in model.graph.initializer} | {t.values.name for t in model.graph.sparse_initializer}
    inputs = tuple(_spec(value, where) for value in model.graph.input if value.name not in held)
    return Signature(inputs, tuple(_spec(value, where) for value in model.graph.output))


def _spec(value: onnx.ValueInfoProto, where: str) -> TensorSpec:
    kind, optional = value.type, False
    if kind.HasField("optional_type"):
        kind, optional = kind.optional_type.elem_type, True
    if not kind.HasField("tensor_type"):
        held = kind.WhichOneof("value")
        if held is None:
            return TensorSpec(value.name)
        raise UsageError(
            f"{where}: {value.name} is a {held.removesuffix('_type')}; inputs and outputs must be tensors"
        )
    tensor = kind.tensor_type
    dtype = "str" if tensor.elem_type == onnx.TensorProto.STRING else "float32"
    if tensor.elem_type not in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED):
        dtype = element_dtype(tensor.elem_type, value.name).name
    shape = tuple(_dimension(d) for d in tensor.shape.dim) if tensor.HasField("shape") else None
    return TensorSpec(value.name, dtype, shape, optional)


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> int | str:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return dim.dim_param or "?"


def _table_size(
    node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto], origin: Mapping[str, str]
) -> tuple[str, int] | None:
    """The input that indexes a table of known length in this node, and that length."""
    if node.op_type == "Gather" and node.input[0] in constants and node.input[1] in origin:
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        return origin[node.input[1]], constants[node.input[0]].dims[axis]
    if node.op_type == "OneHot" and node.input[0] in origin and node.input[1] in constants:
        return origin[node.input[0]], int(onnx.numpy_helper.to_array(constants[node.input[1]]).reshape(-1)[0])
    return None


def _count(model: onnx.ModelProto) -> int:
    """Elements of weight tensors; integers of 32 and 64 bits are shapes, axes and indices, not weights."""
    indices = {onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL, onnx.TensorProto.STRING}
    return sum(math.prod(t.dims) for t in all_tensors(model) if t.data_type not in indices)
