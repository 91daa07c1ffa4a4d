"""The official openai client against the live server: sync, async, streamed, and passed through."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import openai
import pytest

from sureenough.core.outcome import BUCKETS
from sureenough.server import ServerSettings
from tests.engines.misbehaving import Manner
from tests.server.openai_client import ASK, chat, client, extra
from tests.server.serving import ours
from tests.server.upstream import KEY, Upstream, an_upstream, before


def test_a_vote_in_one_reply(served: str, upstream: Upstream) -> None:
    made = upstream.made
    reply = chat(served, sureenough={"paths": 8})
    told = extra(reply)
    text = reply.choices[0].message.content or ""
    assert text.endswith(f"\\boxed{{{told['answer']}}}"), "the winning path's own words"
    assert (reply.choices[0].finish_reason, reply.model, told["strategy"]) == ("stop", "tiny@sc", "sc")
    assert (told["started"], told["pruned"], told["reason"]) == (8, 0, "budget")
    assert sum(told["votes"].values()) == 8
    assert reply.usage is not None
    assert reply.usage.completion_tokens == told["tokens"]["total"] == 8 * 15
    assert reply.usage.prompt_tokens == 8 * 9
    assert upstream.made > made


def test_ddc_prunes_and_reports_its_posterior(served: str) -> None:
    reply = chat(served, model="tiny@ddc:tau=0.9999999,weight=mean", seed=5)
    told = extra(reply)
    assert told["strategy"] == "ddc:tau=1,weight=mean" or told["strategy"].startswith("ddc:tau=0.9999999")
    assert 0 < told["posterior"] <= 1
    assert told["gate"]["drop"] is not None
    assert sum(told["tokens"][bucket] for bucket in BUCKETS) == told["tokens"]["total"]
    assert reply.usage is not None
    assert reply.usage.completion_tokens == told["tokens"]["total"]


def test_the_winning_path_is_the_lowest_of_its_class() -> None:
    answers = ["1/2", "0.5", "3", "\\frac12"]

    def manner(seed: int) -> Manner:
        return Manner(tokens=3, answer=answers[order.index(seed)] if seed in order else "9")

    from sureenough.core.events import path_seed

    order = [path_seed(0, number) for number in range(4)]
    with an_upstream(manner) as up, before(up) as (url, _):
        reply = chat(url, sureenough={"paths": 4})
    assert extra(reply)["answer"] == "1/2"
    assert extra(reply)["path"] == 0
    assert (reply.choices[0].message.content or "").endswith("\\boxed{1/2}")


@pytest.mark.parametrize(("reasoned", "counted"), [(12, 12), (None, 0), (-1, 0), (10**9, 15)])
def test_reasoning_tokens_are_summed_over_the_paths(reasoned: int | None, counted: int) -> None:
    """As the upstream counts them, and not more than the reply has."""
    with an_upstream(Manner(reasoned=reasoned, cached=4, answer="")) as up, before(up) as (url, _):
        usage = chat(url, sureenough={"paths": 2}).usage
    assert usage.completion_tokens_details.reasoning_tokens == 2 * counted
    assert usage.prompt_tokens_details.cached_tokens == 2 * 4


@pytest.mark.parametrize("progress", ["comments", "reasoning", "none"])
def test_a_stream_is_the_reply_of_the_same_seed_in_pieces(served: str, progress: str) -> None:
    asking: Any = {
        "model": "tiny@sure",
        "messages": ASK,
        "seed": 2,
        "extra_body": {"sureenough": {"progress": progress}},
    }
    whole = chat(served, **asking)
    chunks = list(chat(served, **asking, stream=True, stream_options={"include_usage": True}))
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == ["stop"]
    assert chunks[-1].usage is not None
    assert not chunks[-1].choices
    told = next(
        chunk.model_extra["sureenough"] for chunk in chunks if chunk.model_extra and "sureenough" in chunk.model_extra
    )
    assert (told["answer"], told["votes"]) == (extra(whole)["answer"], extra(whole)["votes"])
    thoughts = [c.choices[0].delta.model_extra or {} for c in chunks if c.choices]
    assert any("reasoning_content" in thought for thought in thoughts) == (progress == "reasoning")
    assert len({chunk.id for chunk in chunks}) == 1


def test_plain_completions(served: str) -> None:
    asking: Any = {"model": "tiny@sc", "prompt": "3 + 4 =", "extra_body": {"sureenough": {"paths": 3}}}
    reply = client(served).completions.create(**asking)
    assert "\\boxed{" in reply.choices[0].text
    chunks = list(client(served).completions.create(**asking, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == reply.choices[0].text


def test_the_async_client_with_many_votes_and_a_stream(served: str) -> None:
    async def ask() -> tuple[list[Any], str]:
        async with openai.AsyncOpenAI(base_url=f"{served}/v1", api_key="none", timeout=60) as asking:
            create: Any = partial(asking.chat.completions.create, model="tiny@ac", messages=ASK)
            votes = await asyncio.gather(*(create(seed=seed) for seed in range(8)))
            chunks = [chunk async for chunk in await create(stream=True)]
            return votes, "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    votes, streamed = asyncio.run(ask())
    assert all(extra(reply)["reason"] in ("settled", "budget") for reply in votes)
    assert "\\boxed{" in streamed


def test_models_are_listed_plain_and_with_strategies(served: str) -> None:
    names = [model.id for model in client(served).models.list()]
    assert {"tiny", "tiny@ddc", "tiny@sure", "user@host", "user@host@sc"} <= set(names)
    assert client(served).models.retrieve("tiny@ddc").id == "tiny@ddc"
    with pytest.raises(openai.NotFoundError):
        client(served).models.retrieve("nobody")


def test_a_name_with_an_at_sign_of_its_own(served: str, upstream: Upstream) -> None:
    reply = chat(served, model="user@host")
    assert reply.model == "user@host"
    chat(served, model="user@host@sc", sureenough={"paths": 1})
    assert json.loads(upstream.bodies[-1])["model"] == "user@host"


# -- passed through


def test_a_plain_name_passes_through_untouched(served: str, upstream: Upstream) -> None:
    reply = chat(served, key="the-clients-own", model="tiny", extra_body={"of_my_own": [1, {"a": None}]})
    assert reply.model_extra is not None
    assert reply.model_extra["of_upstream"] is True
    assert json.loads(upstream.bodies[-1])["of_my_own"] == [1, {"a": None}]
    assert upstream.headers[-1]["authorization"] == f"Bearer {KEY}"
    assert "the-clients-own" not in str(upstream.headers[-1])


def test_tools_and_streams_pass_through(served: str) -> None:
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    reply = chat(served, model="tiny", tools=tools)
    call: Any = (reply.choices[0].message.tool_calls or [])[0]
    assert call.function.name == "look"
    chunks = list(chat(served, model="tiny", stream=True))
    assert "\\boxed{" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def test_an_upstreams_refusal_passes_through_without_its_key(served: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(served, model="tiny", temperature=1.5)
    assert caught.value.code == "hot"
    assert KEY not in caught.value.message
    with pytest.raises(openai.BadRequestError) as caught:
        chat(served, temperature=1.5)
    assert KEY not in caught.value.message
    with pytest.raises(openai.NotFoundError):
        chat(served, model="nobody")


def test_a_server_whose_own_key_is_wrong(upstream: Upstream) -> None:
    with ours(ServerSettings(upstream=upstream.url, upstream_key="sk-a-wrong-one-0123")) as (url, _):
        for model in ("tiny", "tiny@sc"):
            with pytest.raises(openai.InternalServerError) as caught:
                chat(url, model=model)
            assert caught.value.status_code == 502
            assert KEY not in caught.value.message
            assert "sk-a-wrong" not in caught.value.message


def test_the_built_in_model_by_vote_and_plain() -> None:
    sums: Any = [{"role": "user", "content": "17 * 7 + 33 = ?"}]
    with ours(ServerSettings()) as (url, _):
        assert "built-in@sure" in [model.id for model in client(url).models.list()]
        reply = chat(url, model="built-in@sure", messages=sums)
        assert extra(reply)["answer"] == "152"
        plain = list(chat(url, model="built-in", messages=sums, stream=True, temperature=0))
        assert {chunk.model for chunk in plain} == {"reasoner"}, "the name of the file, not where it lies"
        said = "".join(chunk.choices[0].delta.content or "" for chunk in plain if chunk.choices)
        assert "152" in said
        with pytest.raises(openai.NotFoundError, match="offers built-in"):
            chat(url, model="gpt-9", messages=sums)
