"""How many paths a server runs at once without taking longer: the time per token at 1, 2, 4, … paths."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from statistics import median
from typing import Final

from sureenough.cli.doctor_checks import Check
from sureenough.cli.doctor_samples import PROMPT
from sureenough.core.events import path_seed
from sureenough.engines.base import Engine
from sureenough.engines.requests import Prompt

MOST_PATHS: Final = 256
TOKENS: Final = 48
"""Of each path; the first one is not timed, since it waits for the prompt to be read."""
SLOWER: Final = 2.0
"""A width is free while a token takes less than this many times as long as at the fastest width."""
MOST_SECONDS: Final = 60.0


async def check_width(engine: Engine, most: int = MOST_PATHS) -> Check:
    """Double the number of paths until a token takes twice as long."""
    times: dict[int, float] = {}
    start, width = time.monotonic(), 1
    while width <= most and time.monotonic() - start < MOST_SECONDS:
        async with engine.open(parallel=width) as opened:
            times[width] = await _seconds_per_token(opened, width)
        if free_width(times) < width:
            break
        width *= 2
    return Check("width", True, describe(times))


def free_width(times: Mapping[int, float]) -> int:
    """The largest number of paths with which a token takes less than twice as long as with any number."""
    fastest = min(times.values())
    return max((width for width, seconds in times.items() if seconds < SLOWER * fastest), default=1)


def describe(times: Mapping[int, float]) -> str:
    """What was measured, and the option that follows from it."""
    milliseconds = ", ".join(f"{width}: {seconds * 1000:.1f}" for width, seconds in times.items())
    return (
        f"milliseconds per token by number of paths at once: {milliseconds}; "
        f"with --min-parallel {free_width(times)} a token takes less than twice as long as at the fastest"
    )


async def _seconds_per_token(engine: Engine, width: int) -> float:
    prompt = Prompt(PROMPT.messages, signals=False)
    return median(await asyncio.gather(*[_time_path(engine, prompt, path_seed(width, n)) for n in range(width)]))


async def _time_path(engine: Engine, prompt: Prompt, seed: int) -> float:
    """Seconds per token after a path's first chunk."""
    tokens, start = 0, None
    async with aclosing(engine.stream(prompt, seed=seed)) as chunks:
        async for chunk in chunks:
            if start is None:
                start = time.perf_counter()
            else:
                tokens += len(chunk) + getattr(chunk, "unread", 0)
    return (time.perf_counter() - (start or 0.0)) / max(1, tokens) if tokens else 0.0
