"""Replies: their fields and headers, when a stream begins, what ends its lines, and what a truncated path is called."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

import sureenough as se
from sureenough.api import replay
from sureenough.drivers.observers import Transcript
from sureenough.engines import Fake
from sureenough.engines.base import Prompt
from sureenough.engines.fake import Step
from sureenough.pools import RecordedPath
from sureenough.server import replies
from sureenough.server.consensus import RunResult
from sureenough.server.replies import ConsensusResponse, ReplyWriter, consensus_details, usage
from sureenough.server.requests import ConsensusRequest
from sureenough.server.settings import ServerSettings
from sureenough.spec import resolve
from tests.server.sending import BODY, post
from tests.server.serving import ours

OUT = replay([RecordedPath(answer="7", peak=[0.9] * 4, conf=[9.0] * 4)] * 2, "sc")


def a_request(**sampling: int) -> ConsensusRequest:
    return ConsensusRequest("m", "m@sc", resolve("sc"), "?", Prompt.user("?"), {}, sampling=dict(sampling))


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\r\rdata: [DONE]\r\r", "\x0b", "\u2028"])
def test_progress_is_one_comment_whatever_the_leading_answer_is(end: str) -> None:
    sent = ReplyWriter(a_request()).progress(f"leading: 7{end}data: x")
    assert sent.startswith(b": sureenough leading: 7 data:")
    assert sent.decode().splitlines() == [sent.decode().removesuffix("\n\n"), ""]


@pytest.mark.parametrize(
    ("limit", "truncated", "why"),
    [(3, False, "length"), (4, False, "stop"), (None, False, "stop"), (None, True, "length")],
)
def test_a_path_that_was_cut_has_finish_reason_length(limit: int | None, truncated: bool, why: str) -> None:
    """At its limit, or by its server."""
    sampling = {} if limit is None else {"max_path_tokens": limit}
    reply = ReplyWriter(a_request(**sampling)).whole(RunResult(OUT, Transcript(0, "7", 3, truncated=truncated)))
    assert reply["choices"][0]["finish_reason"] == why


def test_14_9_a_negative_count_of_prompt_tokens_is_not_reported() -> None:
    out = replace(OUT, tokens=replace(OUT.tokens, prompt=-9))
    assert usage(out)["prompt_tokens"] == 0
    assert consensus_details(RunResult(out, None))["tokens"]["prompt"] == 0


def test_prompts_of_searches_are_reported() -> None:
    out = replace(OUT, tokens=replace(OUT.tokens, prompt=10, reread=30, cached=25, reread_cached=17))
    assert usage(out)["prompt_tokens"] == 40
    tokens = consensus_details(RunResult(out, None))["tokens"]
    assert [tokens[name] for name in ("prompt", "reread", "cached", "reread_cached")] == [10, 30, 25, 17]


@pytest.mark.parametrize(
    ("strategy", "field"),
    [
        ("ddc", "posterior"),
        ("ac", "posterior"),
        ("sure", "expected_gain"),
        ("deepconf-low", "leader_share"),
        ("sc", None),
    ],
)
def test_14_21_each_measure_has_a_field_of_its_own(served: str, strategy: str, field: str | None) -> None:
    details = post(served, model=f"tiny@{strategy}", sureenough={"paths": 20}).json()["sureenough"]
    values = {name: details[name] for name in ("posterior", "expected_gain", "leader_share")}
    assert [name for name, value in values.items() if value is not None] == ([] if field is None else [field])


def test_14_22_proxies_must_not_buffer_events(served: str) -> None:
    run = post(served, "/api/runs").json()["id"]
    with httpx.stream("GET", f"{served}/api/runs/{run}/events") as events:
        assert events.headers["x-accel-buffering"] == "no"
    assert post(served, stream=True).headers["x-accel-buffering"] == "no"


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<think>\nhm\n</think>\n\n5", "hm", "5"),
        ("hm\n</think>\n\n5", "hm", "5"),  # opened by the chat template
        ("<think>hm", "hm", ""),
        ("5", None, "5"),
    ],
)
def test_thinking_is_not_content(text: str, reasoning: str | None, content: str) -> None:
    message = ReplyWriter(a_request()).whole(RunResult(OUT, Transcript(0, text)))["choices"][0]["message"]
    assert (message.get("reasoning_content"), message["content"]) == (reasoning, content)


# -- the head of a streamed response: held back until something was sampled, and left by clients before that

ENDLESS = 3600.0


@pytest.mark.parametrize("model", ["m@sc", "m@predictive+sc:runs=1,rollouts=1"])
def test_the_first_token_of_a_path_or_a_branch_sends_it(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "HELD_HEAD", ENDLESS)
    steps: list[Step] = [[se.Token("7", 0.5, 9.0)], ENDLESS]
    engine = Fake(lambda seed: steps, lambda beginning, seed: steps)
    with (
        ours(ServerSettings(engine=engine, models=("m",))) as (url, _),
        httpx.stream("POST", f"{url}/v1/chat/completions", json=BODY | {"model": model, "stream": True}) as response,
    ):
        assert response.status_code == 200


def test_a_client_that_leaves_before_it_leaves_no_task() -> None:
    async def receive() -> Message:
        await asyncio.sleep(0)  # the response begins to wait
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    async def leave() -> None:
        run = SimpleNamespace(task=asyncio.create_task(asyncio.sleep(ENDLESS)))
        state: Any = SimpleNamespace(start=lambda *_: run)
        with pytest.raises(ClientDisconnect):
            await ConsensusResponse(state, replace(a_request(), stream=True), ExitStack())({}, receive, send)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(leave())
