"""Code that waits and event loops: live runs for callers that wait, and calls that a loop does not wait for.

A live run has an event loop of its own, in another thread if the caller's has a loop.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def run_blocking(start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end; in another thread if this one has a running loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(start())
    return ThreadedRun(start).result()


class ThreadedRun(threading.Thread, Generic[T]):
    """A run on an event loop of its own, in a thread of its own."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, T]]) -> None:
        super().__init__(name="sureenough", daemon=True)
        self._make_run = start
        self._outcome: Future[T] = Future()
        self._interrupted = False
        self._cancel: Callable[[], object] = lambda: None

    def run(self) -> None:
        try:
            self._outcome.set_result(asyncio.run(self._cancellable()))
        except BaseException as error:  # raised again in the caller's thread
            self._outcome.set_exception(error)

    async def _cancellable(self) -> T:
        task, loop = asyncio.ensure_future(self._make_run()), asyncio.get_running_loop()
        self._cancel = partial(loop.call_soon_threadsafe, task.cancel)
        if self._interrupted:  # before there was a task to cancel
            loop.call_soon(task.cancel)
        return await task

    def result(self) -> T:
        """Wait for the outcome; a first interrupt ends the run with the vote so far, a second one ends the wait."""
        with _handle_interrupts(self._interrupt):  # before the thread starts, or an early Ctrl-C would be lost
            self.start()
            while self.is_alive():
                self.join(0.5)  # on Windows a thread that waits without a timeout does not see Ctrl-C
        return self._outcome.result()

    def _interrupt(self, number: int, frame: object) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True
        self._cancel()


def in_daemon_thread(function: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Call what may never end: neither the end of the loop nor that of the process waits for it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(set_outcome: Callable[[Any], None], outcome: object) -> None:
        if not future.done():  # whoever waits for it may have been cancelled
            set_outcome(outcome)

    def call() -> None:
        try:
            done = partial(finish, future.set_result, function())
        except BaseException as error:
            done = partial(finish, future.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(done)

    threading.Thread(target=call, name=name, daemon=True).start()
    return future


@contextmanager
def _handle_interrupts(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Handle Ctrl-C here: the caller's loop, which is blocked, would handle it only after the run."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous if previous is not None else signal.default_int_handler)
