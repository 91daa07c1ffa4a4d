"""A scripted engine for tests and examples: everything that can happen to a path, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

from sureenough.core.events import Token
from sureenough.engines.base import Engine, Prompt

Step = Sequence[Token] | float | BaseException  # tokens to send, seconds to wait, or an error to raise


class Fake(Engine):
    """Plays the script's steps for each path's seed, and counts the paths that run."""

    stops_at_once = True

    def __init__(self, script: Callable[[int], Iterable[Step]]) -> None:
        self.script = script
        self.started = 0
        self.running = 0
        self.most = 0  # paths that ran in parallel
        self.prompts: list[Prompt] = []

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        self.prompts.append(prompt)
        self.started += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            for step in self.script(seed):
                if isinstance(step, BaseException):
                    raise step
                if isinstance(step, int | float):
                    await asyncio.sleep(step)
                else:
                    await asyncio.sleep(0)  # let the other paths run
                    yield step
        finally:
            self.running -= 1
