"""The sections of an experiment. Descriptions are the comments of the written file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from twinnet.restore.config.base import OneOf, Problem, Section
from twinnet.restore.tasks import find_task, task_names

if TYPE_CHECKING:
    from twinnet.restore.config.whole import Config

__all__ = [
    "CascadeStage",
    "DataSection",
    "ExportSection",
    "FinetuneSection",
    "ModelSection",
    "TrainSection",
]

Schedule = Literal["cosine", "constant"]
Loss = Literal["mse", "l1", "charbonnier"]


class CascadeStage(Section):
    """One stage of a cascade."""

    patterns: str = Field(default="s", description="Sampling patterns: letters, or names joined by +.")
    upscale: int = Field(default=1, ge=1, le=16, description="Output pixels per site along each axis.")
    cell: int = Field(default=1, ge=1, le=16, description="Source pixels per site along each axis.")
    centred: bool = Field(default=False, description="Signed values around grey, for stages between.")
    interval: int = Field(default=4, ge=0, le=8, description="Interval bits of its tables.")


class ModelSection(Section):
    """The network that becomes tables."""

    task: Annotated[str, OneOf(task_names)] = Field(default="sr", description="What is restored.")
    type: Literal["srlut", "mulut", "cascade", "spf", "auto-mulut", "auto-spf"] = Field(
        default="mulut", description="Kind of network."
    )
    scale: int = Field(
        default=4, ge=1, le=4, description="Output pixels per input pixel; 1 for tasks that keep the size."
    )
    modes: str = Field(
        default="sdy",
        min_length=1,
        description="Sampling patterns: letters of s d y e h o, or names joined by + (see `twinnet.lut.patterns`). "
        "srlut takes one of s V F; for auto-* only their number counts.",
    )
    stages: int = Field(default=2, ge=1, le=16, description="Stages of mulut and auto-mulut.")
    sample_size: int = Field(
        default=5, ge=1, le=31, description="Side of the learned sampling window of auto-*."
    )
    features: int = Field(default=64, ge=1, le=1024, description="Width of the hidden layers.")
    activation: Literal["relu", "gelu"] = Field(default="relu", description="Hidden activation.")
    padding: Literal["edge", "reflect"] = Field(default="edge", description="Pixels outside the image.")
    interpolation: Literal["simplex", "multilinear"] = Field(
        default="simplex", description="Interpolation between table nodes."
    )
    cascade: list[CascadeStage] = Field(
        default_factory=list,
        description="Stages of type cascade, each { patterns, upscale, cell, centred, interval }.",
    )

    def problems(self, config: Config) -> Iterator[Problem]:
        """Scale against task, modes against type."""
        from twinnet.errors import UsageError
        from twinnet.lut.patterns import PATTERNS, patterns

        resizes = find_task(self.task).resizes
        if resizes and self.scale == 1:
            yield Problem(("model", "scale"), f"{self.task} needs a larger scale than 1", "2, 3 or 4")
        if not resizes and self.scale != 1:
            yield Problem(("model", "scale"), f"{self.task} keeps the size of the image", "1")
        if self.type == "srlut" and self.modes not in ("s", "V", "F"):
            yield Problem(("model", "modes"), f"srlut has one pattern, not {self.modes!r}", "s, V or F")
        if self.type == "srlut" and self.activation != "relu":
            yield Problem(("model", "activation"), "srlut uses ReLU", "relu")
        if self.type in ("mulut", "spf"):
            try:
                patterns(self.modes)
            except UsageError as error:
                yield Problem(("model", "modes"), error.what, " ".join(PATTERNS))
        if self.type == "cascade":
            yield from self._cascade()
        elif self.cascade:
            yield Problem(("model", "cascade"), f"type {self.type} has no cascade of stages", "[]")

    def _cascade(self) -> Iterator[Problem]:
        from twinnet.errors import UsageError
        from twinnet.lut.patterns import PATTERNS, patterns

        key = ("model", "cascade")
        if not self.cascade:
            yield Problem(key, "type cascade needs its stages", "[{ patterns = 's', upscale = 2 }, ...]")
            return
        size = 1
        for number, stage in enumerate(self.cascade, start=1):
            try:
                patterns(stage.patterns)
            except UsageError as error:
                yield Problem(key, f"stage {number}: {error.what}", " ".join(PATTERNS))
            if size % stage.cell:
                yield Problem(
                    key, f"stage {number}: cells of {stage.cell} do not divide an image at x{size}", "1"
                )
                return
            size = size // stage.cell * stage.upscale
        if size != self.scale:
            yield Problem(key, f"the stages give x{size}, but scale is {self.scale}", f"x{self.scale}")


class DataSection(Section):
    """Images. Relative folders start at the folder of this file."""

    train: list[str] = Field(
        default_factory=list, description="Folders of good images to train on, searched below."
    )
    train_low: list[str] = Field(
        default_factory=list,
        description="Folders with the bad images that go with them, by name. Empty: they are made.",
    )
    valid: list[str] = Field(
        default_factory=list, description="Folders to validate on. Empty: a part of train is held out."
    )
    valid_low: list[str] = Field(default_factory=list, description="Folders with the bad images of valid.")
    valid_share: float = Field(default=0.05, ge=0, le=0.5, description="Share of train that is held out.")
    bench: str = Field(
        default="", description="Folder of benchmark folders, each with HR/ (and LR_x4/ ...) or images."
    )
    benchmarks: list[str] = Field(
        default_factory=list, description="Names of those to use. Empty: the published ones of the task."
    )
    batch_size: int = Field(default=32, ge=1, description="Crops per iteration, over all processes.")
    crop_size: int = Field(default=48, ge=4, description="Side of a crop in pixels of the bad image.")
    weigh: Literal["images", "pixels"] = Field(
        default="images", description="Every image equally often, or every pixel: large images more often."
    )
    augment: bool = Field(default=True, description="Flip and turn crops at random.")
    tones: float = Field(
        default=0.0, ge=0, le=1, description="sr: share of crops with less contrast, half of them inverted."
    )
    workers: int = Field(
        default=0, ge=0, le=64, description="Processes that cut crops; 0: the training process itself."
    )
    bicubic: Literal["matlab", "once"] = Field(
        default="matlab", description="sr: rounding of the bicubic images, see `twinnet.restore.bicubic`."
    )
    colour: bool = Field(default=False, description="denoise: judge colour images; else gray ones.")
    sigma: float = Field(
        default=25.0, gt=0, le=255, description="denoise: standard deviation of the noise, of 255."
    )
    quality: int = Field(default=20, ge=1, le=100, description="deblock: JPEG quality.")
    blur: int = Field(default=9, ge=1, le=63, description="deblur: longest synthesised motion in pixels.")

    def problems(self, config: Config) -> Iterator[Problem]:
        """Paired folders."""
        for good, bad in (("train", "train_low"), ("valid", "valid_low")):
            if getattr(self, bad) and len(getattr(self, bad)) != len(getattr(self, good)):
                yield Problem(
                    ("data", bad),
                    f"there are {len(getattr(self, bad))} folders, but {len(getattr(self, good))} in {good}",
                    f"one for each of {good}, or none",
                )
        if self.tones and not find_task(config.model.task).any_tones:
            yield Problem(("data", "tones"), f"{config.model.task} cannot change tones", "0.0")
        if not self.valid and self.valid_share == 0:
            yield Problem(("data", "valid_share"), "without valid folders a share must be held out", "over 0")
        if self.valid and bool(self.valid_low) != bool(self.train_low):
            yield Problem(("data", "valid_low"), "train and valid must both have bad images, or neither")


class _Loop(Section):
    """Settings that training and fine-tuning share."""

    iterations: int = Field(default=200_000, ge=1, description="Steps of the optimiser.")
    learning_rate: float = Field(default=1e-3, gt=0, le=10, description="Learning rate at the start.")
    learning_rate_end: float = Field(
        default=1e-4, ge=0, le=10, description="Learning rate at the end, if cosine."
    )
    schedule: Schedule = Field(default="cosine", description="How the learning rate falls.")
    loss: Loss = Field(default="mse", description="What is minimised, on images in [0, 1].")
    betas: list[float] = Field(default=[0.9, 0.999], min_length=2, max_length=2, description="Betas of Adam.")
    eps: float = Field(default=1e-8, gt=0, description="Epsilon of Adam.")
    weight_decay: float = Field(default=0.0, ge=0, description="Weight decay of Adam.")
    seed: int = Field(default=0, ge=0, description="Seed of all random numbers.")
    log_every: int = Field(default=100, ge=1, description="Iterations between lines of the log.")
    checkpoint_every: int = Field(default=2000, ge=1, description="Iterations between checkpoints.")
    keep_checkpoints: int = Field(default=5, ge=0, description="How many are kept beside the best; 0: all.")
    validate_every: int = Field(default=2000, ge=1, description="Iterations between validations.")
    validate_images: int = Field(default=8, ge=1, description="Validation images to use at most.")
    validate_crop: int = Field(
        default=256, ge=0, description="Side of their middle part that is used, in good pixels; 0: all."
    )
    tensorboard: bool = Field(default=True, description="Write scalars and sample images for TensorBoard.")

    def problems(self, config: Config) -> Iterator[Problem]:
        """Ranges that depend on each other."""
        name = next(n for n in type(config).model_fields if getattr(config, n) is self)
        if not all(0 <= beta < 1 for beta in self.betas):
            yield Problem((name, "betas"), f"invalid value {self.betas}", "two numbers in [0, 1)")
        if 0 < self.validate_crop < 32:
            yield Problem((name, "validate_crop"), "too small to be scored", "0, or 32 and more")
        if self.schedule == "cosine" and self.learning_rate_end > self.learning_rate:
            yield Problem((name, "learning_rate_end"), "it must not exceed learning_rate")


class TrainSection(_Loop):
    """Training of the network."""

    precision: Literal["no", "bf16", "fp16"] = Field(
        default="no", description="Mixed precision of accelerate."
    )


class ExportSection(Section):
    """From the network to its tables."""

    checkpoint_iter: int | Literal["best", "last"] = Field(
        default="best", description="Which checkpoint: best (by validation), last, or an iteration."
    )
    interval: int = Field(default=4, ge=0, le=8, description="Interval bits: nodes every 2^interval values.")
    last_node: Literal[255, 256] = Field(
        default=256, description="Value at which the last node is evaluated."
    )
    dfc: bool = Field(default=False, description="Also write tables with diagonal-first compression.")
    dfc_axes: Literal["xy", "xyz", "xyzt"] = Field(
        default="xyzt", description="Taps that must be near the first."
    )
    dfc_width: int = Field(default=2, ge=1, le=254, description="Half-width of the band, in nodes.")
    dfc_interval: int = Field(default=5, ge=1, le=8, description="Interval bits of the rest.")

    def problems(self, config: Config) -> Iterator[Problem]:
        """Compression against grid and interpolation; the size of the tables."""
        if isinstance(self.checkpoint_iter, int) and self.checkpoint_iter < 1:
            yield Problem(
                ("export_lut", "checkpoint_iter"), f"there is no iteration {self.checkpoint_iter}",
                "best, last, or a number from 1",
            )  # fmt: skip
        if self.interval < 3 and config.model.modes not in ("V", "F"):
            nodes = (256 >> self.interval) + 1
            yield Problem(
                ("export_lut", "interval"), f"a table of {nodes}^4 rows is too large", "3 to 8 for four taps"
            )
        if not self.dfc:
            return
        if config.model.interpolation != "simplex":
            yield Problem(("export_lut", "dfc"), "compressed tables need simplex interpolation", "false")
        if self.dfc_interval <= self.interval:
            yield Problem(
                ("export_lut", "dfc_interval"),
                "the rest must be coarser than the band",
                f"{self.interval + 1} to 8",
            )
        if self.dfc_width > (256 >> self.interval) - 1:
            yield Problem(
                ("export_lut", "dfc_width"),
                f"the table has {(256 >> self.interval) + 1} nodes",
                f"1 to {(256 >> self.interval) - 1}",
            )


class FinetuneSection(_Loop):
    """Tables as parameters."""

    table: Literal["exported", "compressed", "fitted"] = Field(
        default="exported", description="Which tables are tuned."
    )
    iterations: int = Field(default=2000, ge=1, description="Steps of the optimiser.")
    batch_size: int = Field(
        default=0, ge=0, description="Crops per iteration, over all processes; 0: as in data."
    )
    rounding: Literal["finetune", "deploy"] = Field(
        default="finetune",
        description="Round the running sum (as published), or only the result (as deployed).",
    )
    flat: bool = Field(default=False, description="Keep flat areas of every grey exactly as they are.")
    samplers: bool = Field(default=True, description="auto-*: also tune samplers and residual weights.")
    kernel: Literal["auto", "torch", "native"] = Field(default="auto", description="What computes a step.")
    log_every: int = Field(default=50, ge=1, description="Iterations between lines of the log.")
    checkpoint_every: int = Field(default=500, ge=1, description="Iterations between checkpoints.")
    validate_every: int = Field(default=500, ge=1, description="Iterations between validations.")

    def problems(self, config: Config) -> Iterator[Problem]:
        """Compressed tables must exist to be tuned."""
        yield from super().problems(config)
        if self.table == "compressed" and not config.export_lut.dfc:
            yield Problem(("finetune_lut", "table"), "export_lut.dfc is false, so there are none", "exported")
