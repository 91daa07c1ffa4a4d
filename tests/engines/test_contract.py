"""One contract for all engines. To hold a new engine to it: a way to make one, added to `ENGINES`.

A maker gives an engine whose paths are made by their seed, and tells how many of its paths are open; `trouble` asks for
paths that never end, that break in the middle, or that come without log-probabilities. A real vLLM is held to it where
one is running: `.ci/vllm pytest tests/engines/test_contract.py`.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, Literal, NamedTuple

import httpx
import numpy as np
import pytest

from sureenough.answers import extract
from sureenough.core.events import Token, path_seed
from sureenough.core.session import Session
from sureenough.drive.live import run
from sureenough.drive.reading import grouping
from sureenough.engines import Chunk, Engine, Fake, Prompt, Recorded
from sureenough.engines.base import opened
from sureenough.engines.fake import Step
from sureenough.engines.local import Local
from sureenough.engines.openai import OpenAI
from sureenough.engines.reduce import too_few
from sureenough.engines.spread import Spread
from sureenough.errors import EngineError, MissingLogprobs
from sureenough.spec import resolve
from sureenough.traces import RecordedPath
from tests.engines.bridge import bridged
from tests.engines.misbehaving import Manner, serving
from tests.engines.relay import relay

BRIDGE = bridged() if "SUREENOUGH_INPROCESS" in os.environ else None
Trouble = Literal["none", "endless", "broken", "silent"]
PROMPT = Prompt.user("?")
SPEECHLESS = {"ignore_eos": True, "logit_bias": [["{", False], ["a", False]]}  # goes on, and never says its answer
SEEDS = [path_seed(0, n) for n in range(64)]


class Held(NamedTuple):
    """An engine on the bench, and how to see what it is doing."""

    engine: Engine
    running: Callable[[], int]
    tokens: int = 11  # of each path
    answer: str | None = "7"


def _signals(seed: int, n: int) -> list[Token]:
    draw = random.Random(seed)
    return [Token("", draw.random(), 20 * draw.random()) for _ in range(n)]


@asynccontextmanager
async def fake(trouble: Trouble) -> AsyncIterator[Held]:
    def script(seed: int) -> Iterable[Step]:
        if trouble == "silent":
            yield MissingLogprobs(too_few(0, 20))
        yield _signals(seed, 10)
        while trouble == "endless":
            yield _signals(seed, 10)
        if trouble == "broken":
            yield EngineError("broken")
        yield Chunk([Token(r"\boxed{7}", 0.5, 10.0)], finish="stop")

    engine = Fake(script)
    yield Held(engine, lambda: engine.running)


@asynccontextmanager
async def recorded(trouble: Trouble) -> AsyncIterator[Held]:
    if trouble == "broken":
        pytest.skip("recorded paths do not break")
    n = {"endless": 20_000, "silent": 0}.get(trouble, 11)
    paths = []
    for seed in SEEDS[:16]:
        made = _signals(seed, n)
        paths.append(RecordedPath("7", [t.peak for t in made], [t.conf for t in made], text=r"so \boxed{7}"))
    engine = Recorded(paths)
    yield Held(engine, lambda: engine.running)


@asynccontextmanager
async def http(trouble: Trouble, **options: Any) -> AsyncIterator[Held]:
    manner = {
        "none": Manner(tokens=8, answer="7"),
        "endless": Manner(tokens=20_000),
        "broken": Manner(cut_after=6),
        "silent": Manner(logprobs=False),
    }[trouble]
    async with serving(manner) as server:
        yield Held(OpenAI(server.url, "tiny", **options), lambda: server.running)


@asynccontextmanager
async def completions(trouble: Trouble) -> AsyncIterator[Held]:
    async with http(trouble, chat=False) as held:
        yield held


@asynccontextmanager
async def spread(trouble: Trouble) -> AsyncIterator[Held]:
    async with fake(trouble) as one, http(trouble) as other:
        yield (
            Held(Spread([one.engine]), one.running)
            if trouble == "none"
            else Held(Spread([one.engine, other.engine]), lambda: one.running() + other.running())
        )


@asynccontextmanager
async def vllm(trouble: Trouble) -> AsyncIterator[Held]:
    url = os.environ.get("SUREENOUGH_VLLM_URL")
    if url is None:
        pytest.skip("no vLLM here: `.ci/vllm pytest tests/engines/test_contract.py` installs and serves one")
    metrics = url.replace("/v1", "/metrics")

    def running() -> int:
        with urllib.request.urlopen(metrics, timeout=10) as reply:
            return int(sum(map(float, re.findall(rb"^vllm:num_requests_running\S* (\S+)", reply.read(), re.MULTILINE))))

    long = 1900 if trouble in ("endless", "broken") else 11
    # Hot, so that another seed is another path from the first few tokens on.
    options: dict[str, Any] = {"temperature": 2.0, "top_p": 1.0, "max_path_tokens": long, "inside": False}
    options["extra"] = {"ignore_eos": True}  # so that paths are as long as they should be
    if trouble == "silent":
        options["k"] = 50  # more than it gives
    place = httpx.URL(url)
    assert place.port is not None
    async with relay(place.host, place.port, cut_after=20_000 if trouble == "broken" else None) as port:
        yield Held(OpenAI(f"http://127.0.0.1:{port}/v1", "tiny", **options), running, tokens=long, answer=None)


@asynccontextmanager
async def inprocess(trouble: Trouble) -> AsyncIterator[Held]:
    if BRIDGE is None:
        pytest.skip("no vLLM in this process; `.ci/inprocess` runs these tests with one")
    if trouble in ("broken", "silent"):
        pytest.skip("vLLM in this process breaks with it, and always has log-probabilities")
    # Pruned paths end by their end token, so it cannot be ignored where a run prunes; these seeds end late enough.
    more: dict[str, Any] = {"ignore_eos": True} if trouble == "endless" else {}
    long = 1900 if trouble == "endless" else 11
    engine = BRIDGE.sampled(max_path_tokens=long, temperature=2.0, **more)  # hot: other seeds, other paths
    yield Held(engine, lambda: engine.running, tokens=long, answer=None)


@asynccontextmanager
async def local(trouble: Trouble) -> AsyncIterator[Held]:
    """The built-in model in llama.cpp's server, in this process; a relay cuts its lines where they are to break."""
    long = 1900 if trouble in ("endless", "broken") else 24  # long enough to differ
    engine = Local(
        slots=8, context=8 * 2048, temperature=1.0, top_p=1.0, max_path_tokens=long, extra=SPEECHLESS,
        k=500 if trouble == "silent" else 20,  # it has no more candidates than words
    )  # fmt: skip
    async with engine.open(parallel=1) as ready:
        server = ready.running
        place = httpx.URL(server.url)
        asked = urllib.request.Request(
            server.url.replace("/v1", "/metrics"), headers={"Authorization": f"Bearer {server.key}"}
        )

        def running() -> int:
            with urllib.request.urlopen(asked, timeout=10) as reply:
                return int(re.findall(rb"^llamacpp:requests_processing (\d+)", reply.read(), re.MULTILINE)[0])

        if trouble != "broken":
            yield Held(engine, running, tokens=long, answer=None)
            return
        assert place.port is not None
        async with relay(place.host, place.port, cut_after=20_000) as port:
            yield Held(engine.wire(f"http://127.0.0.1:{port}/v1", server.key), running, tokens=long, answer=None)


