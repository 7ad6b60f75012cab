"""The stopped thread goes on as it was before."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, time
from twinnet.debugger.answer import Answer
from twinnet.debugger.console import Quit, Reply
from twinnet.debugger.desk import Desk

def ask(text):
    if text == "quit":
        raise Quit
    end = time.monotonic() + (30 if text == "long" else 0)
    while time.monotonic() < end:
        pass
    return Reply(True, Answer(text))

desk = Desk(ask, {limit})
said = []

def client():
    for text in {texts}:
        said.append(desk.submit(text).answer.text)
    desk.submit("quit")

asking = threading.Thread(target=client)
asking.start()
desk.work()
asking.join()

def traced():
    return 1

seen = []
sys.settrace(lambda frame, event, arg: seen.append(event))
traced()
sys.settrace(None)
print(said, "call" in seen)
"""


@pytest.mark.parametrize(
    ("texts", "limit", "said"),
    [
        (["a", "b"], 60.0, "['a', 'b'] True"),
        (["long", "b"], 0.2, "['stopped: it took longer than 0.2 s', 'b'] True"),
    ],
)
def test_a_program_can_be_traced_after_the_debugger(texts: list[str], limit: float, said: str) -> None:
    code = PROGRAM.format(texts=texts, limit=limit)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == said, done.stderr
