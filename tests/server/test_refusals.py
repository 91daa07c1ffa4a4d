"""The official openai client refused in every way, told to come back, and leaving in the middle."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from sureenough.server import ServerLimits
from tests.engines.misbehaving import Manner
from tests.in_thread import until
from tests.server.openai_client import ASK, LONG, chat, client, extra
from tests.server.upstream import Upstream, an_upstream, before

FIELDS = {"warms up with 16": "sureenough.paths", "once": "sureenough.template", "empty": "messages"}
"""What errors of the library name, by their words."""


@pytest.mark.parametrize(
    ("asked", "code", "says"),
    [
        ({"model": "tiny@ddc:nonsense=1"}, "invalid_value", "known: warmup"),
        ({"model": "tiny@ddc:tau=2"}, "invalid_value", "tau"),
        ({"model": "tiny@dcc"}, "invalid_value", "unknown strategy 'dcc' (did you mean 'ddc'?)"),
        ({"model": "tiny", "extra_body": {"sureenough": {"strategy": "ddd"}}}, "invalid_value", "did you mean"),
        ({"model": "tiny@sc", "extra_body": {"sureenough": {"strategy": "ddc"}}}, "invalid_value", "name one strategy"),
        ({"model": "tiny@sc", "extra_body": {"sureenough": {"patsh": 1}}}, "invalid_value", "known: strategy, kind"),
        ({"model": "tiny@sc", "extra_body": {"sureenough": {"url": "http://x"}}}, "invalid_value", "unknown field"),
        ({"model": "tiny@sc", "extra_body": {"sureenough": {"paths": 513}}}, "invalid_value", "<= 512 (at"),
        ({"model": "tiny@sc", "extra_body": {"sureenough": {"paths": "many"}}}, "invalid_value", "sureenough.paths"),
        ({"model": "tiny@ddc", "extra_body": {"sureenough": {"paths": 3}}}, "invalid_value", "warms up with 16"),
        ({"model": "tiny@sc", "extra_body": {"sureenough": {"deadline": 1e6}}}, "invalid_value", "<= 600"),
        ({"model": "tiny@sc", "extra_body": {"sureenough": {"hurry": -1}}}, "invalid_value", ">= 0"),
        ({"model": "tiny@sc", "extra_body": {"sureenough": {"template": "{question:>9}"}}}, "invalid_value", "braces"),
        ({"model": "tiny@sc", "extra_body": {"sureenough": {"template": "{question}" * 2}}}, "invalid_value", "once"),
        ({"model": "tiny@sc", "extra_body": {"base_url": "http://x"}}, "unknown_parameter", "base_url"),
        ({"model": "tiny@mur+sc", "stop": ["END"]}, "invalid_value", "stop=['END'] cannot be combined with a search"),
        ({"model": "tiny@sc", "n": 2}, "unsupported_parameter", "plain model name"),
        ({"model": "tiny@sc", "logprobs": True}, "unsupported_parameter", "logprobs"),
        ({"model": "tiny@sc", "top_logprobs": 5}, "unsupported_parameter", "top_logprobs"),
        ({"model": "tiny@sc", "tools": [{"type": "function"}]}, "unsupported_parameter", "tool"),
        ({"model": "tiny@sc", "max_tokens": 40_000}, "invalid_value", "32768"),
        ({"model": "tiny@sc", "messages": []}, "invalid_value", "at least one message"),
        ({"model": "tiny@sc", "messages": [{"role": "user", "content": " "}]}, "invalid_value", "empty"),
        ({"model": ""}, None, "model parameter"),
    ],
)  # fmt: skip
def test_bad_requests(served: str, asked: dict[str, Any], code: str | None, says: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(served, **({"messages": ASK} | asked))
    assert says in caught.value.message
    assert (caught.value.code, caught.value.type) == (code, "invalid_request_error")
    assert caught.value.param == FIELDS.get(says, caught.value.param)


def test_fields_without_effect_are_accepted(served: str) -> None:
    nothing: Any = {"n": 1, "logprobs": False, "top_logprobs": 0, "tools": [], "tool_choice": "none", "user": "me"}
    reply = chat(served, **nothing, sureenough={"paths": 1})
    assert extra(reply)["started"] == 1


@pytest.mark.parametrize("stream", [False, True])
def test_an_unknown_model_is_a_404(served: str, stream: bool) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        chat(served, model="nobody@sc", stream=stream)
    assert caught.value.code == "model_not_found"


def test_only_the_models_that_are_offered(upstream: Upstream) -> None:
    with before(upstream, models=("tiny",)) as (url, _):
        assert next(model.id for model in client(url).models.list()) == "tiny"
        for model in ("user@host", "user@host@sc"):
            with pytest.raises(openai.NotFoundError, match="offers tiny"):
                chat(url, model=model)
    assert not any(b"user@host" in body for body in upstream.bodies), "the upstream was not asked"


def test_a_body_that_is_too_large(served: str) -> None:
    long: Any = [{"role": "user", "content": "x" * (2 << 20)}]
    for model in ("tiny", "tiny@sc"):
        with pytest.raises(openai.APIStatusError) as caught:
            chat(served, model=model, messages=long)
        assert (caught.value.status_code, caught.value.code) == (413, "request_too_large")


def test_too_many_requests_get_a_429() -> None:
    slow = Manner(tokens=400, delay=0.02)
    limits = ServerLimits(requests=1)
    with an_upstream(slow) as up, before(up, limits=limits) as (url, state):
        stream = chat(url, stream=True)
        next(iter(stream))
        with pytest.raises(openai.RateLimitError) as caught:
            chat(url)
        assert caught.value.response.headers["retry-after"] == "1"
        stream.close()
        until(lambda: up.running == 0)
        until(lambda: state.requests == 0)
        quick = client(url, retries=2).chat.completions.create(
            model="tiny@sc", messages=ASK, extra_body={"sureenough": {"paths": 1, "max_tokens": 2}}
        )
        assert extra(quick)["reason"] == "max_tokens"


@pytest.mark.parametrize("model", ["tiny@ddc", "tiny"])
def test_a_client_that_leaves_a_stream_cancels_every_path(model: str) -> None:
    with an_upstream(LONG) as up, before(up) as (url, state):
        stream = chat(url, model=model, stream=True)
        next(iter(stream))
        until(lambda: up.running == (16 if model == "tiny@ddc" else 1))
        stream.close()
        until(lambda: up.running == 0)  # no path still runs upstream
        until(lambda: state.metrics.registry.get_sample_value("sureenough_clients_left_total") == 1)


def test_a_client_that_leaves_before_its_reply_cancels_every_path() -> None:
    with an_upstream(LONG) as up, before(up) as (url, _):
        impatient = client(url).with_options(timeout=1)
        with pytest.raises(openai.APITimeoutError):
            impatient.chat.completions.create(model="tiny@ddc", messages=ASK)
        assert up.made
        until(lambda: up.running == 0)  # no path still runs upstream
