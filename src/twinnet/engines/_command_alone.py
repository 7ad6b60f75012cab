"""Run the programs of a toolchain without twinnet: shared by the command engine and `repro.py`.

The source of these functions is copied into `repro.py`, so they must not use twinnet and may call only each other.
"""

from __future__ import annotations

from typing import Any

from twinnet.engines._onnx_alone import typed_model

__all__ = [
    "command_lines",
    "filled",
    "read_results",
    "run_command",
    "said_problem",
    "tensor_files",
    "write_feeds",
    "write_files",
]


def filled(text: str, values: dict[str, str]) -> str:
    """A text with its placeholders replaced; `{{` and `}}` stand for braces.

    >>> filled("--in={inputs[x]} {{}}", {"inputs[x]": "x.npy"})
    '--in=x.npy {}'
    """
    import re

    def replaced(found: Any) -> str:
        whole = found[0]
        return whole[0] if whole in ("{{", "}}") else values[found[1]]

    return re.sub(r"\{\{|\}\}|\{([^{}]+)\}", replaced, text)


def command_lines(
    commands: Any, values: dict[str, str], inputs: list[dict[str, str]], outputs: list[dict[str, str]]
) -> list[list[str]]:
    """Commands as lists of arguments. An argument for `each` input or output is repeated, or joined into one.

    >>> each = {"each": "inputs", "text": "{name}:{file}", "join": ",", "before": "--load="}
    >>> files = [{"name": "a", "file": "a.npy"}, {"name": "b", "file": "b.npy"}]
    >>> command_lines([["run", each]], {}, files, [])
    [['run', '--load=a:a.npy,b:b.npy']]
    """
    lines = []
    for command in commands:
        line: list[str] = []
        for part in command:
            if isinstance(part, str):
                line.append(filled(part, values))
                continue
            items = inputs if part["each"] == "inputs" else outputs
            texts = [filled(part["text"], {**values, **item}) for item in items]
            if part.get("join") is None:
                line += texts
            else:
                line.append(filled(part.get("before") or "", values) + part["join"].join(texts))
        lines.append(line)
    return lines


def tensor_files(names: list[str], types: dict[str, Any], form: str, folder: str, pattern: str) -> list[Any]:
    """The values of placeholders for each tensor, as text: name, file, dtype, shape and index."""
    import re
    from pathlib import Path

    endings = {"npy": "npy", "raw": "bin", "safetensors": "safetensors"}
    found = []
    for index, name in enumerate(names):
        dtype, shape = types.get(name, ("", None))
        item = {
            "name": name,
            "plain": re.sub(r"[^A-Za-z0-9_]", "_", name),
            "index": str(index),
            "dtype": dtype,
            "shape": "" if shape is None else "x".join(str(n) for n in shape),
        }
        one = "tensors" if form == "safetensors" else str(index)
        file = filled(pattern, item) if pattern else f"{one}.{endings[form]}"
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise ValueError(
                f"the name {name!r} of a tensor leads out of the folder of its files ({pattern})"
            )
        found.append({**item, "file": str(Path(folder, file))})
    return found


def write_feeds(files: list[Any], feeds: dict[str, Any], form: str) -> None:
    """Write inputs to files in one of the three formats."""
    import numpy

    arrays = {f["name"]: numpy.array(feeds[f["name"]], order="C") for f in files}
    if form == "safetensors":
        from safetensors.numpy import save_file

        save_file(arrays, files[0]["file"])
        return
    for file in files:
        if form == "npy":
            numpy.save(file["file"], arrays[file["name"]], allow_pickle=False)
        else:
            arrays[file["name"]].tofile(file["file"])


def write_files(
    files: dict[str, Any], folder: str, values: dict[str, str], inputs: Any, outputs: Any
) -> None:
    """Write the other files that a program needs, such as a list of its tensors."""
    from pathlib import Path

    for name, part in files.items():
        texts = command_lines([[{**part, "join": None}]], values, inputs, outputs)[0]
        before = filled(part.get("before") or "", values)
        join = "\n" if part.get("join") is None else part["join"]
        Path(folder, name).write_text(before + join.join(texts) + "\n", encoding="utf-8")


