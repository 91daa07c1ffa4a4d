"""Does a server honour what the strategies rely on? One check each, with what was seen and what would cure it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import httpx

from sureenough.cli.cancel_timing import time_cancel
from sureenough.core.events import Ended, Fate, Tokens
from sureenough.core.options import RunOptions
from sureenough.core.session import Session
from sureenough.engines.base import Chunk, Prompt
from sureenough.engines.local.engine import Local, Slots
from sureenough.engines.openai.client import OpenAI, OpenAIConnection
from sureenough.engines.openai.errors import ServerBusy
from sureenough.engines.openai.logprobs import CURES
from sureenough.engines.openai.parser import ReplyParser, candidates
from sureenough.engines.openai.server_counters import counters_at_rest
from sureenough.engines.openai.sse import SSEParser
from sureenough.engines.openai.wire import DONE, decode, request
from sureenough.engines.vllm.client import fetch_monitor_info
from sureenough.errors import EngineError, EngineUnavailable
from sureenough.spec import resolve

PROMPT: Final = Prompt.user("Name a colour, then count from one to one hundred in words, slowly.")
MANY: Final = (128, 64, 32, 20, 10, 5, 1)
COSTED: Final = 20
"""Times that a path is read to see what it costs."""
WATCHING: Final = "ddc:warmup=1,tau=1,drop=0,trust=100,risk=p100"
"""All tests of DDC at every token."""


class Check(NamedTuple):
    """What was looked at: True, False, or None where nobody can tell."""

    name: str
    good: bool | None
    found: str
    cure: str = ""


class Probe(ReplyParser):
    """Reads a reply without minding what its candidates are like, and keeps them to be looked at."""

    def __init__(self, k: int, limit: int) -> None:
        super().__init__(k, signals=False, limit=limit)
        self.events: list[bytes] = []
        self.columns: list[list[float]] = []
        self.sizes: list[int] = []  # tokens a chunk
        self.text = ""

    def take(self, data: bytes) -> None:
        """One event."""
        if data != DONE:
            self.events.append(data)
            for choice in decode(data).choices:
                found = candidates(choice.logprobs)[1] if choice.logprobs is not None else []
                self.columns += found
                self.sizes += [len(found)] if found else []
        super().take(data)


async def examine(engine: OpenAI | Local, told: Callable[[Check], None] | None = None) -> list[Check]:
    """All checks, one after the other; a server that is not there is an error."""
    checks: list[Check] = []
    async with engine.open(parallel=8) as ready:
        connected = ready.connected if isinstance(ready, Slots) else ready
        for name, look in CHECKS.items():
            try:
                check = await look(connected)
            except EngineUnavailable:
                raise
            except EngineError as error:
                check = Check(name, False, str(error), "see the message")
            checks.append(check)
            if told is not None:
                told(check)
    return checks


async def sample(
    at: OpenAIConnection,
    *,
    k: int = 20,
    seed: int = 1,
    temperature: float = 1.0,
    tokens: int = 48,
    stop: int | None = None,
    begun: Callable[[], None] = lambda: None,
) -> Probe:
    """One path, or its first few tokens."""
    engine = replace(at.engine, k=k, temperature=temperature, top_p=1.0, max_path_tokens=tokens)
    body = request(PROMPT, seed, model=engine.model, chat=engine.chat, k=k, sampling=engine.sampling())
    probe = Probe(k, tokens)
    connected = OpenAIConnection(engine, at.client, at.address, at.server)
    try:
        async with aclosing(connected.read(body, probe)) as chunks:
            async for chunk in chunks:
                probe.text += chunk.text if isinstance(chunk, Chunk) else ""
                begun()
                if stop is not None and probe.tokens >= stop:
                    break
    except ServerBusy as busy:
        raise busy.error from None
    except httpx.TransportError as error:
        raise at.server.unreachable(error) from None
    return probe


async def top_k(at: OpenAIConnection) -> Check:
    """Every token comes with k candidates."""
    probe = await sample(at)
    sizes = sorted({len(values) for values in probe.columns})
    found = f"{len(probe.columns)} tokens with {' or '.join(map(str, sizes)) or 'no'} candidates each"
    return Check("top-k", bool(sizes) and sizes[0] >= 20, found, CURES.format(k=20))


async def raw(at: OpenAIConnection) -> Check:
    """Log-probabilities are the model's own, before temperature."""
    cold, hot = [await sample(at, temperature=t, tokens=2) for t in (0.3, 1.5)]
    if not cold.columns or not hot.columns:
        return Check("raw", None, "no log-probabilities to look at")
    pairs = zip(sorted(cold.columns[0])[-5:], sorted(hot.columns[0])[-5:], strict=False)
    apart = max(abs(a - b) for a, b in pairs)
    cure = "vLLM: --logprobs-mode raw_logprobs; SGLang: upgrade, or set SGLANG_RETURN_ORIGINAL_LOGPROB=1"
    return Check("raw", apart < 0.1, f"T = 0.3 and T = 1.5 differ by {apart:.3f} at the first token", cure)


