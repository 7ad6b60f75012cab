"""The cases of a suite: each model and each of its layers, on each engine."""

from __future__ import annotations

from fnmatch import fnmatchcase

from twinnet.suite.config import Config, EngineSet
from twinnet.suite.models import Model
from twinnet.suite.outcome import Case
from twinnet.suite.subject import subject_of

__all__ = ["cases_of"]


def cases_of(model: Model, config: Config) -> list[Case]:
    """The cases of one model. A file that cannot be read raises a TwinnetError."""
    named = (model.name, model.path.name)
    sets = [s for s in config.engines if any(fnmatchcase(name, s.models) for name in named)]
    wanted = config.of_model(model.name).layers is not False
    names: list[str] = []
    # Read even if no engine wants layers: a file that cannot be read is known before anything runs.
    listed = [layer.name for layer in subject_of(model, config).layers()]
    if wanted:
        names = listed if config.max_layers is None else listed[: config.max_layers]
    found: list[Case] = []
    for one in sets:
        found.append(_case(model, one))
        for layer in names if one.layers else ():
            found.append(_case(model, one, layer))
            if config.random:
                found.append(_case(model, one, layer, random=True))
    return found


def _case(model: Model, one: EngineSet, layer: str = "", *, random: bool = False) -> Case:
    return Case(model.name, one.engine, one.options, one.spec, layer, random, one.chip, one.hw_type)