def read_results(files: list[Any], types: dict[str, Any], form: str, raw_dtype: str) -> dict[str, Any]:
    """Read the tensors that a program wrote, by name; missing files are left out.

    Raw files hold neither type nor shape: the network's are used, or `raw_dtype` if the program always writes one.
    """
    from pathlib import Path

    import numpy

    results: dict[str, Any] = {}
    opened: dict[str, Any] = {}
    for file in files:
        name, path = file["name"], file["file"]
        if not Path(path).is_file():
            continue
        if form == "safetensors":
            from safetensors.numpy import load_file

            if path not in opened:
                opened[path] = load_file(path)
            if name in opened[path]:
                results[name] = opened[path][name]
            continue
        dtype, shape = types.get(name, ("", None))
        if form == "npy":
            results[name] = numpy.load(path, allow_pickle=False)
        else:
            if shape is None:
                raise ValueError(f"{name} was written raw, and its shape is not known")
            array = numpy.fromfile(path, raw_dtype or dtype)
            size = 1
            for n in shape:
                size *= n
            if array.size != size:
                raise ValueError(
                    f"{path} holds {array.size} values of {raw_dtype or dtype}; {name} has {size} "
                    f"({'x'.join(str(n) for n in shape)})"
                )
            results[name] = array.reshape(shape)
        if dtype and results[name].dtype != dtype:
            # Programs without unsigned or half types write the nearest type; the network knows the right one.
            same = (
                results[name].dtype.kind in "iu"
                and results[name].dtype.itemsize == numpy.dtype(dtype).itemsize
            )
            results[name] = results[name].view(dtype) if same else results[name].astype(dtype)
    return results


def said_problem(log: str, pattern: str, folder: str) -> str:
    """The sentence of a log that names the problem: what `pattern` finds, else the first line about an error.

    >>> said_problem("start\\nerror: no kernel for Gru (code 3)\\nbye", r"error: (.*) \\(", "/tmp")
    'no kernel for Gru'
    """
    import re

    log = log.replace(f"{folder}/", "")
    found = re.search(pattern, log, re.M) if pattern else None
    if found:
        return (found[1] if found.re.groups else found[0]).strip()
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    last = lines[-1] if lines else "it printed nothing"
    return next((line for line in lines if "error" in line.lower()), last)


def run_command(model: Any, options: dict[str, str], feeds: dict[str, Any]) -> dict[str, Any]:
    """Outputs of an ONNX file (a path or its bytes) under the programs described in `options["description"]`."""
    import json
    import os
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    import onnx

    told = json.loads(options["description"])
    loaded = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    network, known, _ = typed_model(loaded, feeds, told["static"], told["opset"], told["opset"])
    types = {}
    for name, info in known.items():
        kind = info.type.tensor_type
        sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name
        types[name] = (dtype, None if min(sizes, default=0) < 0 else sizes)
    held = {t.name for t in network.graph.initializer}
    taken = [i.name for i in network.graph.input if i.name not in held]
    with tempfile.TemporaryDirectory() as folder:
        places = {k: str(Path(folder, k)) for k in ("inputs", "outputs")}
        for place in places.values():
            Path(place).mkdir()
        path = str(Path(folder, "network.onnx"))
        onnx.save(network, path)
        ins = tensor_files(
            taken,
            {n: (feeds[n].dtype.name, feeds[n].shape) for n in taken},
            told["input_form"],
            places["inputs"],
            told["input_files"],
        )
        outs = tensor_files(
            [o.name for o in network.graph.output],
            types,
            told["output_form"],
            places["outputs"],
            told["output_files"],
        )
        write_feeds(ins, feeds, told["input_form"])
        values = {
            **told["values"],
            **places,
            "model": path,
            "graph": network.graph.name,
            "folder": folder,
            "python": sys.executable,
        }
        values["artefact"] = str(Path(folder, told["artefact"])) if told["compile"] else path
        values.update({f"inputs[{f['name']}]": f["file"] for f in ins})
        write_files(told["files"], folder, values, ins, outs)
        path_list = f"{Path(sys.executable).parent}{os.pathsep}" + os.environ.get("PATH", "")
        more = {k: filled(v, values) for k, v in told["environment"].items()}
        for line in command_lines(told["compile"] + told["run"], values, ins, outs):
            done = subprocess.run(
                line,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=told["time_limit"],
                check=False,
                cwd=folder,
                env={**os.environ, "PATH": path_list, **more},
            )
            if done.returncode:
                said = said_problem(done.stdout + "\n" + done.stderr, told["problem"], folder)
                raise RuntimeError(f"{Path(line[0]).name} ended with {done.returncode}: {said}")
        results = read_results(outs, types, told["output_form"], told["raw_dtype"])
        missing = [f["name"] for f in outs if f["name"] not in results]
        if missing:
            raise RuntimeError(f"the program wrote no file for {missing[0]}")
        return results
