"""`Experiment`: a folder with a config and everything made from it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from twinnet.errors import EngineError
from twinnet.restore.config import CONFIG_NAME, Config, load

__all__ = ["Experiment", "open_experiment", "write_whole"]


@dataclass(frozen=True)
class Experiment:
    """The folder of an experiment.

    `checkpoints/` and `finetune/` hold checkpoints, `lut/` tables, `eval/` results, `logs/` what TensorBoard shows,
    `train.csv` and `finetune.csv` the same as text.
    """

    folder: Path
    config: Config
    text: str
    """Of the config, as stored with every artefact."""

    @property
    def config_file(self) -> Path:
        """Its config."""
        return self.folder / CONFIG_NAME

    def tables(self, kind: str) -> Path:
        """The file of tables: `exported`, `compressed`, `fitted` or what fine-tuning made of them,
        `finetuned`, `finetuned-compressed`, `finetuned-fitted`."""
        return self.folder / "lut" / f"{kind}.lut.safetensors"

    def paths(self, names: Iterable[str]) -> list[Path]:
        """Folders of the config; relative ones start at the experiment."""
        return [self.folder / Path(name).expanduser() for name in names]


def open_experiment(folder: str | Path) -> Experiment:
    """Read and check the config of an experiment."""
    path = Path(folder)
    config = load(path)
    return Experiment(path, config, (path / CONFIG_NAME).read_text(encoding="utf-8"))


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically: the previous one stays until the new one is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise EngineError(
            f"{path} cannot be written: {error.strerror or error}",
            stage="write",
            hint="the previous file is intact; free some disk space and run again",
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
