"""Run IREE without twinnet: shared by the engine and `repro.py`.

The source of these functions is copied into `repro.py`, so they must not use twinnet and may call only each other.
"""

from __future__ import annotations

from typing import Any

from twinnet.engines._onnx_alone import typed_model

__all__ = ["OPSETS", "iree_flags", "iree_problem", "run_iree"]


OPSETS = (15, 17)
"""Models with an opset below the first are converted to the second: the importer lacks older forms of many
operators."""


def iree_flags(options: dict[str, str]) -> list[str]:
    """The compiler's flags for a set of options."""
    flags = [
        "--iree-input-type=onnx",
        "--iree-hal-target-backends=llvm-cpu",
        f"--iree-llvmcpu-target-cpu={options.get('cpu', 'host')}",
    ]
    if "opt" in options:
        flags.append(f"--iree-opt-level={options['opt']}")
    if options.get("f64", "keep") == "keep":
        # Otherwise IREE computes in float32 what the network says is float64.
        flags.append("--iree-input-demote-f64-to-f32=false")
    return flags + [f"--{k.partition('.')[2]}={v}" for k, v in options.items() if k.startswith("flag.")]


def iree_problem(log: str) -> str:
    """The first error in the log of one of IREE's programs: the ONNX operator it is about, and the words for it."""
    import re

    # Stack dumps and advice say nothing about the network.
    noise = ("EXEC ", "Please report", "PLEASE submit", "Stack dump", "#")
    lines = [line.strip() for line in log.splitlines() if line.strip() and not line.startswith(noise)]
    if lines and lines[0].startswith("Traceback"):
        return lines[-1]
    at = next((i for i, line in enumerate(lines) if re.search(r"(^|: )error: ", line)), None)
    if at is None:
        return lines[0] if lines else ""
    words = re.split(r"(?:^|: )error: ", lines[at], maxsplit=1)[1]
    # What follows a colon is the operation as MLIR prints it.
    sentence = re.split(r": %|: \"|: '?builtin", words, maxsplit=1)[0].strip()
    found = re.search(r'"onnx\.(\w+)"', "\n".join(lines[at:]))
    return f"{found[1]}: {sentence}" if found else sentence


def run_iree(model: Any, options: dict[str, str], feeds: dict[str, Any]) -> dict[str, Any]:
    """Outputs of an ONNX file (a path or its bytes) under IREE's CPU backend, one program after the other."""
    import importlib.util
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    import numpy
    import onnx

    def tool(package: str, *parts: str) -> str:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ImportError(f"{package} is not installed")
        return str(Path(spec.submodule_search_locations[0], *parts))

    def start(*arguments: str) -> None:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            name = Path(arguments[0]).name if arguments[0] != sys.executable else "iree-import-onnx"
            how = f"died of signal {-done.returncode}" if done.returncode < 0 else "refuses the network"
            raise RuntimeError(f"{name} {how}: {iree_problem(done.stderr or done.stdout)}")

    loaded = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    network, known, _ = typed_model(loaded, feeds, options.get("shapes", "static") == "static", 15, 17)
    network.graph.name = "network"
    names = [o.name for o in network.graph.output]
    held = {t.name for t in network.graph.initializer}
    with tempfile.TemporaryDirectory() as folder:
        source, module = str(Path(folder, "network.mlir")), str(Path(folder, "network.vmfb"))
        onnx.save(network, str(Path(folder, "network.onnx")))
        start(
            sys.executable,
            "-m",
            "iree.compiler.tools.import_onnx",
            str(Path(folder, "network.onnx")),
            "-o",
            source,
        )
        compiler = tool("iree.compiler", "_mlir_libs", "iree-compile")
        start(compiler, source, *iree_flags(options), "-o", module)
        flags = ["--device=local-sync", f"--module={module}", "--function=network"]
        threads = int(options.get("threads", "1"))
        if threads > 1:
            flags[0] = f"--device=local-task\n--task_topology_group_count={threads}"
        taken = [i.name for i in network.graph.input if i.name not in held]
        for i, name in enumerate(taken):
            numpy.save(str(Path(folder, f"in{i}.npy")), feeds[name])
            flags.append(f"--input=@{Path(folder, f'in{i}.npy')}")
        flags += [f"--output=@{Path(folder, f'out{i}.npy')}" for i in range(len(names))]
        Path(folder, "flags").write_text("\n".join(flags))
        start(tool("iree._runtime_libs", "iree-run-module"), f"--flagfile={Path(folder, 'flags')}")
        results = {}
        for i, name in enumerate(names):
            array = numpy.load(str(Path(folder, f"out{i}.npy")), allow_pickle=False)
            wanted = onnx.helper.tensor_dtype_to_np_dtype(known[name].type.tensor_type.elem_type)
            # IREE integers are signless; the model declares the sign.
            same = array.dtype.kind in "iu" and array.dtype.itemsize == wanted.itemsize
            results[name] = array.view(wanted) if same else array
        return results
