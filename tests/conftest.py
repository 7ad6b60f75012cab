"""One cache of exported networks for all workers, one torch thread each, and no talk of other libraries."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.verbs import keep_verbs

# Half a million objects stay alive once all engines are imported. Looking through them as often as Python does by
# default takes an eighth of the whole run.
gc.set_threshold(50_000, 20, 20)

# Some virtual machines announce AMX and end a process that uses it; bfloat16 is tested without it. Read when first used
# by oneDNN, which PyTorch and OpenVINO bring.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# Threads that wait in turns for two cores shall not keep them busy. For the programs that tests start.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# A property holds or not; how long a busy machine takes to see it says nothing.
settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")

if TYPE_CHECKING:
    from tests.narrow import Files


def pytest_configure(config: pytest.Config) -> None:
    """Before anything is imported: workers inherit the cache of the process that started them."""
    if not hasattr(config, "workerinput") and "TWINNET_TEST_CACHE" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="twinnet-test-cache-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ["TWINNET_CACHE"] = os.environ["XDG_STATE_HOME"] = folder.name
    elif "TWINNET_TEST_CACHE" in os.environ:
        # A cache that outlives the run, for those who run tests again and again.
        os.environ["TWINNET_CACHE"] = os.environ["TWINNET_TEST_CACHE"]
    os.environ.setdefault("COLUMNS", "100")
    warnings.filterwarnings("ignore")
    config.option.log_level = config.option.log_level or "ERROR"
    keep_verbs()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.scheduling import ByFile

    return ByFile(config, log)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Many small operations: one thread each is fastest, and fair to the tests beside them."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def onnx_operators_stay() -> Iterator[None]:
    """Tests that export to ONNX themselves keep PyTorch's tables as twinnet does, once one has loaded them."""
    if "torch.onnx._internal.exporter._registration" not in sys.modules:
        yield
        return
    from twinnet.torch_versions import onnx_operators_kept

    with onnx_operators_kept():
        yield


@pytest.fixture(autouse=True)
def engines_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that a test registers, as a suite run in this process does, is gone after it."""
    from twinnet.engines import registry

    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what several tests of one worker read."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(autouse=True)
def page_with_a_board(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A page of the documentation that has the line `<!-- board -->` reaches a board as `ssh://board`."""
    page = getattr(request.node, "callspec", None) and request.node.callspec.params.get("page")
    if not isinstance(page, Path) or "<!-- board -->" not in page.read_text(encoding="utf-8"):
        yield
        return
    from tests.boards import start_board
    from twinnet.remote.ssh import CONFIG

    board = start_board(tmp_path_factory.mktemp("board") / "b")
    monkeypatch.setenv(CONFIG, str(board.config))
    yield
    board.stop()


@pytest.fixture(scope="session")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A network with its float16 and int8 twins as files."""
    from tests.narrow import make

    return make(tmp_path_factory.mktemp("narrow"))


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PATH: `twinnet` and `python` without their imports."""
    from tests.warm import warm_command

    return warm_command(tmp_path_factory.mktemp("warm"))
