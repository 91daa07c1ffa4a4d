"""What an error means for a live run: a path is lost, the run ends, or the server is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from sureenough.core.events import Reason
from sureenough.drivers.live_account import LiveAccount
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs

FEWEST_REFUSALS: Final = 4
"""A server that refuses all first paths at once, and not fewer than these, is gone."""
Work = Callable[[], Awaitable[None]]
"""What a task does; not a coroutine, which would have to be awaited even if the task is cancelled before it begins."""


class PathFailures:
    """Handles the errors of a run's tasks."""

    def __init__(
        self,
        account: LiveAccount,
        lose: Callable[[int], None],
        stop: Callable[[], None],
        expire: Callable[[Reason], None],
    ) -> None:
        self.error: Exception | None = None  # ends the run
        self._account, self._lose, self._stop, self._expire = account, lose, stop, expire
        self._unavailable = self._gone_after = 0  # paths in a row without a server, and how many mean that it is gone

    def expect(self, first: int, parallel: int) -> None:
        """So many paths are the first ones, and so many may run at once."""
        self._gone_after = min(parallel, max(FEWEST_REFUSALS, first))

    def reached(self) -> None:
        """The server has sent something."""
        self._unavailable = 0

    async def run(self, work: Work, path: int, seed: int, *, counted: bool = True) -> None:
        """Do the work of a path, with its errors handled."""
        with self.handled(path, seed, counted=counted):
            await work()

    @contextmanager
    def handled(self, path: int, seed: int, *, counted: bool = True) -> Iterator[None]:
        """An error of an engine loses the path. Whatever else is raised ends the run and reaches the caller.

        `counted`: all tokens are known of what is cancelled here.
        """
        try:
            yield
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # not cancelled from outside: the engine ended its own work
                self._lose_path(path, EngineError("the engine cancelled the path").located(path, seed))
                return
            self._account.cut |= not counted
            raise
        except (EngineRejected, MissingLogprobs) as error:
            self._end_run(error.located(path, seed))
        except EngineError as error:
            self._lose_path(path, error.located(path, seed))
        except Exception as error:
            self._end_run(error)

    def _lose_path(self, path: int, error: EngineError) -> None:
        """A lost path is replaced while the budget lasts; a server that refuses all connections is gone."""
        self._account.lost = error
        self._unavailable += isinstance(error, EngineUnavailable)
        self._lose(path)
        if self._unavailable >= self._gone_after:
            self._expire("engine")

    def _end_run(self, error: Exception) -> None:
        self.error = self.error or error
        self._stop()
