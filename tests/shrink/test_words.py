"""What ISSUE.md says of a repro."""

from __future__ import annotations

from twinnet.shrink.seed import Runner
from twinnet.shrink.words import hidden_words


def test_paths_and_commands_that_stay_are_said() -> None:
    plain, elsewhere = Runner("onnxruntime"), Runner("onnxruntime", {"python": "/home/me/bin/python"})
    command = Runner("command", {"description": "{}"})
    assert "look at the paths and commands" not in hidden_words((), plain, Runner())
    assert "look at the paths and commands" in hidden_words((), plain, elsewhere)
    assert "look at the paths and commands" in hidden_words(("w",), plain, command)
