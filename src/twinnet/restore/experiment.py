"""`Experiment`: a folder with a config and everything made from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from twinnet.restore.config import CONFIG_NAME, Config, load

__all__ = ["Experiment", "open_experiment"]


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
