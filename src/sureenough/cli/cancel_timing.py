"""Does closing a stream stop its generation? By the clock, for servers without counters.

One short path is timed three ways: alone, beside others that run, and after others that were just closed. Where running
others slow it and closed ones do not, closing works; where closed ones slow it as much, the server goes on with them.
Where others do not slow it at all, a clock cannot tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from statistics import median
from typing import Any, Final, Literal, NamedTuple

OTHERS: Final = 4
ROUNDS: Final = 3
FELT: Final = 1.4
"""Times slower that a path must be beside others for their presence to be felt."""

SHORT, LONG = 24, 512
"""Tokens of the path that is timed, and of the others."""
QUICK: Final = 0.3
"""Seconds; a short path that takes less is made longer, so that it can be timed."""

Path = Callable[[int, int, Callable[[], None]], Coroutine[Any, Any, None]]
"""Grows so many tokens of a path with this seed; calls back when the first is there. Cancelling closes its stream."""


class CancelTiming(NamedTuple):
    """Seconds that one path took."""

    alone: float
    beside: float  # others that ran, or the patience with it
    after: float  # others that were closed just before, or the patience with it

    @property
    def verdict(self) -> bool | None:
        """Whether closing stops; None where the clock does not tell."""
        if self.beside < FELT * self.alone:
            return None
        place = (self.after - self.alone) / (self.beside - self.alone)
        return True if place < 1 / 3 else (False if place > 2 / 3 else None)


class CancelTimings(NamedTuple):
    """All rounds."""

    rounds: list[CancelTiming]

    @property
    def good(self) -> bool | None:
        """What all rounds agree on."""
        said = {times.verdict for times in self.rounds}
        return said.pop() if len(said) == 1 else None

    def __str__(self) -> str:
        alone, beside, after = (median(column) for column in zip(*self.rounds, strict=True))
        seen = (
            f"a path took {alone:.2f} s alone, {beside:.2f} s beside {OTHERS} others, {after:.2f} s after closing them"
        )
        sure = sum(times.verdict is self.good for times in self.rounds)
        if self.good is None:
            return f"{seen}: not conclusive; the server has no counters that we know"
        what = "closing stops generation" if self.good else "the server goes on with closed streams"
        return f"{seen}: {what} ({sure} of {len(self.rounds)} rounds agree; how many tokens it still makes is unknown)"


async def time_cancel(path: Path, rounds: int = ROUNDS) -> CancelTimings:
    """Time a short path, with long ones as the others."""
    tokens = SHORT if await _seconds(path, SHORT, None) > QUICK else 4 * SHORT
    # Alone comes first: a server that goes on with closed streams never leaves a path alone again.
    alone = median([await _seconds(path, tokens, None) for _ in range(rounds)])
    patience = 4.0 * alone + 0.2
    found = []
    for turn in range(rounds):
        beside = await _with_others(path, tokens, turn, patience, "running")
        after = await _with_others(path, tokens, turn, patience, "closed")
        found.append(CancelTiming(alone, beside, after))
        if found[-1].verdict is None:
            break  # one doubtful round is enough to know that it cannot be told
    return CancelTimings(found)


async def _with_others(
    path: Path, tokens: int, turn: int, patience: float, state: Literal["running", "closed"]
) -> float:
    begun = asyncio.Event()
    others = [asyncio.ensure_future(path(LONG, 100 * turn + n, begun.set)) for n in range(OTHERS)]
    try:
        first = asyncio.ensure_future(begun.wait())
        await asyncio.wait([first, *others], return_when=asyncio.FIRST_COMPLETED)
        first.cancel()
        await asyncio.sleep(patience / 20)  # the others begin too, where there is room for all
        if state == "closed":
            await _closed(others)
        return await _seconds(path, tokens, patience)
    finally:
        await _closed(others)


async def _closed(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(error, Exception):
            raise error


async def _seconds(path: Path, tokens: int, patience: float | None) -> float:
    """How long it takes; not longer than is worth waiting for."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout(patience):
            await path(tokens, 7, lambda: None)
    except TimeoutError:
        pass
    return loop.time() - began
