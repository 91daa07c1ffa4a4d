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
from typing import Any, Final, TypeVar

T = TypeVar("T")
THREAD: Final = "sureenough"


def run_blocking(start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end; in another thread if this one has a running loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(start())
    return _run_in_thread(start)


def _run_in_thread(start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Wait for a run on an event loop of its own, in a thread of its own.

    A first interrupt ends the run with the vote so far, a second one ends the wait.
    """
    loop, outcome, interrupts = asyncio.new_event_loop(), Future[T](), 0
    task = loop.create_task(start())

    async def result() -> T:
        return await task

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                outcome.set_result(runner.run(result()))
        except BaseException as error:  # raised again in the caller's thread
            outcome.set_exception(error)

    def interrupt(number: int, frame: object) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(task.cancel)

    thread = threading.Thread(target=run, name=THREAD, daemon=True)
    with _handle_interrupts(interrupt):  # before the thread starts, or an early Ctrl-C would be lost
        thread.start()
        while thread.is_alive():
            thread.join(0.5)  # on Windows a thread that waits without a timeout does not see Ctrl-C
    return outcome.result()


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
