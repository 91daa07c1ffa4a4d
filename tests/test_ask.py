"""`se.ask` and `se.aask` as callers use them, on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import sureenough as se
from sureenough.engines import Fake
from tests.engines.misbehaving import Manner, Server, serving
from tests.in_thread import in_thread


@pytest.fixture
def server() -> Iterator[Server]:
    """A well-behaved server in a thread, so that the main thread is free to wait."""
    with in_thread(serving(Manner(tokens=20, answer="7"))) as one:
        yield one


def test_ask(server: Server) -> None:
    engine = se.OpenAI(server.url, model="tiny")
    out = se.ask("What is 3 + 4?", engine, "ddc:warmup=8", paths=16, window=8)
    assert out.answer == "7"
    assert out.tokens.total >= out.tokens.init > 0
    assert out.tokens.prompt == 9 * out.started
    assert (out.options.parallel, out.window, out.strategy) == (16, 8, "ddc:warmup=8")
    assert server.requests[0]["messages"][0]["content"].startswith("What is 3 + 4?\n\nPlease reason step by step")
    assert (len(server.requests), server.probes) == (out.started, [])  # a request a path, and no probe
    assert len({body["seed"] for body in server.requests}) == out.started


def test_ask_inside_a_running_loop(server: Server) -> None:
    async def notebook() -> se.Outcome:
        return se.ask("?", se.OpenAI(server.url, model="tiny"), "sc", paths=4)

    out = asyncio.run(notebook())
    assert (out.reason, out.started) == ("budget", 4)
    assert "logprobs" not in server.requests[0]


def test_aask(server: Server) -> None:
    engine = se.OpenAI(server.url, model="tiny")
    out = asyncio.run(se.aask(se.Prompt.user("as it is"), engine, "ac", paths=8, parallel=2))
    assert out.answer == "7"
    assert server.requests[0]["messages"] == [{"role": "user", "content": "as it is"}]


def test_tokens_beyond_a_paths_limit_are_overrun() -> None:
    async def ask() -> se.Outcome:
        async with serving(Manner(tokens=200, merged=True, obeys=False)) as server:
            engine = se.OpenAI(server.url, model="tiny", max_path_tokens=30)
            return await se.aask("?", engine, "ddc:warmup=4", paths=4, window=8)

    out = asyncio.run(ask())
    assert (out.tokens.init, out.steps, out.answer) == (120, 30, None)
    assert out.tokens.overrun > 0
    assert not out.tokens.overrun_known  # the server may have made more before it heard of the closing


@pytest.mark.parametrize(
    ("question", "options", "says"),
    [
        (" ", {}, "the question is empty"),
        ("What \ud800?", {}, "half of a surrogate pair"),
        ("?", {"template": "{answer}"}, "the template has braces"),
        ("?", {"template": "{"}, "the template has braces"),
        ("?", {"template": "{question.none}"}, "the template has braces"),
        ("?", {"template": "Say {{question}}"}, "does not contain {question}"),
        ("?", {"kind": "essay"}, "known: math, choice"),
        ("?", {"seed": -1}, "seed is -1"),
        ("Please write a short poem.", {}, "this question has no answer that can be compared"),
        ("?", {"strategy": "ddc", "paths": 4}, "warms up with 16"),
    ],
)
def test_what_cannot_be_asked(question: str, options: dict[str, object], says: str) -> None:
    with pytest.raises(se.UsageError, match=says):
        se.ask(question, Fake(lambda seed: []), **({"strategy": "sc"} | options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "kind"), [("Write a poem.", "text"), ("Write 0.5 as a fraction.", "math"), ("The poem has", "math")]
)
def test_what_can_be_asked(question: str, kind: str) -> None:
    engine = Fake(lambda seed: [[se.Token(r"\boxed{7}", 0.5, 9.0)]])
    assert se.ask(question, engine, "sc", paths=2, kind=kind).answer == "7"


@pytest.mark.parametrize("engine", ["sure", se.OpenAI, 5])
def test_what_is_not_an_engine(engine: Any) -> None:
    with pytest.raises(se.UsageError, match=r"the engine is .*strategy='sure'"):
        se.ask("?", engine)
    with pytest.raises(se.UsageError, match="the engine is"):
        asyncio.run(se.aask("?", engine))


def test_what_is_not_a_question() -> None:
    for question in (5, None, ["?"]):
        with pytest.raises(se.UsageError, match="a question is a string or a Prompt, not"):
            se.ask(question, Fake(lambda seed: []), "sc")  # type: ignore[arg-type]


def test_errors_reach_the_caller_as_they_are() -> None:
    engine = se.OpenAI("http://127.0.0.1:9/v1", model="tiny", retries=0)
    with pytest.raises(se.EngineUnavailable, match="no response from"):
        se.ask("?", engine, "sc", paths=2)

    async def notebook() -> None:
        se.ask("?", engine, "sc", paths=2)

    with pytest.raises(se.EngineUnavailable, match="no response from"):
        asyncio.run(notebook())
