"""One network under every setting of an engine, side by side: kernel sets, optimisation levels, quantisations."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinnet.check import check_with
from twinnet.checking.case import read_network
from twinnet.checking.options import Options
from twinnet.engines import Spec, find_engine, parse_specs, reference_spec
from twinnet.errors import UsageError
from twinnet.extras import optional_packages
from twinnet.job import Job
from twinnet.judge.guards import shuffled
from twinnet.judge.metrics import compare
from twinnet.report import figures
from twinnet.report.words import worst_ratio
from twinnet.result import ResultSet, Verdict, worst

__all__ = ["Matrix", "Setting", "matrix_with", "settings_of"]


@dataclass(frozen=True, slots=True)
class Setting:
    """The network under one setting. `snr` is that of its worst output in dB, `error` the largest difference."""

    twin: str
    verdict: Verdict
    ratio: float | None
    error: float | None
    snr: float | None
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class Matrix:
    """All settings, and the null baseline: how far the network itself moves if its input is shuffled.

    A twin whose figures are not far better than those of the null baseline is no nearer to the network than one that
    does not look at its input.
    """

    network: str
    settings: tuple[Setting, ...]
    null_error: float | None
    null_snr: float | None

    @property
    def verdict(self) -> Verdict:
        return worst([s.verdict for s in self.settings])

    def to_json(self) -> str:
        """Machine-readable form."""
        return json.dumps({**asdict(self), "verdict": self.verdict}, indent=1)

    def table(self) -> str:
        """The settings as lines of text, with the null baseline below them."""
        head = ("twin", "verdict", "error/floor", "largest error", "SNR", "time")
        rows = [head, *(_cells(s) for s in self.settings)]
        if self.null_error is not None:
            decibel = _decibel(self.null_snr)
            rows.append(
                ("(the network, input shuffled)", "", "", figures.figure(self.null_error), decibel, "")
            )
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = [
            "  ".join(
                c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))
            ).rstrip()
            for row in rows
        ]
        lines += [f"{s.twin}: {figures.clean(s.reason)}" for s in self.settings if s.reason]
        return "\n".join(lines).replace(figures.NBSP, " ")


def _cells(setting: Setting) -> tuple[str, ...]:
    return (
        figures.clean(setting.twin),
        setting.verdict,
        "" if setting.ratio is None else figures.times(setting.ratio),
        "" if setting.error is None else figures.figure(setting.error),
        _decibel(setting.snr),
        f"{setting.seconds:.1f} s",
    )


def _decibel(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} dB" if np.isfinite(value) else "equal" if value > 0 else ""


def settings_of(twin: Spec) -> list[Spec]:
    """Every setting of an engine; options that the spec states stay as they are.

    >>> [str(s) for s in settings_of(Spec("onnxruntime"))]
    ['onnxruntime?opt=off', 'onnxruntime?opt=basic', 'onnxruntime?opt=extended', 'onnxruntime?opt=all']
    """
    engine = find_engine(twin.engine)
    free = {
        key: values
        for key, values in engine.settings.items()
        if key not in twin.options and not (twin.file and key in engine.making)
    }
    if not free:
        raise UsageError(
            f"{twin} leaves nothing to vary",
            hint=f"engines with settings to compare: {', '.join(_with_settings())}",
        )
    made = []
    for chosen in itertools.product(*free.values()):
        options = {k: v for k, v in zip(free, chosen, strict=True) if v}
        made.append(replace(twin, options={**options, **twin.options}))
    return made


def _with_settings() -> list[str]:
    from twinnet.engines import all_engines

    return [engine.name for engine in all_engines() if engine.settings]


@optional_packages()
def matrix_with(
    options: Options,
    network: Any,
    inputs: Any = None,
    twin: str = "litert",
    *,
    out: str | Path | None = None,
    argv: Sequence[str] = (),
) -> tuple[Matrix, ResultSet]:
    """Check a network under every setting of its twins' engines; also the whole results."""
    specs = [spec for one in parse_specs(twin) for spec in settings_of(one)]
    loaded, feed = read_network(network, inputs, options)
    samples = list(feed.samples)
    lean = replace(options, shapes=None, preprocess=None, samples=None, seed=0)
    settings, results = [], []
    for number, spec in enumerate(specs):
        options.progress(f"{spec}", number / len(specs))
        start = time.perf_counter()
        folder = None if out is None else Path(out) / spec.slug
        result = check_with(lean, loaded, samples, str(spec), out=folder, argv=argv)
        assert not isinstance(result, ResultSet)
        results.append(result)
        ran = result.verdict != "ERROR"
        differences = [p.difference for p in result.outputs if p.difference.elements]
        settings.append(
            Setting(
                str(spec),
                result.verdict,
                worst_ratio(result) if ran else None,
                max((d.max_abs for d in differences), default=None),
                min((d.snr for d in differences), default=None),
                time.perf_counter() - start,
                result.error.strip().partition("\n")[0],
            )
        )
    return Matrix(loaded.name, tuple(settings), *_null(loaded, samples[0])), ResultSet(tuple(results))


def _null(network: Any, sample: Mapping[str, np.ndarray]) -> tuple[float | None, float | None]:
    """How far the network's own outputs move with its input shuffled: the largest error, and the worst SNR."""
    other = shuffled(sample)
    if not other:
        return None, None
    spec = reference_spec(network)
    session = find_engine(spec.engine).open(network, spec.options, None, Job(inputs=sample, samples=[sample]))
    try:
        first, moved = session.run(sample), session.run(other)
    finally:
        session.close()
    found = [
        compare(value, moved[name])
        for name, value in first.items()
        if name in moved and moved[name].shape == value.shape and value.dtype.kind == "f"
    ]
    return max((d.max_abs for d in found), default=None), min((d.snr for d in found), default=None)
