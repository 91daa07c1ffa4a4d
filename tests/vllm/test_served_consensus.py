"""Consensus inside vLLM's own server, by the official client: `.ci/vllm pytest tests/vllm/test_served_consensus.py`."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError, OpenAI

import sureenough as se
from tests.vllm.test_served import bounded, now
from tests.vllm.test_served_watched import DDC, PROMPT
from tests.vllm.test_served_watched import engine as client_engine

URL = os.environ.get("SUREENOUGH_VLLM_URL")
pytestmark = pytest.mark.skipif(URL is None, reason="needs a vLLM server: see .ci/vllm")
QUESTION: Any = [{"role": "user", "content": "Compute 12 + 30."}]
RUN = {"paths": 16, "parallel": 16, "window": 16, "seed": 3}


def client(**options: Any) -> OpenAI:
    return OpenAI(base_url=URL, api_key=os.environ.get("SUREENOUGH_VLLM_KEY", "none"), timeout=120, **options)


def post(path: str, body: Any) -> httpx.Response:
    return httpx.post(f"{URL}/{path}", json=body, timeout=120)


def test_the_models_have_names_with_strategies() -> None:
    names = [model.id for model in client().models.list()]
    assert names[0] == "tiny"
    assert {"tiny@ddc", "tiny@sc", "tiny@sure"} < set(names)


@pytest.mark.parametrize("strategy", ["sc", "ac", "ddc", "sure"])
def test_a_consensus_answers_and_counts_every_token(strategy: str) -> None:
    before = now().generated
    reply = client().chat.completions.create(
        model=f"tiny@{strategy}", messages=QUESTION, max_tokens=200, extra_body={"sureenough": RUN}
    )
    assert "\\boxed{42}" in str(reply.choices[0].message.content)
    assert reply.usage is not None
    assert reply.model_extra is not None
    details = reply.model_extra["sureenough"]
    assert (details["answer"], details["failed"], details["tokens"]["overrun_known"]) == ("42", 0, True)
    # Its own counters lack the last tokens of paths that it aborted.
    assert details["tokens"]["total"] >= now().generated - before
    assert not any("estimated" in note for note in details["notes"])


def test_a_stream_ends_with_the_same_answer() -> None:
    stream = client().chat.completions.create(
        model="tiny@ddc", messages=QUESTION, max_tokens=200, stream=True, stream_options={"include_usage": True},
        extra_body={"sureenough": RUN},
    )  # fmt: skip
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "\\boxed{42}" in text
    assert chunks[-1].usage is not None


@pytest.mark.parametrize("stream", [False, True])
def test_responses_too(stream: bool) -> None:
    create: Any = client().responses.create
    reply = create(
        model="tiny@ddc", input="Compute 12 + 30.", max_output_tokens=200, stream=stream, extra_body={"sureenough": RUN}
    )
    if stream:
        reply = next(event.response for event in reply if event.type == "response.completed")
    assert "\\boxed{42}" in reply.output_text
    plain = client().responses.create(model="tiny", input="Compute 12 + 30.", max_output_tokens=60)
    assert plain.output_text


def test_completions_too() -> None:
    extra = {"sureenough": {"paths": 4, "parallel": 4}}
    reply = client().completions.create(model="tiny@sc", prompt="1 + 1 = ", max_tokens=30, extra_body=extra)
    assert reply.choices[0].text


def test_decisions_equal_those_of_the_client_with_log_probabilities() -> None:
    """One path at a time, sampled alike: the same thresholds, votes and pruned paths."""
    run = {"paths": 24, "window": 16, "parallel": 1, "kind": "text", "template": "{question}"}
    sampling = {"temperature": 2.0, "top_p": 1.0, "max_tokens": 200, "top_k": 20}
    body = {"model": f"tiny@{DDC}", "messages": [dict(message) for message in PROMPT.messages], **sampling}
    inside = post("chat/completions", body | {"sureenough": run}).raise_for_status().json()["sureenough"]
    outside = bounded(se.aask(PROMPT, client_engine(inside=False), DDC, kind="text", paths=24, window=16, parallel=1))
    assert outside.gate is not None
    assert inside["gate"]["drop"] == pytest.approx(outside.gate.drop, rel=1e-6)
    assert inside["gate"]["trust"] == pytest.approx(outside.gate.trust, rel=1e-6)
    assert (inside["pruned"], inside["started"], inside["answer"]) == (outside.pruned, outside.started, outside.answer)
    assert inside["votes"] == pytest.approx(outside.votes, rel=1e-6)
    assert inside["pruned"] > 2
    assert inside["tokens"]["total"] == outside.tokens.total
    assert inside["tokens"]["overrun"] == 0  # a closed gate makes its own token the last


def test_what_cannot_be_done_is_refused_by_name() -> None:
    ask = client().chat.completions.create
    with pytest.raises(BadRequestError, match="logprobs cannot be used with a strategy"):
        ask(model="tiny@ddc", messages=QUESTION, logprobs=True)
    with pytest.raises(NotFoundError, match="other"):
        ask(model="other@ddc", messages=QUESTION)
    with pytest.raises(BadRequestError, match="no option 'no_such'"):
        ask(model="tiny@ddc:no_such=1", messages=QUESTION)
    large = post("chat/completions", {"model": "tiny@ddc", "messages": [{"role": "user", "content": "7" * (1 << 21)}]})
    assert (large.status_code, large.json()["error"]["code"]) == (413, "request_too_large")


def test_a_response_format_is_a_grammar_of_every_path() -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
    form: Any = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    reply = client().chat.completions.create(
        model="tiny@sc", messages=QUESTION, max_tokens=60, response_format=form, extra_body={"sureenough": {"paths": 4}}
    )
    content = reply.choices[0].message.content
    assert content == "" or isinstance(json.loads(str(content))["answer"], int)


@pytest.mark.parametrize("stream", [False, True])
def test_plain_requests_are_vllms_own(stream: bool) -> None:
    """Those that are too large for a vote, too."""
    body = {"model": "tiny", "messages": QUESTION, "max_tokens": 20, "seed": 1, "stream": stream}
    assert '"owned' not in (text := post("chat/completions", body).text)
    assert "sureenough" not in text
    assert post("chat/completions", body | {"messages": "@"}).status_code == 400
    long = [{"role": "user", "content": "@" * (1 << 21)}]
    assert "context length" in post("chat/completions", body | {"messages": long}).text
    assert post("completions", {"model": "tiny", "prompt": "1", "max_tokens": 2}).json()["object"] == "text_completion"


def test_a_client_that_leaves_ends_its_paths() -> None:
    async def leave() -> None:
        async with AsyncOpenAI(base_url=URL, api_key="none") as openai:
            run = {"paths": 32, "parallel": 32}
            asking = openai.chat.completions.create(
                model="tiny@sc", messages=QUESTION, max_tokens=1900,
                extra_body={"ignore_eos": True, "sureenough": run},
            )  # fmt: skip
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asking, 3)

    bounded(leave())
    assert now().running == 0  # which waits for it


def test_two_hundred_clients() -> None:
    """All get a response: an answer, or the word that the server is busy."""

    async def all_of_them() -> list[int]:
        async with httpx.AsyncClient(timeout=170, limits=httpx.Limits(max_connections=200)) as http:
            body = {"model": "tiny@ac", "messages": QUESTION, "max_tokens": 60, "sureenough": {"paths": 3}}
            replies = [http.post(f"{URL}/chat/completions", json=body) for _ in range(200)]
            return [reply.status_code for reply in await asyncio.gather(*replies)]

    statuses = bounded(all_of_them())
    assert set(statuses) <= {200, 429}
    assert statuses.count(200) >= 64


def test_a_page_can_start_and_follow_a_run() -> None:
    body = {"model": "tiny@sc", "messages": QUESTION, "max_tokens": 60, "sureenough": {"paths": 3}}
    started = post("sureenough/api/runs", body)
    assert started.status_code == 201
    with httpx.stream("GET", f"{URL}/sureenough/api/runs/{started.json()['id']}/events", timeout=60) as events:
        assert next(line for line in events.iter_lines() if '"result"' in line)
