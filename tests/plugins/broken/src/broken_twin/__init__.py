"""Plugins that are wrong: a name of twinnet's own, a module that is not there, a function that is no engine."""

from twinnet.engines.torch import TorchEngine


class Takeover(TorchEngine):
    """Wants to be `torch`."""

    summary = "not twinnet's torch"


def function(problem):
    return problem
