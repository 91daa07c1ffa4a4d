"""With several servers, every error names the one that it came from, without its credentials."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from sureenough.api import ask
from sureenough.core.events import Token
from sureenough.engines.base import Engine, opened
from sureenough.engines.load_balancer import LoadBalancer
from sureenough.engines.openai.client import OpenAI, Timeouts
from sureenough.engines.requests import Chunk, ExtendOptions, Prompt
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs
from tests.engines.misbehaving import Manner, Server, serving

FAULTS = {
    "no log-probabilities": (Manner(logprobs=False), MissingLogprobs),
    "candidates repeated": (Manner(repeated=True, per_chunk=4, tokens=80), MissingLogprobs),
    "log-probabilities refused": (Manner(status=400, body="logprobs are not allowed"), MissingLogprobs),
    "refused": (Manner(status=422), EngineRejected),
    "no stream": (Manner(kind="text/html"), EngineRejected),
    "an event that cannot be read": (Manner(garbage_after=3), EngineError),
    "an error in the stream": (Manner(error_after=3), EngineError),
    "an unknown end": (Manner(finish="abort"), EngineError),
    "broken off": (Manner(cut_after=3), EngineError),
    "silent in the middle": (Manner(stall_after=3), EngineError),
    "silent": (Manner(stall_after=0), EngineUnavailable),
    "busy": (Manner(status=503), EngineUnavailable),
    "a long pause": (Manner(status=429, headers={"Retry-After": "600"}), EngineUnavailable),
}


def client(server: Server) -> OpenAI:
    url = server.url.replace("://", "://me:hunter2@") + "?api_key=sesame"
    return OpenAI(url, "tiny", retries=0, timeouts=Timeouts(first_token=0.2, stall=0.2))


async def first_error(engine: Engine, *, beginning: str | None = None) -> EngineError:
    prompt, options = Prompt.user("?"), ExtendOptions(max_tokens=9)
    async with opened(engine, 1) as ready:
        stream = ready.stream(prompt, seed=1)
        if beginning is not None:
            stream = ready.extend(prompt, beginning, options, seed=1)
        with pytest.raises(EngineError) as raised:
            async for _ in stream:
                pass
    return raised.value


@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_names_its_server_once(fault: str) -> None:
    manner, kind = FAULTS[fault]

    async def fail() -> None:
        async with serving(manner) as one, serving(manner) as other:
            error = await first_error(LoadBalancer([client(one), client(other)]))
            assert isinstance(error, kind)
            asked = [server.url for server in (one, other) if server.requests]
            assert str(error).count(asked[-1]) == 1
            assert (asked[0] in str(error)) == (len(asked) == 1), "of several, it names the last"
            assert "hunter2" not in str(error)
            assert "sesame" not in str(error)
            alone = await first_error(client(one))
            if kind is not EngineUnavailable:
                assert str(error).removeprefix(f"{one.url}: ") == str(alone)

    asyncio.run(asyncio.wait_for(fail(), 30))


def test_a_continuation_that_is_refused_names_its_server() -> None:
    async def fail() -> None:
        async with serving(Manner(extends="no")) as one, serving(Manner(extends="no")) as other:
            error = await first_error(LoadBalancer([client(one), client(other)]), beginning="so ")
            assert str(error).count(one.url) == 1

    asyncio.run(asyncio.wait_for(fail(), 30))


class WithoutSampled(Engine):
    """Sends no log-probabilities of sampled tokens."""

    def __init__(self, shown: str) -> None:
        self.shown = shown

    async def extend(
        self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int
    ) -> AsyncGenerator[Sequence[Token], None]:
        yield Chunk([Token("a", 0.5, 10.0)])
        yield Chunk(finish="stop")


def test_a_search_that_a_server_cannot_guide_names_it() -> None:
    with pytest.raises(MissingLogprobs, match=r"^http://one/v1: the engine sends no log-probabilities of the tokens"):
        ask("?", LoadBalancer([WithoutSampled("http://one/v1"), WithoutSampled("http://two/v1")]), "predictive+sc",
            paths=1)  # fmt: skip
    with pytest.raises(MissingLogprobs, match=r"^the engine sends no log-probabilities"):
        ask("?", WithoutSampled("http://one/v1"), "predictive+sc", paths=1)


class Failing(Engine):
    """An engine without an address."""

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        yield [Token("a", 0.5, 10.0)]
        raise EngineError("it broke")


def test_an_engine_without_an_address_is_named_by_its_number() -> None:
    assert str(asyncio.run(first_error(LoadBalancer([Failing(), Failing()])))) == "Failing 1: it broke"
    assert str(asyncio.run(first_error(LoadBalancer([Failing()])))) == "it broke"
