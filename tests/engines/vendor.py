"""A small vendor toolchain for tests: a compiler and a runtime with files, options and failures of their own.

    python vendor.py compile network.onnx network.bin --chip a1
    python vendor.py run network.bin --in x=x.bin:float32:1x3x8x8 --out FOLDER --form raw [--dump]

The compiler packs a model with its chip; chip "b2" keeps weights in float16, "c3" forgets the sign where it fuses a
ReLU with the convolution before it, "d4" at every ReLU. The runtime is ONNX Runtime in this
process, and `--dump` writes every tensor that an operator makes. `--fail` breaks in different ways.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import zipfile
from pathlib import Path

import numpy as np


def compile_network(source: Path, target: Path, chip: str, told: str) -> None:
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(source))
    unknown = [n.op_type for n in model.graph.node if n.op_type in ("Unique", "NonZero")]
    if unknown:
        print(f"vendor-compiler: fatal error: no kernel for {unknown[0]} on {chip}", file=sys.stderr)
        sys.exit(4)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    own = ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items())
    if told not in ("", own):
        print(f"vendor-compiler: fatal error: told of {told}, the network takes {own}", file=sys.stderr)
        sys.exit(4)
    if chip == "b2":
        for weight in model.graph.initializer:
            if weight.data_type == onnx.TensorProto.FLOAT:
                narrow = numpy_helper.to_array(weight).astype(np.float16).astype(np.float32)
                weight.CopyFrom(numpy_helper.from_array(narrow, weight.name))
    convolved = {n.output[0] for n in model.graph.node if n.op_type == "Conv"}
    for node in model.graph.node:
        if node.op_type == "Relu" and (chip == "d4" or (chip == "c3" and node.input[0] in convolved)):
            node.op_type = "Abs"
    with zipfile.ZipFile(target, "w") as file:
        file.writestr("network.onnx", model.SerializeToString())
        file.writestr("chip.json", json.dumps({"chip": chip}))


def read(text: str) -> tuple[str, np.ndarray]:
    """An input: NAME=FILE, with :DTYPE:SHAPE for raw ones."""
    name, _, place = text.partition("=")
    file, *kind = place.split(":")
    if file.endswith(".npy"):
        return name, np.load(file, allow_pickle=False)
    shape = [int(n) for n in kind[1].split("x")] if kind[1] else []
    return name, np.fromfile(file, kind[0]).reshape(shape)


def run_network(artefact: Path, feeds: dict[str, np.ndarray], dump: bool) -> dict[str, np.ndarray]:
    import onnx
    import onnxruntime

    with zipfile.ZipFile(artefact) as file:
        model = onnx.load_from_string(file.read("network.onnx"))
    if dump:
        have = {o.name for o in model.graph.output}
        made = [o for n in model.graph.node for o in n.output if o and o not in have]
        model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(o) for o in made)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def write(results: dict[str, np.ndarray], folder: Path, form: str) -> None:
    if form == "safetensors":
        from safetensors.numpy import save_file

        save_file(
            {n: np.ascontiguousarray(a) for n, a in results.items()}, str(folder / "tensors.safetensors")
        )
        return
    for name, array in results.items():
        file = folder / f"{re.sub(r'[^A-Za-z0-9_]', '_', name)}.{form}"
        if form == "npy":
            np.save(file, array)
        else:
            array.tofile(file)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="version", version="vendor toolchain 7.2.1")
    verbs = parser.add_subparsers(dest="verb", required=True)
    building = verbs.add_parser("compile")
    building.add_argument("source", type=Path)
    building.add_argument("target", type=Path)
    building.add_argument("--chip", default="a1")
    building.add_argument("--told", default="")
    running = verbs.add_parser("run")
    running.add_argument("artefact", type=Path)
    running.add_argument("--in", dest="inputs", action="append", default=[])
    running.add_argument("--all-in", dest="together", default="")
    running.add_argument("--out", type=Path, required=True)
    running.add_argument("--form", default="npy")
    running.add_argument("--dump", action="store_true")
    running.add_argument("--fail", default="")
    given = parser.parse_args()
    if given.verb == "compile":
        compile_network(given.source, given.target, given.chip, given.told)
        return
    print("vendor runtime: opening the device", flush=True)
    if given.fail == "abort":
        print("vendor runtime: DMA timeout on channel 3", file=sys.stderr, flush=True)
        os.abort()
    if given.fail == "hang":
        time.sleep(600)
    if given.fail == "silent":
        return
    if given.together:
        from safetensors.numpy import load_file

        feeds = load_file(given.together)
    else:
        feeds = dict(read(text) for text in given.inputs)
    results = run_network(given.artefact, feeds, given.dump)
    if given.fail == "short":
        results = {n: a.reshape(-1)[:-1] for n, a in results.items()}
    write(results, given.out, given.form)


if __name__ == "__main__":
    main()