ENGINES: dict[str, Callable[[Trouble], AbstractAsyncContextManager[Held]]] = {
    "fake": fake,
    "recorded": recorded,
    "chat": http,
    "completions": completions,
    "spread": spread,
    "vllm": vllm,
    "inprocess": inprocess,
    "local": local,
}
every_engine = pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)


def bounded(make: Callable[[Trouble], AbstractAsyncContextManager[Held]], trouble: Trouble, use: Any) -> Any:
    """Use an engine, within a time that only a hang would need."""

    async def all_of_it() -> Any:
        async with make(trouble) as held:
            result = await use(held)
            while held.running():
                await asyncio.sleep(0.002)
            assert [task for task in asyncio.all_tasks() if task.get_name().startswith("path")] == []
        return result

    return asyncio.run(asyncio.wait_for(all_of_it(), timeout=30))


async def whole(engine: Engine, seed: int, prompt: Prompt = PROMPT) -> tuple[list[tuple[float, float]], str]:
    signals, text = [], ""
    async with opened(engine, 1) as ready, aclosing(ready.stream(prompt, seed=seed)) as chunks:
        async for chunk in chunks:
            signals += [(token.peak, token.conf) for token in chunk]
            text += chunk.text if isinstance(chunk, Chunk) else "".join(token.text for token in chunk)
    return signals, text


