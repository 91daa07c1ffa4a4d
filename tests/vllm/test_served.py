"""The HTTP engine against a real vLLM: `.ci/vllm pytest tests/vllm/test_served.py`. Skipped without one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

import pytest
from arithmetic import generate

import sureenough as se
from sureenough.engines.openai.client import OpenAI, ServerCounters

URL = os.environ.get("SUREENOUGH_VLLM_URL")
pytestmark = pytest.mark.skipif(
    URL is None, reason="needs a vLLM server: `.ci/vllm pytest tests/vllm/test_served.py` installs and serves one"
)
PROMPT = se.Prompt.user(generate(3, seed=1)[0].question)
T = TypeVar("T")


def engine(**options: Any) -> OpenAI:
    assert URL is not None
    common: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "max_path_tokens": 60, "inside": False}
    return OpenAI(URL, "tiny", **(common | options))


def bounded(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, timeout=180))


def now() -> ServerCounters:
    async def ask() -> ServerCounters:
        async with engine().open(parallel=1) as connection:
            found = await connection.settled_counters()
            assert found is not None
            return found

    return bounded(ask())


@pytest.mark.parametrize("chat", [True, False])
def test_without_cancels_our_count_equals_the_servers(chat: bool) -> None:
    before = now()
    out = bounded(se.aask(PROMPT, engine(chat=chat), "ddc:warmup=12", paths=12, window=16))
    after = now()
    assert (out.started, out.pruned, out.tokens.overrun) == (12, 0, 0)
    assert out.tokens.total == after.generated - before.generated
    assert out.tokens.overrun_known
    assert out.tokens.prompt > 0


def test_strategies_without_confidence_count_by_usage() -> None:
    before = now()
    out = bounded(se.aask(PROMPT, engine(), "sc", paths=8))
    assert out.tokens.total == now().generated - before.generated
    assert not any("estimated" in note for note in out.notes)


def test_cancels_reach_the_server_and_the_overrun_is_its_difference() -> None:
    before = now()
    strategy = "ddc:warmup=4,drop=90,trust=100"
    long = engine(max_path_tokens=1500, metrics=True, extra={"ignore_eos": True})
    out = bounded(se.aask(PROMPT, long, strategy, paths=24, window=16, parallel=8))
    after = now()
    assert out.pruned > 0
    assert after.running == 0
    assert out.tokens.overrun_known
    assert out.tokens.total == after.generated - before.generated
    blind = bounded(
        se.aask(PROMPT, engine(max_path_tokens=1500, extra={"ignore_eos": True}), strategy, paths=8, window=16)
    )
    assert not blind.tokens.overrun_known


def test_closing_one_stream_ends_one_request() -> None:
    async def close_one() -> None:
        long = engine(max_path_tokens=1900, extra={"ignore_eos": True})
        async with long.open(parallel=2) as connected:
            async with aclosing(connected.stream(PROMPT, seed=1)) as chunks:
                await anext(chunks)
                during = await connected.counters()
            assert during is not None
            assert during.running == 1
            rest = await connected.settled_counters()
            assert rest is not None
            assert rest.running == 0

    bounded(close_one())


def test_refusals_say_what_to_do() -> None:
    with pytest.raises(se.MissingLogprobs, match="--max-logprobs 50"):
        bounded(se.aask(PROMPT, engine(k=50), "ddc"))
    with pytest.raises(se.EngineRejected, match="check the model's name"):
        bounded(se.aask(PROMPT, OpenAI(str(URL), "other"), "ddc"))
