"""ExecuTorch in a process of its own: convert a program, tap it, run it.

As a program (`twinnet.programs`) it answers one JSON request per line; tensors travel as safetensors files. ExecuTorch
aborts its process now and then, and this one may be aborted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from twinnet.programs.lines import answer_lines, words_of

__all__: list[str] = []


def _answer(asked: dict[str, Any], loaded: dict[tuple[Any, ...], Any]) -> dict[str, Any]:
    return _DO[asked["do"]](asked, loaded)


def _told(raised: Exception, start: int) -> str:
    """An error with what the runtime logged before it: an exception has only its number."""
    while isinstance(raised.__cause__, Exception):
        raised = raised.__cause__
    traceback.print_exc()
    error = words_of(raised, start)
    try:
        log = os.pread(2, 1 << 16, start).decode(errors="replace").splitlines()
    except OSError:
        return error
    spoken = [line.partition("] ")[2] for line in log if line.startswith("[") and ".cpp:" in line]
    told = [
        line
        for line in spoken
        if line and "midr" not in line and "cpuinfo" not in line and "/sys/" not in line
    ]
    why = next((line for line in told if "issing operator" in line or "not found" in line), "")
    return "\n".join([f"{error.splitlines()[0]} ({why})" if why else error, *told[-20:]])


def _start(asked: dict[str, Any], loaded: dict[tuple[Any, ...], Any]) -> dict[str, Any]:
    """Set the number of threads, and say which delegates there are."""
    import torch

    runtime = _runtime()
    if asked["threads"]:
        torch.set_num_threads(asked["threads"])
        runtime._unsafe_reset_threadpool(asked["threads"])
    return {"backends": list(runtime._get_registered_backend_names())}


def _runtime() -> Any:
    """The runtime itself: the modules around it import the whole converter, which takes seconds."""
    import torch  # noqa: F401 (loads the libraries that the runtime needs)
    from executorch.extension.pybindings import _C

    return _C


# -- converting ------------------------------------------------------------------------------------------------------


def _convert(asked: dict[str, Any], loaded: dict[tuple[Any, ...], Any]) -> dict[str, Any]:
    """Lower a program to a .pte with its ETRecord; a quantised one is also written as a program."""
    import torch

    program = _loaded(asked["program"])
    if asked["quantize"]:
        program = _quantised(program, asked)
        torch.export.save(program, asked["quantised"])
        # Read back: its nodes then have the names that the file has.
        program = _loaded(asked["quantised"])
    manager = _lowered(program, asked, record=True)
    made = manager.to_executorch()
    made.save(asked["pte"])
    made.get_etrecord().save(asked["record"])
    return {}


def _tap(asked: dict[str, Any], loaded: dict[tuple[Any, ...], Any]) -> dict[str, Any]:
    """Lower a program with some values as further outputs, with an ETRecord if its values keep their names."""
    import torch
    import torch.utils._pytree as pytree

    program = _loaded(asked["program"])
    module = program.module()
    graph = module.graph
    output = graph.output_node()
    known = {node.name: node for node in graph.nodes}
    ends = [*pytree.tree_leaves(output.args[0]), *(known[name] for name in asked["taps"])]
    output.args = (tuple(ends),)
    code: Any = graph._codegen
    code.pytree_info = code.pytree_info._replace(out_spec=pytree.tree_structure(tuple(range(len(ends)))))
    module.recompile()
    args, kwargs = program.example_inputs or ((), {})
    with torch.no_grad():
        tapped = torch.export.export(module, args, kwargs).run_decompositions({})
    same = _names(tapped) == _names(program)
    made = _lowered(tapped, asked, record=same).to_executorch()
    made.save(asked["pte"])
    if same:
        made.get_etrecord().save(asked["record"])
    return {}


def _loaded(path: str) -> Any:
    """A program from a file, which may be quantised already."""
    import torch
    import torch.ao.quantization.fx._decomposed

    return torch.export.load(path)


def _names(program: Any) -> list[str]:
    # A program from a file has a node for each result, used or not.
    return [node.name for node in program.graph.nodes if node.op == "call_function" and node.users]


def _lowered(program: Any, asked: dict[str, Any], *, record: bool) -> Any:
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    partitioners: Any = None
    if any("quantized_decomposed" in str(node.target) for node in program.graph.nodes):
        import executorch.kernels.quantized  # noqa: F401 (registers its operators)
    if asked["delegate"] == "xnnpack":
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        partitioners = [XnnpackPartitioner()]
    with _possible_patterns(program) if partitioners else nullcontext():
        return to_edge_transform_and_lower(
            program,
            partitioner=partitioners,
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
            generate_etrecord=record,
        )


_PATTERNS = {
    "bilinear_2d.get_graphs_dict": (dict, ("upsample", "interpolate", "grid_sample", "index")),
    "sdpa.get_graphs": (list, ("softmax", "attention", "transformer")),
}
"""Who hands out patterns, how it hands out none, and the operators without which none of them can match."""


@contextmanager
def _possible_patterns(program: Any) -> Iterator[None]:
    """XNNPACK finds resizing and attention by patterns. It exports them anew in each process, which takes longer than
    the rest of a small program: those that cannot match are not made."""
    replaced = []
    for place in _impossible(program):
        module, function = place.split(".")
        holder = sys.modules.get(f"executorch.backends.xnnpack.partition.graphs.{module}")
        if holder is not None and hasattr(holder, function):
            replaced.append((holder, function, getattr(holder, function)))
            setattr(holder, function, _PATTERNS[place][0])
    try:
        yield
    finally:
        for holder, function, given in replaced:
            setattr(holder, function, given)


def _impossible(program: Any) -> list[str]:
    """The patterns that cannot match anything in a program."""
    import torch

    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    names = " ".join({str(node.target) for graph in graphs for node in graph.nodes})
    return [p for p, (_, needed) in _PATTERNS.items() if not any(word in names for word in needed)]


def _quantised(program: Any, asked: dict[str, Any]) -> Any:
    """Quantise to int8, calibrated with the samples."""
    import torch
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from safetensors.torch import load_file
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    config = get_symmetric_quantization_config(is_per_channel=asked["per_channel"])
    args, kwargs = program.example_inputs
    with torch.no_grad():
        prepared = prepare_pt2e(program.module(), XNNPACKQuantizer().set_global(config))
        for file in asked["samples"]:
            given, named = _arguments(asked["arguments"], load_file(file), args, kwargs)
            prepared(*given, **named)
        return torch.export.export(convert_pt2e(prepared), args, kwargs).run_decompositions({})


def _arguments(
    names: list[str | None], tensors: dict[str, Any], args: Any, kwargs: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call: the example's, with the tensors of a sample in it."""
    import torch.utils._pytree as pytree

    leaves, tree = pytree.tree_flatten((args, kwargs))
    filled = [leaf if name is None else tensors[name] for name, leaf in zip(names, leaves)]
    return pytree.tree_unflatten(filled, tree)


