"""Make ExecuTorch programs from networks: lowered, quantised, with further outputs; kept in the cache."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinnet.cache import cached_folder, content_key
from twinnet.engines._executorch_home import Home, executorch_version
from twinnet.executorch import Record, Sources
from twinnet.job import Arrays
from twinnet.network import Network
from twinnet.network.content import exported_program
from twinnet.scratch import scratch_folder
from twinnet.store import write_tensors

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

__all__ = ["Lowering", "Made", "make", "make_tapped", "program_of", "taps_of"]


@dataclass(frozen=True, slots=True)
class Lowering:
    """How programs are lowered; the fields are options of the engine."""

    delegate: str = "none"
    quantize: str = ""
    per_channel: bool = True

    @property
    def told(self) -> dict[str, Any]:
        """For the worker."""
        return {"delegate": self.delegate, "quantize": self.quantize, "per_channel": self.per_channel}


@dataclass(frozen=True)
class Made:
    """A lowered program, its ETRecord, and the program that it computes; `key` tells it from others."""

    key: str
    pte: Path
    record: Path
    program: ExportedProgram
    arguments: tuple[tuple[str | None, Any], ...]
    """For each argument its name in a sample, or None and its value."""

    def given(self, inputs: Arrays) -> list[Any]:
        """The arguments of a call."""
        return [value if name is None else np.asarray(inputs[name]) for name, value in self.arguments]


def program_of(network: Network, inputs: Arrays) -> ExportedProgram:
    """The network as a program; an EngineError says why there is none."""
    return exported_program(network, inputs, "converted to ExecuTorch", "executorch:FILE.pte")


def make(network: Network, inputs: Arrays, how: Lowering, home: Home) -> Made:
    """Lower a network for inputs of these shapes."""
    program = program_of(network, inputs)
    arguments = _arguments(program)
    samples = list(home.job.samples or (home.job.inputs,)) if how.quantize else []
    key = _key(program, how, samples)

    def build(folder: Path) -> None:
        import torch

        with scratch_folder("executorch") as scratch, home.job.step("convert"):
            source = Path(scratch) / "program.pt2"
            torch.export.save(_flat(program), source)
            files = []
            for number, sample in enumerate(samples):
                tensors = {n: np.ascontiguousarray(sample[n]) for n, _ in arguments if n is not None}
                files.append(str(write_tensors(Path(scratch) / f"{number}.safetensors", tensors)))
            home.ask(
                {
                    "do": "convert",
                    "program": str(source),
                    "quantised": str(folder / "quantised.pt2"),
                    "pte": str(folder / "program.pte"),
                    "record": str(folder / "program.etrecord"),
                    "samples": files,
                    "arguments": [n for n, _ in arguments],
                    **how.told,
                },
                "convert the network",
            )

    folder = cached_folder(key, build)
    if how.quantize:
        from twinnet.network.pt2 import load_pt2
        from twinnet.torch_versions import register_quantised_operators

        register_quantised_operators()
        program = load_pt2(folder / "quantised.pt2")
    return Made(key, folder / "program.pte", folder / "program.etrecord", program, arguments)


def make_tapped(made: Made, taps: Sequence[str], how: Lowering, home: Home) -> Path:
    """The folder of the program with some of its values as further outputs, after its own.

    It holds `program.pte`, and `program.etrecord` if the values kept their names.
    """

    def build(folder: Path) -> None:
        import torch

        with scratch_folder("executorch") as scratch, home.job.step("convert"):
            source = Path(scratch) / "program.pt2"
            torch.export.save(_flat(made.program), source)
            home.ask(
                {
                    "do": "tap",
                    "program": str(source),
                    "pte": str(folder / "program.pte"),
                    "record": str(folder / "program.etrecord"),
                    "taps": list(taps),
                    **how.told,
                },
                "convert the network with more outputs",
            )

    return cached_folder(content_key("executorch-taps", made.key, repr(how), *taps), build)


def _flat(program: ExportedProgram) -> ExportedProgram:
    """The program with plain lists of arguments and results: the worker does not know the user's own containers."""
    import torch
    from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature

    from twinnet.torch_versions import pytree

    assert program.example_inputs is not None
    leaves = tuple(pytree.tree_leaves(program.example_inputs))
    user = [s for s in program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    root = ModuleCallSignature(
        inputs=[],
        outputs=[],
        in_spec=pytree.tree_structure((leaves, {})),
        out_spec=pytree.tree_structure(tuple(range(len(user)))),
        forward_arg_names=[f"argument_{i}" for i in range(len(leaves))],
    )
    return torch.export.ExportedProgram(
        root=program.graph_module,
        graph=program.graph,
        graph_signature=program.graph_signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=[ModuleCallEntry("", root)],
        example_inputs=(leaves, {}),
        constants=program.constants,
        verifiers=program.verifiers,
    )


def _key(program: ExportedProgram, how: Lowering, samples: Sequence[Arrays]) -> str:
    import torch

    digest = hashlib.sha256()
    for table in (program.state_dict, program.constants):
        for name, value in table.items():
            digest.update(name.encode())
            if isinstance(value, torch.Tensor):
                array = value.detach().contiguous().view(-1)
                digest.update(repr((value.dtype, tuple(value.shape))).encode())
                digest.update(array.view(torch.uint8).numpy().tobytes() if array.numel() else b"")
    for sample in samples:
        for name, array in sample.items():
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    text = "\n".join(f"{n.format_node()} {n.meta.get('val')}" for n in program.graph.nodes)
    return content_key("executorch", executorch_version(), repr(how), text, digest.digest())


def _arguments(program: ExportedProgram) -> tuple[tuple[str | None, Any], ...]:
    from twinnet.network import input_placeholders

    names = {placeholder: name for name, placeholder in input_placeholders(program).items()}
    user = [s.arg for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    return tuple((names.get(a.name), getattr(a, "value", None)) for a in user)


# -- taps ------------------------------------------------------------------------------------------------------------

_FOLDED = ("_native_batch_norm_legit_no_training", "batch_norm")
_CLAMPS = ("relu", "hardtanh", "clamp", "relu6")
_MOVES = tuple(
    """view reshape _unsafe_view flatten unflatten permute transpose t squeeze unsqueeze expand clone contiguous alias
    detach slice select narrow split chunk dropout identity lift_fresh_copy to _to_copy""".split()  # noqa: SIM905
)
"""Operators that only move values: nothing is born there, and delegates do not take them as outputs."""
_LAYERS = (
    "conv2d",
    "convolution",
    "conv1d",
    "conv_transpose2d",
    "linear",
    "addmm",
    "mm",
    "bmm",
    "matmul",
    "softmax",
)
_FUSES = ("conv2d", "convolution", "conv1d", "conv_transpose2d", "linear", "add", "sub", "mul", "addmm")


def taps_of(program: ExportedProgram, how: Lowering, record: Record) -> tuple[tuple[str, ...], ...]:
    """The values inside delegates that can be outputs without changing what is computed, as far as one can tell before.

    A delegate folds a batch norm into the convolution before it and an activation into the operator before it; if the
    value between them is an output, it no longer does. In a quantised program the integers are such values, and floats
    that are not only there to be quantised: any other output splits the operators that the delegate takes as one.
    Further choices follow, each with fewer values.
    """
    import torch

    sources = Sources.of(record.method())
    inside = {record.origin(node) for i in sources.backends for node in sources.nodes.get(i, ())}
    every: list[str] = []
    surest: list[str] = []
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor) or 0 in value.shape:
            continue
        maker = node.args[0] if node.target is operator.getitem else node
        name = _name(node)
        if maker.name not in inside or name in _MOVES or name.startswith("dequantize_") or _fused(node):
            continue
        if how.quantize and all(_name(user).startswith("quantize_per_") for user in node.users):
            continue
        every.append(node.name)
        if name.startswith("quantize_per_") if how.quantize else name in _LAYERS:
            surest.append(node.name)
    return tuple(dict.fromkeys(choice for choice in (tuple(every), tuple(surest)) if choice))


def _fused(node: Node) -> bool:
    users = [_name(user) for user in node.users]
    folds = _name(node) in ("conv2d", "convolution", "conv1d", "conv_transpose2d") and any(
        user in _FOLDED for user in users
    )
    return len(users) == 1 and (folds or (_name(node) in _FUSES and users[0] in _CLAMPS))


def _name(node: Node) -> str:
    """The operator without namespace and overload."""
    return str(node.target).split(".")[1] if "." in str(node.target) else str(node.target)
