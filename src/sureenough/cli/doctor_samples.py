"""The short paths that the checks of `doctor` look at, and what they cost this client."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final, NamedTuple

from sureenough.core.events import Ended, Fate, Tokens
from sureenough.core.options import RunOptions
from sureenough.core.session import Session
from sureenough.engines.openai.connection import OpenAIConnection
from sureenough.engines.openai.errors import ServerBusy, TransportError
from sureenough.engines.openai.logprobs import RepeatCounter
from sureenough.engines.openai.parser import ReplyParser
from sureenough.engines.openai.wire import DONE, InvalidReply, candidates, decode, request
from sureenough.engines.requests import Chunk, ExtendOptions, Prompt, TokenStream
from sureenough.spec import resolve

PROMPT: Final = Prompt.user("Name a colour, then count from one to one hundred in words, slowly.")
COST_REPEATS: Final = 20
"""How often a path is parsed to measure its cost."""
COST_STRATEGY: Final = "ddc:warmup=1,tau=1,drop=0,trust=100,risk=p100"
"""All tests of DDC at every token."""


class CandidateParser(ReplyParser):
    """Parses a reply with any kind of candidates, and keeps them for the checks."""

    def __init__(self, k: int, limit: int) -> None:
        super().__init__(k, signals=False, limit=limit)
        self.events: list[bytes] = []
        self.columns: list[list[float]] = []  # log-probabilities of each token's candidates
        self.sizes: list[int] = []  # tokens per chunk
        self.repeats = RepeatCounter()
        self.text = ""

    def receive(self, data: bytes) -> None:
        """Parse one event and keep its candidates."""
        if data != DONE and not self.done:
            self.events.append(data)
            for choice in decode(data).choices:
                columns = candidates(choice.logprobs)[1] if choice.logprobs is not None else []
                self.columns += columns
                self.repeats.add(columns)
                self.sizes += [len(columns)] if columns else []
        super().receive(data)


async def sample(
    connection: OpenAIConnection,
    *,
    k: int = 20,
    seed: int = 1,
    temperature: float = 1.0,
    tokens: int = 48,
    stop: int | None = None,
    on_tokens: Callable[[], None] = lambda: None,
) -> CandidateParser:
    """One path, or its first few tokens."""
    engine = replace(connection.engine, k=k, temperature=temperature, top_p=1.0, max_path_tokens=tokens)
    body = request(PROMPT, seed, model=engine.model, chat=engine.chat, k=k, sampling=engine.sampling())
    probe = CandidateParser(k, tokens)
    try:
        async with aclosing(connection.with_engine(engine).read(body, probe)) as chunks:
            async for chunk in chunks:
                probe.text += chunk.text
                on_tokens()
                if stop is not None and probe.tokens >= stop:
                    break
    except ServerBusy as busy:
        raise busy.error from None
    except InvalidReply as error:
        raise connection.errors.invalid_reply(error) from None
    except TransportError as error:
        raise connection.errors.unreachable(error) from None
    return probe


class FinishedSample(NamedTuple):
    """A path that was read to its end."""

    text: str
    tokens: int
    prompt_tokens: int | None
    cached_tokens: int | None


async def continue_path(connection: OpenAIConnection, prompt: Prompt, beginning: str, tokens: int) -> FinishedSample:
    """The rest of a beginning at T = 0."""
    options = ExtendOptions(max_tokens=tokens, temperature=0.0)
    return await collect(connection.extend(prompt, beginning, options, seed=1))


async def collect(path: TokenStream) -> FinishedSample:
    """Read a path to its end."""
    text, generated, last = "", 0, Chunk()
    async with aclosing(path) as chunks:
        async for chunk in chunks:
            last = chunk if isinstance(chunk, Chunk) else Chunk(chunk)
            text, generated = text + last.text, generated + len(last) + last.unread
    return FinishedSample(text, generated, last.prompt_tokens, last.cached_tokens)


def client_cost(probe: CandidateParser) -> float:
    """Microseconds per token to decode, reduce, watch and schedule what was received."""
    raw = [b"data: " + data + b"\n\n" for data in probe.events]
    session = Session(resolve(COST_STRATEGY), RunOptions(paths=COST_REPEATS, window=16))
    session.begin()
    start = 0.0
    for number in range(COST_REPEATS):
        if number == 1:  # the first path calibrates
            start = time.process_time()
        parser = ReplyParser(min(map(len, probe.columns)), signals=True)
        for data in raw:
            if (chunk := parser.feed(data)) is not None:
                session.receive(Tokens(number, chunk))
        session.receive(Ended(number, Fate.KEPT, "7"))
    return (time.process_time() - start) / (COST_REPEATS - 1) / len(probe.columns) * 1e6
