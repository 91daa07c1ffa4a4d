"""Does closing a stream stop its generation? Measured by time, for servers without counters.

One short path is timed three ways: alone, beside others that run, and after others that were just closed. If running
paths slow it and closed ones do not, closing works; if closed ones slow it as much, the server goes on with them. If
other paths do not slow it at all, nothing can be concluded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from statistics import median
from typing import Any, Final, Literal, NamedTuple

OTHERS: Final = 4
ROUNDS: Final = 3
SLOWER: Final = 1.4  # a path beside others must take at least this many times as long as alone
SHORT, LONG = 24, 512  # tokens of the path that is timed, and of the others
QUICK: Final = 0.3  # seconds: a short path that takes less is made longer, so that it can be timed

Path = Callable[[int, int, Callable[[], None]], Coroutine[Any, Any, None]]
"""Generates so many tokens of a path with this seed and calls back at the first. Cancelling closes its stream."""


class CancelTiming(NamedTuple):
    """Seconds that one path took, or the time limit."""

    alone: float
    beside: float  # others that ran
    after: float  # others that were closed just before

    @property
    def verdict(self) -> bool | None:
        """Whether closing stops generation; None if the times do not show it."""
        if self.beside < SLOWER * self.alone:
            return None
        share = (self.after - self.alone) / (self.beside - self.alone)
        return True if share < 1 / 3 else (False if share > 2 / 3 else None)


class CancelTimings(NamedTuple):
    """The timings of all rounds."""

    rounds: list[CancelTiming]

    @property
    def good(self) -> bool | None:
        """The verdict on which all rounds agree."""
        verdicts = {times.verdict for times in self.rounds}
        return verdicts.pop() if len(verdicts) == 1 else None

    def __str__(self) -> str:
        alone, beside, after = (median(column) for column in zip(*self.rounds, strict=True))
        times = (
            f"a path took {alone:.2f} s alone, {beside:.2f} s beside {OTHERS} others, {after:.2f} s after closing them"
        )
        if self.good is None:
            return f"{times}: not conclusive; the server has no counters that we know"
        verdict = "closing stops generation" if self.good else "the server goes on with closed streams"
        agreed = f"{len(self.rounds)} of {len(self.rounds)} rounds agree"
        return f"{times}: {verdict} ({agreed}; how many tokens it still generates is unknown)"


async def time_cancel(path: Path, rounds: int = ROUNDS) -> CancelTimings:
    """Time a short path, with long ones as the others."""
    tokens = SHORT if await _seconds(path, SHORT, None) > QUICK else 4 * SHORT
    # Alone comes first: a server that goes on with closed streams never leaves a path alone again.
    alone = median([await _seconds(path, tokens, None) for _ in range(rounds)])
    patience = 4.0 * alone + 0.2
    timings = []
    for turn in range(rounds):
        beside = await _with_others(path, tokens, turn, patience, "running")
        after = await _with_others(path, tokens, turn, patience, "closed")
        timings.append(CancelTiming(alone, beside, after))
        if timings[-1].verdict is None:
            break  # all rounds must agree, so one without a verdict decides
    return CancelTimings(timings)


async def _with_others(
    path: Path, tokens: int, turn: int, patience: float, state: Literal["running", "closed"]
) -> float:
    begun = asyncio.Event()
    others = [asyncio.ensure_future(path(LONG, 100 * turn + n, begun.set)) for n in range(OTHERS)]
    try:
        first = asyncio.ensure_future(begun.wait())
        await asyncio.wait([first, *others], return_when=asyncio.FIRST_COMPLETED)
        first.cancel()
        await asyncio.sleep(patience / 20)  # let the others begin too, if the server runs that many
        if state == "closed":
            await _close(others)
        return await _seconds(path, tokens, patience)
    finally:
        await _close(others)


async def _close(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(error, Exception):
            raise error


async def _seconds(path: Path, tokens: int, patience: float | None) -> float:
    """How long a path takes, at most `patience` seconds."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    try:
        async with asyncio.timeout(patience):
            await path(tokens, 7, lambda: None)
    except TimeoutError:
        pass
    return loop.time() - start
