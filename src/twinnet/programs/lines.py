"""The loop of a program that answers one JSON request per line.

Such a program runs where twinnet need not be installed. `archive.py` puts this file into it, so it imports nothing but
Python's own modules, of any version from 3.8 on.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable, Dict  # noqa: UP035 - for older interpreters

__all__ = ["Answer", "answer_lines", "words_of"]

Answer = Callable[[Dict[str, Any], Dict[Any, Any]], Dict[str, Any]]  # noqa: UP006 - for older interpreters
"""From a request, and what the program has loaded by the number of its session, to the answer."""


def words_of(error: Exception, log_start: int) -> str:
    """What an exception says, or its name."""
    return str(error).strip() or type(error).__name__


def answer_lines(answer: Answer, words: Callable[[Exception, int], str] = words_of) -> None:
    """Answer requests until the input ends.

    `words` turns an exception into an answer's text; it is also given where the log (standard error) was when the
    request came.
    """
    # Libraries print: that goes to the log, so that standard output carries only answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    loaded: dict[Any, Any] = {}
    for line in sys.stdin:
        start = os.fstat(2).st_size
        try:
            said = answer(json.loads(line), loaded)
        except Exception as error:
            said = {"error": words(error, start)}
        answers.write(json.dumps(said) + "\n")
        answers.flush()