@every_engine
def test_a_path_comes_as_text_and_two_numbers_a_token(make: Any) -> None:
    async def use(held: Held) -> None:
        signals, text = await whole(held.engine, SEEDS[0])
        assert len(signals) == held.tokens
        assert all(0 < peak <= 1 and 0 <= conf <= 100 for peak, conf in signals)
        assert text
        assert extract(text) == held.answer

    bounded(make, "none", use)


@every_engine
def test_a_seed_gives_its_path_again(make: Any) -> None:
    async def use(held: Held) -> None:
        one, again, *others = [await whole(held.engine, seed) for seed in (SEEDS[1], *SEEDS[1:7])]
        assert one[1] == again[1]
        # A prompt that is in a server's cache is not read in the same batch again: the last digits differ.
        assert np.array(one[0]) == pytest.approx(np.array(again[0]), rel=1e-3)
        assert any(one[0] != other[0] for other in others)  # a sure model may begin two paths alike

    bounded(make, "none", use)


@every_engine
def test_closing_frees_the_slot(make: Any) -> None:
    async def use(held: Held) -> None:
        async with opened(held.engine, 2) as ready:
            for seed in SEEDS[:5]:  # more than there are slots
                async with aclosing(ready.stream(PROMPT, seed=seed)) as chunks:
                    assert len(await anext(chunks))
                    while held.running() > 3:  # closing is heard a moment later; only one that is not would hang here
                        await asyncio.sleep(0.002)

    bounded(make, "endless", use)


@every_engine
def test_cancelling_the_reader_frees_the_slot(make: Any) -> None:
    async def use(held: Held) -> None:
        reading = asyncio.create_task(whole(held.engine, SEEDS[0]))
        while not held.running():
            await asyncio.sleep(0.001)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    bounded(make, "endless", use)


@every_engine
def test_missing_log_probabilities_name_the_cure(make: Any) -> None:
    async def use(held: Held) -> None:
        with pytest.raises(MissingLogprobs, match=r"sc, ac(, | or )esc"):
            await whole(held.engine, SEEDS[0])

    bounded(make, "silent", use)


@every_engine
def test_a_path_that_breaks_is_an_engine_error(make: Any) -> None:
    async def use(held: Held) -> None:
        with pytest.raises(EngineError):
            await whole(held.engine, SEEDS[0])

    bounded(make, "broken", use)


@every_engine
@pytest.mark.parametrize("strategy", ["sc", "ddc:warmup=4", "sure"])
def test_a_whole_run(make: Any, strategy: str) -> None:
    async def use(held: Held) -> None:
        session = Session(resolve(strategy), paths=16, window=4, parallel=4)
        out = await run(PROMPT, held.engine, session, extract=extract, group=grouping())
        assert out.answer == held.answer
        assert out.tokens.total <= held.tokens * out.started

    bounded(make, "none", use)


@every_engine
def test_a_deadline_frees_every_slot(make: Any) -> None:
    async def use(held: Held) -> None:
        session = Session(resolve("ddc:warmup=4"), paths=16, window=4, parallel=4)
        out = await run(PROMPT, held.engine, session, extract=extract, group=grouping(), deadline=0.05)
        assert (out.reason, out.answer) == ("deadline", None)

    bounded(make, "endless", use)
