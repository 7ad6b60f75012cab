"""Pass requests from the server's threads to the stopped thread, and wait for the answers."""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from twinnet.debugger.answer import Answer
from twinnet.debugger.console import Late, Quit, Reply

__all__ = ["Desk"]

_GRACE = 5.0
"""Seconds that an interrupted command gets to return before its client is told that it still runs."""

_SOON = 100
"""Loop iterations within which an exception sent to this thread is raised."""


@dataclass
class _Request:
    text: str
    done: threading.Event = field(default_factory=threading.Event)
    reply: Reply | None = None
    finish: Callable[[Reply], Reply] | None = None
    dropped: bool = False


class Desk:
    """Handles requests one at a time, in order, in the stopped thread."""

    def __init__(self, ask: Callable[[str], Reply], time_limit: float) -> None:
        self._ask = ask
        self._limit = time_limit
        self._waiting: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: _Request | None = None
        self._thread = 0
        self._closed = False
        self._struck = False

    # -- the stopped thread --------------------------------------------------------------------------------------

    def work(self) -> None:
        """Answer requests until a client quits."""
        self._thread = threading.get_ident()
        try:
            while True:
                request = self._waiting.get()
                if request is None:
                    return
                if not self._handle(request):
                    return
        finally:
            self._refuse_rest()

    def _handle(self, request: _Request) -> bool:
        with self._lock:
            if request.dropped:
                return True
            self._running = request
        reply, go_on = Reply(False, Answer("the command was interrupted")), True
        try:
            try:
                reply = self._ask(request.text)
                if request.finish is not None:
                    reply = request.finish(reply)
            except Quit:
                reply, go_on = Reply(True, Answer("the program continues")), False
            except Late:
                reply = Reply(False, Answer(f"stopped: it took longer than {self._limit:g} s"))
            finally:
                self._settle()
        except Late:
            # The time limit hit after the answer was made; the answer counts.
            self._settle()
        finally:
            request.reply = reply
            request.done.set()
        return go_on

    def _settle(self) -> None:
        """End the time limit of this request; if its exception is already on the way, wait for it here.

        It cannot be cancelled: the interpreter would then look for it after every instruction, and loop forever once
        the program is traced.
        """
        while True:
            try:
                with self._lock:
                    self._running = None
                    struck, self._struck = self._struck, False
                for _ in range(_SOON if struck else 0):
                    pass
                return
            except Late:
                continue

    def _refuse_rest(self) -> None:
        with self._lock:
            self._closed = True
        while True:
            try:
                request = self._waiting.get_nowait()
            except queue.Empty:
                return
            if request is not None:
                request.reply = Reply(False, Answer("the debugger has ended; the program continues"))
                request.done.set()

    def stop(self) -> None:
        """End `work` from another thread."""
        self._waiting.put(None)

    # -- the server's threads ------------------------------------------------------------------------------------

    def submit(self, text: str, finish: Callable[[Reply], Reply] | None = None) -> Reply | None:
        """Submit a request; returns its reply, or None if it is still running or waiting after the time limit.

        `finish` is called with the reply in the stopped thread, so that pictures are made there.
        """
        request = _Request(text, finish=finish)
        with self._lock:
            if self._closed:
                return Reply(False, Answer("the debugger has ended; the program continues"))
            self._waiting.put(request)
        if request.done.wait(self._limit):
            return request.reply
        with self._lock:
            if self._running is request:
                self._struck = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(Late)
                )
            elif not request.done.is_set():
                request.dropped = True
                return None
        return request.reply if request.done.wait(_GRACE) else None