# -- running ---------------------------------------------------------------------------------------------------------


def _load(asked: dict[str, Any], loaded: dict[tuple[Any, ...], Any]) -> tuple[Any, Any]:
    """A program and its method; those without a recording are kept, as loading may take longer than running."""
    runtime = _runtime()
    import executorch.kernels.quantized  # noqa: F401 (registers its kernels)

    dump = asked.get("dump")
    key = (asked["pte"], asked["method"])
    if not dump and key in loaded:
        return loaded[key]
    options = {"enable_etdump": True, "debug_buffer_size": asked["buffer_size"]} if dump else {}
    program = runtime._load_program(
        asked["pte"], program_verification=runtime.Verification.InternalConsistency, **options
    )
    known = sorted(program.get_method_name(i) for i in range(program.num_methods()))
    if asked["method"] not in known:
        raise ValueError(f"it has no method {asked['method']!r}; its methods: {', '.join(known)}")
    pair = program, program.load_method(asked["method"])
    if not dump:
        loaded.clear()
        loaded[key] = pair
    return pair


def _describe(asked: dict[str, Any], loaded: dict[tuple[Any, ...], Any]) -> dict[str, Any]:
    """The inputs and outputs of a .pte: shape and number format, None for what is not a tensor."""
    program, _ = _load(asked, loaded)
    found = program.method_meta(asked["method"])

    def tensor(read: Any, index: int) -> Any:
        try:
            info = read(index)
        except RuntimeError:
            return None
        return {"shape": list(info.sizes()), "code": int(info.dtype())}

    return {
        "inputs": [tensor(found.input_tensor_meta, i) for i in range(found.num_inputs())],
        "outputs": [tensor(found.output_tensor_meta, i) for i in range(found.num_outputs())],
    }


def _run(asked: dict[str, Any], loaded: dict[tuple[Any, ...], Any]) -> dict[str, Any]:
    import torch
    from safetensors.torch import load_file, save_file

    program, method = _load(asked, loaded)
    tensors = load_file(asked["feeds"])
    inputs = [tensors[part["tensor"]] if "tensor" in part else part["value"] for part in asked["arguments"]]
    results = method.call(inputs)
    kept = {
        str(i): (r if isinstance(r, torch.Tensor) else torch.tensor(r)).contiguous().clone()
        for i, r in enumerate(results)
        if isinstance(r, (torch.Tensor, bool, int, float))
    }
    save_file(kept, asked["results"])
    if asked.get("dump"):
        program.write_etdump_result_to_file(asked["dump"], asked["buffer"])
    return {"outputs": len(results)}


def _time(asked: dict[str, Any], loaded: dict[tuple[Any, ...], Any]) -> dict[str, Any]:
    """Run a program with its events recorded and without, in turns; the first runs of each do not count."""
    import time

    from safetensors.torch import load_file

    bare = _load({**asked, "dump": None}, loaded)
    watched = _load(asked, loaded)
    tensors = load_file(asked["feeds"])
    inputs = [tensors[part["tensor"]] if "tensor" in part else part["value"] for part in asked["arguments"]]
    times: dict[str, list[float]] = {"bare": [], "whole": [], "bare_cpu": [], "whole_cpu": []}
    for _ in range(asked["warm_up"] + asked["repeats"]):
        for name, (_, method) in (("bare", bare), ("whole", watched)):
            cpu, start = time.process_time(), time.perf_counter()
            method.call(inputs)
            times[name].append(time.perf_counter() - start)
            times[f"{name}_cpu"].append(time.process_time() - cpu)
    watched[0].write_etdump_result_to_file(asked["dump"], asked["buffer"])
    return {name: seen[asked["warm_up"] :] for name, seen in times.items()}


_DO = {
    "start": _start,
    "convert": _convert,
    "tap": _tap,
    "describe": _describe,
    "run": _run,
    "time": _time,
}


if __name__ == "__main__":
    answer_lines(_answer, _told)
