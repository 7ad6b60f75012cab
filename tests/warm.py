"""`twinnet` and `python FILE.py` as commands that start at once: forked from a process that has done the imports.

Pages of the documentation and tests of the command line run some two hundred commands; two seconds of each would be
imports. The command is still a process of its own, with its own folder, environment, standard streams and exit code.
`tests/test_imports.py` and `tests/trust` start the program itself.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path

__all__ = ["LARGEST_FILE", "warm_command"]

LARGEST_FILE = "TWINNET_TESTS_LARGEST_FILE"
"""An environment variable: bytes beyond which a command cannot write a file, as on a full disk."""

_CLIENT = """#!{python} -IS
import json, os, socket, sys
name = os.path.basename(sys.argv[0])
if name == "python" and not "".join(sys.argv[1:2]).endswith(".py"):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    said = json.dumps([[name, *sys.argv[1:]], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(said).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(said)
    code = server.recv(4)
sys.exit(int.from_bytes(code, "big") if code else 4)
"""


def warm_command(folder: Path) -> Path:
    """Start the server, once for a folder, and return a folder for PATH that has `twinnet` and `python` in it."""
    place = folder / "bin"
    if (place / "twinnet").exists():
        return place
    place.mkdir(parents=True, exist_ok=True)
    address = str(folder / "socket")
    alone = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.warm", address, str(os.getpid())],
        cwd=Path(__file__).parents[1],
        env={**os.environ, **alone},
    )
    for _ in range(1200):
        if Path(address).exists():
            break
        if server.poll() is not None:
            raise RuntimeError("the server of warm commands ended")
        time.sleep(0.1)
    else:
        raise RuntimeError("the server of warm commands did not start")
    for name in ("python", "twinnet"):
        script = place / name
        script.write_text(_CLIENT.format(python=sys.executable, address=address))
        script.chmod(0o755)
    return place


def _serve(address: str, parent: int) -> None:
    _warm()
    gc.set_threshold(50_000, 20, 20)
    gc.freeze()  # what is imported stays in memory that all commands share
    # What is forked from a process with threads may wait for ever for a lock that one of them held.
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "an import has started a thread"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who answer
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address + ".new")
        door.listen(8)
        door.settimeout(1.0)
        Path(address + ".new").rename(address)
        while os.getppid() == parent:
            with contextlib.suppress(TimeoutError):
                caller, _ = door.accept()
                with caller:
                    if os.fork() == 0:
                        _answer(caller)


_IMPORTED = """
    PIL.ImageOps PIL.PngImagePlugin jinja2 numpy.ma onnx.checker onnx.shape_inference
    onnxscript.function_libs.torch_lib.ops onnxscript.optimizer onnxscript.rewriter torch._functorch.aot_autograd
    torch.onnx._internal.exporter._core torch.onnx._internal.exporter._torchlib.ops twinnet.blame.causes twinnet.check
    twinnet.checking.run twinnet.cli.main twinnet.engines.registry twinnet.engines.torch twinnet.environment
    twinnet.judge.born twinnet.layers.read_fx twinnet.network.exported twinnet.network.torch_network twinnet.onnx.export
    twinnet.onnx.network twinnet.report.files twinnet.report.json_file twinnet.report.pictures twinnet.report.show
    twinnet.report.terminal twinnet.shrink"""


def _warm() -> None:
    """Import what most commands import, much of which PyTorch imports only when it exports a network.

    Nothing is done that starts threads: taking a program apart would, and so does the import of onnxruntime.
    """
    for name in _IMPORTED.split():
        importlib.import_module(name)
    import torch

    torch.export.export(torch.nn.Linear(1, 1).eval(), (torch.zeros(1, 1),))
    from torch.onnx._constants import ONNX_DEFAULT_OPSET
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    from twinnet.progress import quiet
    from twinnet.torch_versions import onnx_operators_kept

    with quiet("torch.onnx"), onnx_operators_kept():  # as a conversion asks for it
        ONNXRegistry.from_torchlib(opset_version=ONNX_DEFAULT_OPSET)

    import typer.main

    from tests.verbs import keep_verbs
    from twinnet.cli.main import app

    keep_verbs()
    typer.main.get_command(app)


def _answer(caller: socket.socket) -> None:
    """Run one command and send its exit code; ends this process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    caller.settimeout(None)
    head, streams, _, _ = socket.recv_fds(caller, 4, 3)
    size, said = int.from_bytes(head, "big"), b""
    while len(said) < size:
        said += caller.recv(size - len(said))
    child = os.fork()
    if child == 0:
        caller.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        _command(*json.loads(said))
    for stream in streams:
        os.close(stream)
    done, status = 0, 0
    while not done:
        if select.select([caller], [], [], 0.02)[0]:  # whoever called was killed
            os.kill(child, signal.SIGTERM)
            os._exit(0)
        done, status = os.waitpid(child, os.WNOHANG)
    code = os.waitstatus_to_exitcode(status)
    with contextlib.suppress(OSError):
        caller.sendall((code if code >= 0 else 128 - code).to_bytes(4, "big"))
    os._exit(0)


def _command(words: list[str], folder: str, environment: dict[str, str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if LARGEST_FILE in environment:
        limit = int(environment[LARGEST_FILE])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    if environment.get("PYTHONWARNINGS") == "ignore":
        warnings.simplefilter("ignore")
    code: object = 0
    try:
        _run(words)
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    # Libraries would wait here for threads that were not forked.
    os._exit(code if isinstance(code, int) else int(code is not None))


def _run(words: list[str]) -> None:
    if words[0] == "python":
        sys.argv = words[1:]
        sys.path[0] = str(Path(words[1]).absolute().parent)
        runpy.run_path(words[1], run_name="__main__")
        return
    from twinnet.cli.main import main

    sys.argv = words
    sys.path[0] = str(Path(sys.executable).parent)
    main()


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
