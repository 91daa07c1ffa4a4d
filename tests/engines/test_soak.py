"""A soak: many sessions against a server with random faults. None hangs, nothing leaks, every token is accounted for.

`SUREENOUGH_FULL=1 pytest tests/engines/test_soak.py` runs the long one.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from sureenough.answers import extract
from sureenough.answers.kinds import judge
from sureenough.core.events import Action, Tokens
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Snapshot
from sureenough.core.session import Session
from sureenough.drivers.live import run
from sureenough.drivers.observers import ObservedEvent
from sureenough.engines import Prompt
from sureenough.engines.openai.client import OpenAI, OpenAIConnection, Timeouts
from sureenough.errors import EngineError
from sureenough.spec import resolve
from tests.engines.misbehaving import Manner, idle, serving
from tests.requirements import FULL

SESSIONS = 2000 if FULL else 200
AT_ONCE = 20
NOW = {"Retry-After": "0"}
FAULTS = [
    *[Manner()] * 30,
    *[Manner(tokens=60, per_chunk=4)] * 10,
    Manner(bytes_a_write=301),
    Manner(merged=True),
    Manner(comments=True, crlf=True),
    Manner(unseen_end=True),
    Manner(usage=False),
    Manner(done=False, keep_alive=False),
    Manner(answer=""),
    Manner(tokens=0),
    Manner(finish="length"),
    Manner(delay=0.002),
    Manner(status=429, headers=NOW),
    Manner(status=503, headers=NOW),
    Manner(status=500, headers=NOW),
    Manner(cut_after=0),
    Manner(cut_after=4),
    Manner(garbage_after=3),
    Manner(error_after=5),
    Manner(error_after=0, error_code=503),
    Manner(stall_after=0),
    Manner(stall_after=6),
]
RARE = [Manner(logprobs=False), Manner(more_candidates=-3), Manner(status=400), Manner(kind="text/html")]
STRATEGIES = ("sc", "ac", "esc", "ddc:warmup=4", "deepconf-low:warmup=4", "sure", "ddc-no-depth:warmup=4")


class Told:
    """Counts the tokens that a session is told of."""

    def __init__(self) -> None:
        self.tokens = 0

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        self.tokens += len(event.tokens) + event.unread if isinstance(event, Tokens) else 0


async def one(connected: OpenAIConnection, number: int) -> str:
    """One session with choices of its own; how it ended."""
    draw = random.Random(number)
    strategy = resolve(draw.choice(STRATEGIES))
    cap = draw.choice([None, None, None, 150])
    paths, parallel = draw.randint(5, 12), draw.randint(1, 6)
    deadline = draw.choice([None, None, None, 0.1])
    options = RunOptions(paths=paths, window=8, parallel=parallel, seed=number, max_tokens=cap, deadline=deadline)
    session = Session(strategy, options)
    told = Told()
    work = asyncio.ensure_future(
        run(Prompt.user("?"), connected, session, judge=judge(extract=extract, key=str), observers=[told])
    )
    if draw.random() < 0.1:
        asyncio.get_running_loop().call_later(draw.random() * 0.1, work.cancel)
    try:
        out = await work
    except EngineError as error:
        return type(error).__name__
    except asyncio.CancelledError:
        return "cancelled before it began"
    assert out.tokens.total == told.tokens
    assert out.tokens.total == sum(path.tokens + path.overrun for path in session.snapshot().paths)
    assert out.started <= paths
    return out.reason


async def soak() -> Counter[str]:
    fates: Counter[str] = Counter()

    def manner(seed: int, nth: int) -> Manner:
        draw = random.Random(seed * 31 + nth)
        if draw.random() < 0.001:
            return draw.choice(RARE)
        return replace(draw.choice(FAULTS), answer=draw.choice([None, None, "9"]))

    async with serving(manner) as server:
        times = Timeouts(connect=5, first_token=0.3, stall=0.3)
        engine = OpenAI(server.url, "tiny", timeouts=times, retries=1, proxies=False)
        async with engine.open(parallel=AT_ONCE * 6) as connected:
            turns = iter(range(SESSIONS))

            async def worker() -> None:
                for number in turns:
                    fates[await one(connected, number)] += 1

            async with asyncio.TaskGroup() as workers:
                for _ in range(AT_ONCE):
                    workers.create_task(worker())
            await idle(server)
        assert [task for task in asyncio.all_tasks() if task.get_name().startswith("path")] == []
    return fates


def sockets() -> int:
    """Open files of this process."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def test_sessions_end_without_leaks_and_every_token_is_counted() -> None:
    asyncio.run(asyncio.sleep(0))
    before = sockets()
    fates = asyncio.run(asyncio.wait_for(soak(), timeout=30 + SESSIONS / 5))
    print(dict(fates))
    assert fates.total() == SESSIONS
    assert {"settled", "budget", "deadline", "max_tokens", "interrupted"} <= set(fates)
    assert sockets() <= before + 2
