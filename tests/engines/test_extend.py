"""Continuing a beginning: what is sent, what is refused, and what the server reports about the prompt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from sureenough.engines import Engine, Prompt
from sureenough.engines.base import ExtendOptions, Piece, as_part
from sureenough.engines.load_balancer import LoadBalancer
from sureenough.engines.openai.client import OpenAI
from sureenough.engines.openai.reply import ReplyParser
from sureenough.errors import CannotExtend, EngineRejected, UsageError
from tests.engines.misbehaving import Manner, Server, serving

GREEDY = ExtendOptions(max_tokens=3, stop=("}",), temperature=0.0)
LINE = ExtendOptions(max_tokens=60, stop=("\n",))


def extended(
    manner: Manner | Callable[[int, int], Manner],
    beginning: str = "so ",
    limits: ExtendOptions = GREEDY,
    **options: Any,
) -> tuple[Server, str]:
    """What a server with these manners received, and how it continued."""

    async def use() -> tuple[Server, str]:
        async with serving(manner) as server:
            engine: Engine = LoadBalancer([OpenAI(server.url, "tiny", max_path_tokens=9, **options)])
            async with aclosing(engine.extend(Prompt.user("?"), beginning, limits, seed=5)) as chunks:
                texts = [as_part(chunk).text async for chunk in chunks]
            return server, "".join(texts)

    return asyncio.run(asyncio.wait_for(use(), timeout=30))


CONTINUES = {"continue_final_message": True, "add_generation_prompt": False}
ASKED = {"role": "user", "content": "?"}


@pytest.mark.parametrize(
    ("beginning", "chat", "sent"),
    [
        ("so ", True, {"messages": [ASKED, {"role": "assistant", "content": "so "}], **CONTINUES}),
        ("", True, {"messages": [ASKED]}),
        ("so ", False, {"prompt": "?so "}),
    ],
)
def test_where_a_beginning_is_sent(beginning: str, chat: bool, sent: dict[str, Any]) -> None:
    body = extended(Manner(), beginning, chat=chat)[0].requests[0]
    limits = {"max_tokens": 3, "stop": ["}"], "temperature": 0.0}
    expected = dict.fromkeys(("messages", "prompt", *CONTINUES)) | limits | sent
    assert {name: body.get(name) for name in expected} == expected


@pytest.mark.parametrize(("confidence", "candidates"), [(True, 20), (False, 1)])
def test_candidates_are_requested_only_if_confidence_is_read(confidence: bool, candidates: int) -> None:
    limits = replace(GREEDY, stop=(), confidence=confidence)
    server, text = extended(Manner(), limits=limits)
    assert (server.requests[0]["logprobs"], server.requests[0]["top_logprobs"]) == (True, candidates)
    assert extended(Manner(), limits=limits, chat=False)[0].requests[0]["logprobs"] == candidates
    assert text == extended(Manner(), limits=replace(GREEDY, stop=()))[1]


def test_lines_have_candidates_until_a_server_says_what_ended_them() -> None:
    """Else only the candidates of the last token may show it."""

    async def use(manner: Manner) -> list[int]:
        limits = replace(LINE, confidence=False)
        async with serving(manner) as server, OpenAI(server.url, "tiny").open(parallel=1) as engine:
            for _ in range(2):
                async with aclosing(engine.extend(Prompt.user("?"), "so ", limits, seed=5)) as chunks:
                    assert [chunk async for chunk in chunks]
            return [body["top_logprobs"] for body in server.requests]

    def requested(manner: Manner) -> list[int]:
        return asyncio.run(asyncio.wait_for(use(manner), timeout=30))

    assert requested(Manner()) == [5, 5]
    assert requested(Manner(stop_reason="\n")) == [5, 1]
    assert requested(Manner(stop_reason=7)) == [5, 1]


def test_a_server_without_the_ability_is_named_as_such() -> None:
    with pytest.raises(CannotExtend, match=r"does not continue a beginning.*Extra inputs are not permitted") as caught:
        extended(Manner(extends="no"))
    assert caught.value.status == 400
    with pytest.raises(EngineRejected) as plain:
        extended(Manner(status=400), "")
    assert not isinstance(plain.value, CannotExtend)


LONG = ExtendOptions(max_tokens=3000)
REFUSALS = (
    "This model's maximum context length is 2048 tokens. However, you requested 3057 tokens",
    "'max_tokens' or 'max_completion_tokens' is too large: 3000",
    "max_tokens=3000 cannot be greater than max_model_len=2048",
    "the request exceeds the available context size",
)


@pytest.mark.parametrize("chat", [True, False])
def test_a_continuation_longer_than_the_context_gets_the_room_that_there_is(chat: bool) -> None:
    server, text = extended(Manner(context=13), "so ", LONG, chat=chat)
    first, second = server.requests
    assert first["max_tokens"] == 3000
    assert ("max_tokens" in second, second.get("max_tokens")) == (not chat, None)
    assert first | {"max_tokens": None} == second | {"max_tokens": None}
    assert text == extended(Manner(), "so ", replace(LONG, max_tokens=3), chat=chat)[1]
    assert extended(Manner(context=10), "so ", LONG, chat=chat)[1] == "", "there is none: it ends as one that was cut"


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_question_longer_than_the_context_is_refused_with_what_to_do(refusal: str) -> None:
    with pytest.raises(EngineRejected, match=r"; (shorten the question, )?lower max_path_tokens, or ") as caught:
        extended(Manner(status=400, body=json.dumps({"error": {"message": refusal}})), "", LONG)
    assert not isinstance(caught.value, CannotExtend)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "refusal",
    [
        "continue_final_message is not known",
        {"error": {"message": "Unknown parameter continue_final_message; known: model, messages, max_tokens"}},
        {"detail": [{"loc": ["body", "continue_final_message"], "input": {"max_tokens": 3000}}]},
    ],
)
def test_a_refusal_of_beginnings_is_not_taken_for_one_of_length_nor_sent_again(refusal: Any) -> None:
    requests: list[int] = []

    def manner(seed: int, number: int) -> Manner:
        requests.append(number)
        return Manner(status=422, body=json.dumps(refusal))

    with pytest.raises(CannotExtend, match="does not continue a beginning") as caught:
        extended(manner, "so ", LONG)
    assert "lower max_path_tokens" not in str(caught.value)
    assert requests == [0]


@pytest.mark.parametrize("status", [301, 307, 401, 403, 404])
def test_a_wrong_key_model_or_address_is_not_blamed_on_the_continuation(status: int) -> None:
    with pytest.raises(EngineRejected, match=f"answered {status}") as caught:
        extended(Manner(status=status), "so ", LONG)
    assert not isinstance(caught.value, CannotExtend)


@pytest.mark.parametrize(("options", "message"), [({"max_tokens": 0}, "at least 1"), ({"stop": ("",)}, "empty text")])
def test_options_that_cannot_be_used(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ExtendOptions(**({"max_tokens": 3} | options))


@pytest.mark.parametrize(
    ("prompt", "cached", "read"),
    [(9, 7, 7), (9, 9, 9), (9, 8_000_160, 9), (9, -1, None), (9, None, None), (None, 7, None)],
)
def test_cached_tokens_are_those_of_the_prompt_that_the_server_reports(
    prompt: int | None, cached: int | None, read: int | None
) -> None:
    usage = {"prompt_tokens": prompt, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": cached}}
    parser = ReplyParser(20, signals=False)
    parser.receive(json.dumps({"choices": [], "usage": usage}).encode())
    last = parser.last()
    assert (last.prompt_tokens, last.cached_tokens) == (prompt, read)


@pytest.mark.parametrize(("limits", "ends"), [(ExtendOptions(max_tokens=60), True), (LINE, False)])
def test_a_stop_text_does_not_end_the_reasoning(limits: ExtendOptions, ends: bool) -> None:
    _, text = extended(Manner(reasoning=True, tokens=40), "", limits)
    assert text.startswith("<think>\n")
    assert ("</think>" in text) is ends


@pytest.mark.parametrize("own", ["END", ["END"], ["}", "END"]])
def test_the_stop_texts_of_the_engine_apply_to_continuations(own: str | list[str]) -> None:
    plain = extended(Manner(), limits=ExtendOptions(max_tokens=3), extra={"stop": own})
    assert plain[0].requests[0]["stop"] == own


@pytest.mark.parametrize("none", [{}, {"stop": []}, {"stop": None}])
def test_a_line_that_goes_on_may_end_at_its_own_stop_text_only(none: dict[str, Any]) -> None:
    """Else it would not be known whether the path ends with it."""
    assert extended(Manner(), limits=LINE, extra=none)[0].requests[0]["stop"] == ["\n"]
    with pytest.raises(UsageError, match=r"stop=\['END'\] cannot be combined with a search that samples line by line"):
        extended(Manner(), limits=LINE, extra={"stop": ["END"]})


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize(("known", "expected"), [(-0.5, [-0.5, 0.0, -100.0]), (None, [0.0, -100.0])])
def test_the_log_probabilities_of_sampled_tokens(chat: bool, known: float | None, expected: list[float]) -> None:
    values, top = [known, 0.25, -1e9], [-0.5, -1.0]
    if chat:
        entries = [
            {"token": "a", "logprob": value, "top_logprobs": [{"logprob": one} for one in top]} for value in values
        ]
        choice: dict[str, Any] = {"delta": {"content": "aaa"}, "logprobs": {"content": entries}}
    else:
        maps = [dict(zip("ab", top, strict=True))] * 3
        choice = {"text": "aaa", "logprobs": {"tokens": ["a"] * 3, "token_logprobs": values, "top_logprobs": maps}}
    event = b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"
    chunk = ReplyParser(2, signals=True, stops=()).feed(event)
    assert isinstance(chunk, Piece)
    assert chunk.logprobs == expected
    limited = ReplyParser(2, signals=True, limit=2, stops=()).feed(event)
    assert isinstance(limited, Piece)
    assert (limited.text, limited.logprobs) == ("aa", expected[:-1])
    plain = ReplyParser(2, signals=True).feed(event)
    assert isinstance(plain, Piece)
    assert len(plain.logprobs) == 0


def test_single_candidates_may_be_alike() -> None:
    """Tokens of which a model is sure all have the same log-probability, a rounding error below 0."""
    entry = {"token": "a", "logprob": -1e-7, "top_logprobs": [{"logprob": -1e-7}]}
    choice = {"delta": {"content": "a" * 12}, "logprobs": {"content": [entry] * 12}}
    parser = ReplyParser(1, signals=True, stops=())
    chunk = parser.feed(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
    parser.raise_error()
    assert isinstance(chunk, Piece)
    assert len(chunk.tokens) == len(chunk.logprobs) == 12