async def distinct(at: OpenAIConnection) -> Check:
    """Tokens have candidates of their own."""
    probe = await sample(at, seed=3)
    if not probe.columns:
        return Check("distinct", None, "no log-probabilities to look at")
    repeats = sum(a == b for a, b in zip(probe.columns, probe.columns[1:], strict=False))
    found = f"{repeats} of {len(probe.columns)} tokens repeat the candidates before them"
    return Check("distinct", repeats * 4 <= len(probe.columns), found, "SGLang: upgrade, or --stream-interval 1")


async def seeds(at: OpenAIConnection) -> Check:
    """The same seed gives the same path, another one another."""
    one, again, other = [(await sample(at, seed=seed)).text for seed in (11, 11, 12)]
    same = "repeats" if one == again else "does not repeat"
    apart = "differs from" if one != other else "is the same as"
    found = f"a seed {same}; it {apart} another"
    good = True if one == again and one != other else (None if one != other else False)
    return Check("seeds", good, found, "voting works without, as long as paths differ; runs cannot be repeated exactly")


async def closing(at: OpenAIConnection) -> Check:
    """Closing the stream stops generation."""
    cure = "the savings are lost where the server goes on: connect without a proxy that buffers, or upgrade the server"
    before = await counters_at_rest(at.client, at.address)
    if before is not None:
        probe = await sample(at, tokens=1000, stop=8)
        after = await counters_at_rest(at.client, at.address)
        if after is not None:
            more = after.made - before.made - max(len(probe.columns), probe.tokens)
            return Check("closing", more < 500, f"it made {more} tokens after the stream was closed", cure)
    found = await time_cancel(partial(_path, at))
    return Check("closing", found.good, str(found), cure)


async def _path(at: OpenAIConnection, tokens: int, seed: int, begun: Callable[[], None]) -> None:
    """A path for the clock."""
    await sample(at, seed=seed, tokens=tokens, begun=begun)


async def counting(at: OpenAIConnection) -> Check:
    """Every token has its entry, or the server's usage tells of it."""
    probe = await sample(at, tokens=16)
    read = len(probe.columns)
    if probe.made is None:
        return Check("counting", None, f"{read} tokens read; the server sends no usage", "tokens are counted as read")
    return Check("counting", True, f"{read} tokens read, {probe.made} by the server's own count")


async def chunks(at: OpenAIConnection) -> Check:
    """How tokens come, and what they cost this client."""
    probe = await sample(at, tokens=64)
    if not probe.columns:
        return Check("chunks", None, "no log-probabilities to look at")
    mean = len(probe.columns) / len(probe.sizes)
    found = (
        f"{mean:.1f} tokens a chunk; {client_cost(probe):.0f} us of CPU a token here, from a chunk's bytes to decisions"
    )
    return Check("chunks", True, found)


def client_cost(probe: Probe) -> float:
    """Microseconds a token for all that a client does with bytes that it has read: decode, reduce, watch, schedule."""
    raw = [b"data: " + data + b"\n\n" for data in probe.events]
    session = Session(resolve(WATCHING), RunOptions(paths=COSTED, window=16))
    session.begin()
    start = 0.0
    for number in range(COSTED):
        if number == 1:  # the first one calibrates
            start = time.process_time()
        events, reading = SSEParser(), ReplyParser(min(map(len, probe.columns)), signals=True)
        for data in raw:
            reading.take_all(events.feed(data))
            if (chunk := reading.chunk()) is not None:
                session.receive(Tokens(number, chunk))
        session.receive(Ended(number, Fate.KEPT, "7"))
    return (time.process_time() - start) / (COSTED - 1) / len(probe.columns) * 1e6


async def highest_k(at: OpenAIConnection) -> Check:
    """The most candidates that the server gives."""
    for k in MANY:
        try:
            probe = await sample(at, k=k, tokens=2)
        except EngineUnavailable:
            raise
        except EngineError:
            continue
        if probe.columns and min(map(len, probe.columns)) >= k:
            return Check("highest k", k >= 20, f"{k} of those tried", CURES.format(k=20))
    return Check("highest k", False, "no log-probabilities at all", CURES.format(k=20))


async def inside(at: OpenAIConnection) -> Check:
    """Who watches the paths: the server itself, or this client."""
    found = await fetch_monitor_info(at.client, at.address)
    if found is None:
        return Check("inside", True, "paths are watched by the client; vLLM can do so itself (docs/vllm.md)")
    words = f"the server watches its own paths (sureenough {found.version}, windows up to {found.window} tokens)"
    return Check("inside", True, words)


CHECKS: Final[dict[str, Callable[[OpenAIConnection], Awaitable[Check]]]] = {
    "top-k": top_k,
    "raw": raw,
    "distinct": distinct,
    "seeds": seeds,
    "closing": closing,
    "counting": counting,
    "chunks": chunks,
    "highest k": highest_k,
    "inside": inside,
}
