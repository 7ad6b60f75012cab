"""Progress of a run: a bar or lines on the terminal, a CSV file, TensorBoard."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinnet.errors import EngineError, MissingExtra
from twinnet.files import atomic_write

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Journal", "Silence", "duration"]


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration(3725.4), duration(59)
    ('1:02:05', '0:59')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Silence:
    """A journal that writes nothing: of all processes but the first."""

    def step(self, iteration: int, numbers: Mapping[str, float]) -> None:
        """After every iteration."""

    def line(self, iteration: int, numbers: Mapping[str, float]) -> None:
        """A line of the log."""

    def images(self, iteration: int, images: Mapping[str, np.ndarray]) -> None:
        """Sample images, uint8."""

    def say(self, text: str) -> None:
        """A sentence for the terminal."""

    def close(self) -> None:
        """The end."""


class Journal(Silence):
    """The journal of the first process. Entries after `start` are from an interrupted run and are dropped."""

    def __init__(
        self, name: str, folder: Path, start: int, stop: int, *, tensorboard: bool, quiet: bool = False
    ) -> None:
        self._name, self._path, self._start, self._stop = name, folder / f"{name}.csv", start, stop
        self._quiet = quiet
        self._began, self._rows = time.monotonic(), self._earlier(start)
        self._last: dict[str, float] = {}
        self._writer = _writer(folder / "logs" / name, start) if tensorboard else None
        self._bar: Any = None
        self._task: Any = None
        if not quiet and sys.stderr.isatty():
            self._open_bar(name, start, stop)

    def _earlier(self, start: int) -> list[dict[str, str]]:
        if not self._path.exists():
            return []
        with self._path.open(newline="", encoding="utf-8") as file:
            rows = [r for r in csv.DictReader(file) if (r.get("iteration") or "").isdigit()]
        return [row for row in rows if int(row["iteration"]) <= start]

    def _open_bar(self, name: str, start: int, stop: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[words]}"),
            console=Console(stderr=True),
        )  # fmt: skip
        self._task = self._bar.add_task(name, total=stop, completed=start, words="")
        self._bar.start()

    def _speed(self, iteration: int) -> float:
        return (iteration - self._start) / max(time.monotonic() - self._began, 1e-9)

    def _words(self, iteration: int) -> str:
        speed = self._speed(iteration)
        words = [f"{speed:.2f} it/s", f"loss {self._last.get('loss', float('nan')):.3g}"]
        if "PSNR" in self._last:
            words.append(f"PSNR {self._last['PSNR']:.2f}")
        return "  ".join([*words, f"ETA {duration((self._stop - iteration) / max(speed, 1e-9))}"])

    def step(self, iteration: int, numbers: Mapping[str, float]) -> None:
        self._last.update(numbers)
        if self._bar is not None:
            self._bar.update(self._task, completed=iteration, words=self._words(iteration))

    def line(self, iteration: int, numbers: Mapping[str, float]) -> None:
        self._last.update({k: v for k, v in numbers.items() if k in ("loss", "PSNR")})
        rows = [row for row in self._rows if int(row["iteration"]) == iteration]
        row = rows[0] if rows else {"iteration": str(iteration)}
        row.update({k: f"{v:.6g}" for k, v in numbers.items()})
        row["it/s"] = f"{self._speed(iteration):.4g}"
        if not rows:
            self._rows.append(row)
        self._write()
        if self._writer is not None:
            for name, value in numbers.items():
                self._writer.add_scalar(f"{self._name}/{name}", value, iteration)
        if self._bar is None and not self._quiet:
            print(
                f"{self._name} {iteration}/{self._stop}  {self._words(iteration)}",
                file=sys.stderr,
                flush=True,
            )

    def _write(self) -> None:
        names = list(dict.fromkeys(name for row in self._rows for name in row))
        lines = [",".join(names), *(",".join(row.get(name, "") for name in names) for row in self._rows)]
        atomic_write(self._path, ("\n".join(lines) + "\n").encode(), durable=True)

    def images(self, iteration: int, images: Mapping[str, np.ndarray]) -> None:
        if self._writer is not None:
            for name, image in images.items():
                layout = "HW" if image.ndim == 2 else "HWC"
                self._writer.add_image(f"{self._name}/{name}", image, iteration, dataformats=layout)

    def say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        elif not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._writer is not None:
            self._writer.close()


def _writer(folder: Path, start: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra("tensorboard", "train") from error
    try:
        return SummaryWriter(str(folder), purge_step=start + 1)
    except OSError as error:
        raise EngineError(f"{folder} cannot be written: {error}", stage="log") from error
