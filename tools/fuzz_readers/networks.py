"""Files that hold networks or their weights, and what ExecuTorch writes beside a program."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.fuzz_readers.reader import Reader, small_net

__all__ = ["NETWORKS", "make_onnx"]


def make_onnx(folder: Path) -> None:
    """net.onnx."""
    import torch

    net, x = small_net()
    torch.onnx.export(net, (x,), folder / "net.onnx", external_data=False, verbose=False)


def _make_pt2(folder: Path) -> None:
    import torch

    net, x = small_net()
    torch.export.save(torch.export.export(net, (x,)), folder / "net.pt2")


def _inspect(path: Path) -> None:
    from twinnet.overview import inspect

    inspect(str(path))


def _make_executorch(folder: Path) -> None:
    """A program with its ETRecord, and a recording of it."""
    import torch

    import twinnet

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.SiLU(), torch.nn.Flatten(), torch.nn.Linear(64, 5)
    )
    x = torch.randn(1, 3, 6, 6)
    twinnet.record((net.eval(), (x,)), x, out=folder / "made", reference="executorch?threads=1")
    for name in ("etdump.etdp", "debug_buffer.bin", "program.etrecord", "program.pte"):
        shutil.copy(folder / "made" / "0000" / name, folder / name)


def _read_etdump(path: Path) -> None:
    from twinnet.inspector import Inspector

    home = path.parent
    found = Inspector(
        etdump_path=home / "etdump.etdp",
        buffer_path=home / "debug_buffer.bin",
        etrecord=home / "program.etrecord",
    )
    found.table(200)
    found.to_html()


def _read_pte(path: Path) -> None:
    import numpy as np

    from twinnet.engines import find_engine
    from twinnet.job import Job
    from twinnet.trace import TraceBuilder

    inputs = {"x": np.ones((1, 3, 6, 6), np.float32)}
    session = find_engine("executorch").open(None, {"threads": "1"}, str(path), Job(inputs, time_limit=8.0))
    try:
        session.trace(inputs, {site.tensor for site in session.sites}, TraceBuilder())
    finally:
        session.close()


def _make_tflite(folder: Path) -> None:
    """A converted network and its quantised form."""
    import torch

    from twinnet.engines import find_engine
    from twinnet.job import Job
    from twinnet.network import load_network

    torch.manual_seed(0)
    x = torch.randn(1, 3, 8, 8)
    net = load_network((torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval(), (x,)))
    engine, job = find_engine("litert"), Job({net.signature.inputs[0].name: x.numpy()})
    engine.save_stage(net, {}, folder / "float.tflite", job)
    engine.save_stage(net, {"quantize": "static"}, folder / "int8.tflite", job)


def _read_tflite(path: Path) -> None:
    from twinnet.tflite.network import TfliteNetwork
    from twinnet.tflite.read import read_tflite
    from twinnet.tflite.view import View

    model = TfliteNetwork.load(path).model
    read_tflite(model, View(model.main))


def _make_tables(folder: Path) -> None:
    from twinnet.models import available, file_of

    small = min(map(file_of, available()), key=lambda path: path.stat().st_size)
    shutil.copy(small, folder / f"tables{small.suffix}")


def _read_tables(path: Path) -> None:
    from twinnet.lut.file import read

    read(path)


def _make_pth(folder: Path) -> None:
    import torch

    torch.save({"params": {"a.weight": torch.rand(3, 4), "b": torch.arange(5)}}, folder / "x.pth")


def _read_pth(path: Path) -> None:
    from twinnet.pth import read_pth

    read_pth(path)


def _make_checkpoint(folder: Path) -> None:
    from safetensors.torch import save_file

    save_file(dict(small_net()[0].state_dict()), folder / "net.safetensors")


def _read_checkpoint(path: Path) -> None:
    from twinnet.store import TensorFile

    tensors = TensorFile(path)
    for name in tensors.keys():  # noqa: SIM118 - not a mapping
        tensors[name]


NETWORKS: dict[str, Reader] = {
    "onnx": Reader(make_onnx, _inspect, "*.onnx"),
    "pt2": Reader(_make_pt2, _inspect, "*.pt2"),
    "tflite": Reader(_make_tflite, _read_tflite, "*.tflite"),
    "pte": Reader(_make_executorch, _read_pte, "*.pte"),
    "etdump": Reader(_make_executorch, _read_etdump, "*.etdp"),
    "debug buffer": Reader(_make_executorch, _read_etdump, "*.bin"),
    "etrecord": Reader(_make_executorch, _read_etdump, "*.etrecord"),
    "tables": Reader(_make_tables, _read_tables, "tables.*"),
    "pth": Reader(_make_pth, _read_pth, "*.pth"),
    "safetensors": Reader(_make_checkpoint, _read_checkpoint, "*.safetensors"),
}
