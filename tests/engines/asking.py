"""One path from a server with given manners, as it arrived."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

from sureenough.engines import Chunk, Prompt
from sureenough.engines.openai.client import OpenAI
from tests.engines.misbehaving import Manner, Server, idle, serving

PLAIN = Manner()


class Got:
    """A path as it arrived."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks)

    @property
    def signals(self) -> list[tuple[float, float]]:
        return [(token.peak, token.conf) for chunk in self.chunks for token in chunk]

    @property
    def beyond(self) -> int:
        return sum(chunk.beyond for chunk in self.chunks)

    @property
    def unread(self) -> int:
        return sum(chunk.unread for chunk in self.chunks)


def asked(
    manner: Manner | Callable[[int, int], Manner],
    then: Callable[[Server, Got], None] = lambda server, got: None,
    *,
    seed: int = 5,
    signals: bool = True,
    **options: Any,
) -> Got:
    """One path from a server with these manners; `then` sees the server before it goes."""
    got = Got()

    async def ask() -> None:
        async with serving(manner) as server:
            engine = OpenAI(server.url, "tiny", **options)
            try:
                async with aclosing(engine.stream(Prompt.user("?", signals=signals), seed=seed)) as chunks:
                    async for chunk in chunks:
                        assert isinstance(chunk, Chunk)
                        got.chunks.append(chunk)
            finally:
                then(server, got)
                await idle(server)

    asyncio.run(within(ask()))
    return got


async def within(task: Coroutine[Any, Any, None]) -> None:
    await asyncio.wait_for(task, timeout=30)
