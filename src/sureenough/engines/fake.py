"""A scripted engine for tests and examples: everything that can happen to a path, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from math import log

from sureenough.core.events import Token
from sureenough.engines.base import End, Engine, ExtendOptions, Part, Piece, Prompt, TokenStream, as_part
from sureenough.errors import CannotExtend

Step = Part | Sequence[Token] | float | BaseException  # what to send, seconds to wait, or an error to raise


class Fake(Engine):
    """Plays the script's steps for each path's seed, and counts the paths that run."""

    stops_at_once = True

    def __init__(
        self,
        script: Callable[[int], Iterable[Step]],
        continuations: Callable[[str, int], Iterable[Step]] | None = None,  # of a beginning, for a seed
    ) -> None:
        self.script, self.continuations = script, continuations
        self.started = 0
        self.running = 0
        self.most = 0  # paths that ran in parallel
        self.prompts: list[Prompt] = []
        self.beginnings: list[str] = []

    async def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        self.prompts.append(prompt)
        self.started += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            async with aclosing(_play(self.script(seed))) as steps:
                async for step in steps:
                    yield step
        finally:
            self.running -= 1

    async def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> TokenStream:
        """Play the script's steps for this beginning, one token at a time, up to the limit or a stop text.

        Every token counts as the likeliest: its log-probability is that of its peak.
        """
        if self.continuations is None:
            raise CannotExtend("Fake cannot be extended: it has no continuations")
        self.beginnings.append(beginning)
        self.running += 1
        tokens, text = 0, ""
        try:
            async with aclosing(_play(self.continuations(beginning, seed))) as steps:
                async for step in steps:
                    for token in as_part(step).tokens:
                        text += token.text
                        tokens += 1
                        ends = [text.index(stop) for stop in options.stop if stop in text]
                        if ends:
                            kept = token.text[: max(0, len(token.text) - len(text) + min(ends))]
                            token = token._replace(text=kept)
                        yield Piece([token], [log(token.peak)])
                        if ends or tokens == options.max_tokens:
                            yield End("stop" if ends else "length")
                            return
            yield End()
        finally:
            self.running -= 1


async def _play(script: Iterable[Step]) -> TokenStream:
    for step in script:
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, int | float):
            await asyncio.sleep(step)
        else:
            await asyncio.sleep(0)  # let the other paths run
            yield step
