"""Reading one reply, without a network: its events, two numbers per token, the texts of tokens, and reasoning apart.

Names such as 14.18 are those of the tracker's list of defects.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import exp, inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.api import aask
from sureenough.core.outcome import Outcome
from sureenough.engines.base import Piece
from sureenough.engines.openai.client import OpenAI
from sureenough.engines.openai.logprobs import RepeatCounter, floored, token_signals
from sureenough.engines.openai.reply import SHORT_TEXT, TOKEN_BYTES, ReasoningFields, ReplyParser
from sureenough.engines.openai.wire import FINISH_REASONS, InvalidReply, decode
from sureenough.errors import EngineError, MissingLogprobs
from tests.engines.misbehaving import Manner, serving
from tests.engines.raw_server import stream_body, text_event, token_event


def parsed(*events: str, **options: Any) -> tuple[ReplyParser, str, int]:
    """A parser after these events, the text, and the tokens that were passed on."""
    parser = ReplyParser(20, **{"signals": True} | options)
    text, tokens = "", 0
    for event in events:
        chunk = parser.feed(stream_body(event))
        if chunk is not None:
            text += chunk.text
            tokens += len(chunk.tokens) + chunk.unread
        if parser.error is not None:
            raise parser.error
    return parser, text, tokens


def test_14_16_what_follows_done_is_ignored() -> None:
    parser, text, _ = parsed(token_event("42", finish="stop"), "[DONE]", token_event(" no, 666"), "<html>")
    assert (parser.done, text, parser.tokens) == (True, "42", 1)


@pytest.mark.parametrize("make", [token_event, text_event])
@pytest.mark.parametrize("text", ["x", "日", "😀"])
def test_the_text_of_a_path_has_a_limit_in_bytes(make: Callable[[str], str], text: str) -> None:
    size, most = len(text.encode()), SHORT_TEXT + 100 * TOKEN_BYTES
    signals = make is token_event
    fits = make(text * (most // size // 2))
    _, kept, _ = parsed(fits, fits, limit=100, signals=signals)
    assert len(kept.encode()) > most - 2 * size
    with pytest.raises(EngineError, match=f"more than {most:,} bytes of text for 100 tokens at most"):
        parsed(fits, fits, make(text * 2), limit=100, signals=signals)


@pytest.mark.parametrize("reason", ["abort", "content_filter", "error", "repetition", "anything else", "STOP"])
def test_14_18_other_finish_reasons_fail_the_path(reason: str) -> None:
    with pytest.raises(InvalidReply, match="finish_reason") as raised:
        parsed(token_event("a"), token_event("b", finish=reason))
    assert raised.value.quoted == reason
    parser = ReplyParser(20, signals=True)
    chunk = parser.feed(stream_body(token_event("a"), token_event("b", finish=reason)))
    assert chunk is not None
    assert len(chunk.tokens) == 2, "its tokens are counted"


@pytest.mark.parametrize(("reason", "finish"), FINISH_REASONS.items())
def test_14_18_finish_reasons_by_the_table(reason: str, finish: str) -> None:
    assert parsed(token_event("a", finish=reason))[0].last().finish == finish


@pytest.mark.parametrize(
    ("reason", "stop_text"),
    [
        ({}, None),
        ({"stop_reason": "\n"}, "\n"),
        ({"stop_reason": None}, None),  # vLLM, if the model ended it; other servers may always send it
        ({"stop_reason": ""}, None),
        ({"stop_reason": "eos"}, None),  # not what was asked for
        ({"stop_reason": True}, None),
        ({"stop_reason": 151643}, ""),
        ({"matched_stop": "\n"}, "\n"),
        ({"matched_stop": 151645}, ""),
        ({"stop_reason": ["hostile"]}, None),
    ],
)
def test_which_stop_text_ended_it_is_what_the_server_says(reason: dict[str, Any], stop_text: str | None) -> None:
    event = json.loads(token_event("a", finish="stop"))
    event["choices"][0] |= reason
    assert parsed(json.dumps(event), stops=("\n",))[0].last().stop_text == stop_text


def ending_with(*tokens: dict[str, Any], top: Sequence[tuple[int | None, str]] = (), **end: Any) -> list[str]:
    """Events of a reply: one with tokens, whose text ends at their line feed, and the last with these candidates."""
    text = "".join(str(token["token"]) for token in tokens).partition("\n")[0]
    event = json.loads(token_event(text))
    logprobs = event["choices"][0]["logprobs"]
    (entry,) = logprobs["content"]
    logprobs["content"] = [{**entry, **token} for token in tokens]
    for candidate, (number, other) in zip(entry["top_logprobs"], top, strict=False):
        candidate |= {"id": number, "token": other}
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", **end}]}
    return [token_event("x"), json.dumps(event), json.dumps(last)]


def stop_text_of(*events: str) -> str | None:
    return parsed(*events, stops=("\n",))[0].last().stop_text


@pytest.mark.parametrize(
    ("token", "top", "stop_text"),
    [
        ({"id": 7, "token": "]"}, [(7, "]\n\n")], "\n\n"),
        ({"id": 7, "token": ""}, [(8, "]"), (7, "\n")], "\n"),
        ({"id": 7, "token": "]"}, [(7, "]"), (8, "]\n")], None),  # the model ended it, or a line feed alone
        ({"token": "]"}, [(None, "]\n")], None),
        ({"id": 7, "token": "]"}, [(7, "}\n")], None),
        ({"id": "hostile", "token": "]"}, [(7, "]\n")], None),
    ],
)
def test_a_stop_text_within_the_last_token_is_seen_among_its_candidates(
    token: dict[str, Any], top: list[tuple[int | None, str]], stop_text: str | None
) -> None:
    """As llama.cpp sends it, which does not say what ended a reply."""
    events = ending_with(token, top=top)
    assert stop_text_of(*events) == stop_text
    assert stop_text_of(*ending_with(token, top=top, logprobs={"content": []})) == stop_text
    assert stop_text_of(*ending_with(token, top=top, stop_reason=7)) == ""
    assert parsed(*events)[0].last().stop_text is None, "whole paths are not continued"


@pytest.mark.parametrize(
    ("tokens", "stop_text"),
    [
        (["]\n\n"], "\n\n"),
        (["\n"], "\n"),
        (["]\nx\n"], "\nx\n"),
        (["]"], "\n"),  # a server that cuts the token
        (["]\n", "So", ".\n\n"], "\n"),  # tokens that were sampled together, as in speculative decoding
        (["a", "]\n\n", "So"], "\n\n"),
    ],
)
def test_a_stop_text_is_followed_by_the_rest_of_its_token(tokens: list[str], stop_text: str) -> None:
    """As vLLM sends it: what ended a reply, and the tokens as they were sampled."""
    events = ending_with(*({"token": token} for token in tokens), stop_reason="\n")
    assert stop_text_of(*events) == stop_text


@pytest.mark.parametrize(
    ("change", "stop_text"),
    [
        (("-0.5", "-Infinity"), "\n\n"),
        (('"t"', '"\\ud83d"'), "\n\n"),
        (('"token": "t"', '"token": ' + "[" * 50 + "]" * 50), "\n\n"),
        (('"choices": [', '"choices": [{"index": 1, "delta": {"content": "z"}}, '), "\n\n"),
    ],
)
def test_a_strange_last_event_does_not_hide_the_rest_of_the_token(change: tuple[str, str], stop_text: str) -> None:
    first, event, last = ending_with({"token": "]\n\n"}, stop_reason="\n")
    assert change[0] in event
    assert stop_text_of(first, event.replace(*change, 1), last) == stop_text


def test_14_15_text_without_log_probabilities_counts_against_the_limit() -> None:
    parser, text, tokens = parsed(token_event("a"), *[text_event("x")] * 200, limit=100)
    end = parser.last()
    assert (parser.full, end.finish, tokens + end.unread) == (True, "length", 100)
    assert text == "a" + "x" * 99
    assert end.estimated


def test_14_15_a_token_that_comes_after_its_text_counts_once() -> None:
    empty = json.loads(token_event("x"))
    empty["choices"][0]["delta"]["content"] = ""
    pairs = [event for _ in range(60) for event in (text_event("x"), json.dumps(empty))]
    parser, text, tokens = parsed(*pairs, text_event("!", finish="stop"), limit=100)
    assert (parser.full, tokens, text) == (False, 60, "x" * 60 + "!")
    assert parser.last().unread == 1, "the piece that is left counts, if the server does not"


def columns(different: int, equal: int) -> list[list[float]]:
    draw = random.Random(3)
    lists = [[-draw.expovariate(0.2) for _ in range(20)] for _ in range(different)]
    return lists + [lists[-1]] * equal


@pytest.mark.parametrize(
    ("lists", "repeated"),
    [
        (columns(2, 5), False),  # too few tokens
        (columns(30, 10), False),  # a quarter
        (columns(30, 11), True),
        ([[0.0] + [-9999.0] * 19] * 50, False),  # tokens that are certain look alike
    ],
)
def test_14_19_one_rule_for_repeated_candidates(lists: list[list[float]], repeated: bool) -> None:
    counter = RepeatCounter()
    counter.add(lists)
    assert counter.repeated is repeated


def test_14_6_surrogate_halves_are_joined_and_lone_ones_replaced() -> None:
    """They are written as escapes in JSON."""
    smile = "\U0001f600"
    halves = smile.encode("utf-16-be")
    first, second = (halves[at : at + 2].decode("utf-16-be", "surrogatepass") for at in (0, 2))
    assert parsed(token_event("a" + first), token_event(second + "b"))[1] == f"a{smile}b"
    assert parsed(token_event(first), token_event("b"))[1] == "\ufffdb"
    assert parsed(token_event(second))[1] == "\ufffd"
    parser, text, _ = parsed(token_event("a" + first))
    assert text + parser.last().text == "a\ufffd"
    chunk = parser.feed(stream_body(token_event(second + first)))
    assert chunk is not None
    chunk.text.encode()


@pytest.mark.parametrize("usage", [{"prompt_tokens": -4, "completion_tokens": -9}, {"completion_tokens": 2**63}])
def test_14_9_usage_that_cannot_be_is_ignored(usage: dict[str, int]) -> None:
    parser, _, _ = parsed(token_event("a", finish="stop"), json.dumps({"choices": [], "usage": usage}))
    last = parser.last()
    assert (last.prompt_tokens, last.unread, parser.completion_tokens) == (None, 0, None)


@pytest.mark.parametrize(
    "data", [b"[" * 200_000, b'{"x":' * 200_000, b'{"choices": ' + b"[" * 200_000, b"\xff\xfe", b""]
)
def test_14_17_events_that_cannot_be_decoded(data: bytes) -> None:
    with pytest.raises(EngineError, match="not part of a reply"):
        decode(data)


ANY = st.one_of(st.floats(), st.sampled_from([-inf, nan, -9999.0, 0.0, -0.0, -100.0]))


@pytest.mark.parametrize(
    ("logprobs", "k", "peak", "conf"),
    [
        ([-1.0, -2.0], 2, exp(-1), 1.5),
        ([-2.0, -1.0], 2, exp(-1), 1.5),  # unsorted
        ([-7.0, -1.0, -2.0], 2, exp(-1), 1.5),  # the sampled token first, outside the top k
        ([-1.0, -2.0, -7.0], 2, exp(-1), 1.5),  # or last
        ([-1.0, -1.0, -1.0], 2, exp(-1), 1.0),
        ([0.0, -inf], 2, 1.0, 50.0),
        ([0.0, -9999.0], 2, 1.0, 50.0),
        ([0.0, nan], 2, 1.0, 50.0),
        ([nan, -1.0], 2, exp(-1), 50.5),
        ([nan, nan], 2, exp(-100), 100.0),
        ([1e-7, -2.0], 2, 1.0, 1.0),  # rounding above certainty
        ([-3.0], 1, exp(-3), 3.0),
        ([nan, -1.0, -2.0], 2, exp(-1), 1.5),
    ],
)
def test_the_rules(logprobs: list[float], k: int, peak: float, conf: float) -> None:
    assert token_signals(logprobs, k) == pytest.approx((peak, conf), rel=1e-12)


@given(st.lists(ANY, min_size=20, max_size=24))
def test_it_is_the_mean_of_the_k_largest_after_flooring(logprobs: list[float]) -> None:
    largest = sorted(map(floored, logprobs))[-20:]
    assert token_signals(logprobs, 20) == pytest.approx((exp(largest[-1]), -sum(largest) / 20), rel=1e-12, abs=1e-12)


def test_candidates_that_were_merged_count_as_the_smallest() -> None:
    """SGLang lists candidates by their text, and two bytes that are not text by themselves become one."""
    assert token_signals([-0.5, -3.0, -2.0], 4) == pytest.approx((exp(-0.5), (0.5 + 2.0 + 3.0 + 3.0) / 4))
    assert token_signals([-1.0] * 15, 20) == token_signals([-1.0] * 20, 20)


@pytest.mark.parametrize(
    ("got", "says"),
    [(0, "no log-probabilities"), (5, "only 5 candidates per token"), (14, "only 14 candidates per token")],
)
def test_too_few_candidates_name_the_fix(got: int, says: str) -> None:
    with pytest.raises(MissingLogprobs, match=says) as raised:
        token_signals([-1.0] * got, 20)
    assert "--max-logprobs 20" in str(raised.value)
    assert "sc, ac, esc" in str(raised.value)


OPEN, CLOSED = "<think>\nLet me", "<think>\nLet me see.\n</think>\n\nSo"


def reasoning(text: str, *tokens: str) -> dict[str, Any]:
    return event({"reasoning": text}, tokens or (text,))


def content(text: str, *tokens: str) -> dict[str, Any]:
    return event({"content": text}, tokens or (text,))


def hidden(tag: str) -> dict[str, Any]:
    """What vLLM sends of a tag: its token, and no text."""
    return event({}, (tag,))


def event(delta: dict[str, str], tokens: tuple[str, ...]) -> dict[str, Any]:
    entries = [{"token": token, "logprob": -1.0, "top_logprobs": [{"logprob": -1.0}] * 20} for token in tokens]
    return {"delta": delta, "logprobs": {"content": entries}}


def text_of(
    beginning: str,
    *choices: dict[str, Any],
    signals: bool = True,
    stops: tuple[str, ...] = (),
    fields: ReasoningFields | None = None,
) -> str:
    """The text of a reply, which is also that of its tokens if they have signals."""
    parser = ReplyParser(1, signals, beginning=beginning, stops=stops, fields=fields)
    last = {**choices[-1], "finish_reason": "stop"}
    events = [{"choices": [choice | {"index": 0}]} for choice in (*choices[:-1], last)]
    sent = "".join(f"data: {json.dumps(one)}\n\n" for one in events)
    chunk = parser.feed(sent.encode())
    assert chunk is not None
    assert isinstance(chunk, Piece) is signals
    return chunk.text + parser.last().text


@pytest.mark.parametrize(
    ("beginning", "choices", "text"),
    [
        # The tags are among the tokens: they are put where they were.
        (
            "",
            [hidden("<think>"), reasoning("\na\n"), hidden("</think>"), content("\n\nb")],
            "<think>\na\n</think>\n\nb",
        ),
        (OPEN, [reasoning(" see.\n"), hidden("</think>"), content("\n\nSo")], " see.\n</think>\n\nSo"),
        (
            OPEN,
            [event({"reasoning": " see.\n", "content": "\nSo"}, (" see.", "\n", "</think>", "\n", "So"))],
            " see.\n</think>\nSo",
        ),
        ("", [reasoning("\na", "<think>", "\n", "a"), content("b", "</think>", "b")], "<think>\na</think>b"),
        # They are not: a line feed is put before the closing one, and a blank line after it.
        ("", [reasoning("a"), content("b")], "<think>\na\n</think>\n\nb"),
        (OPEN, [reasoning(" see."), content("So")], " see.\n</think>\n\nSo"),
        ("", [reasoning("a\n"), content("\n\nb")], "<think>\na\n</think>\n\nb"),
        (OPEN, [reasoning(" see.\n"), content("\nSo")], " see.\n</think>\nSo"),
        # All of the reply is reasoning, and ends there.
        ("", [reasoning("a")], "<think>\na\n</think>\n\n"),
        (OPEN, [reasoning(" see.")], " see.\n</think>\n\n"),
        # The server does not tell reasoning from content, or sees reasoning after its end.
        (OPEN, [content(" see.\n"), content("</think>"), content("\n\nSo")], " see.\n</think>\n\nSo"),
        (OPEN, [content(" see."), content("</th"), content("ink>")], " see.</think>"),
        (CLOSED, [reasoning(" it is"), content(" 7")], " it is 7"),
        (CLOSED, [content(" it is"), content(" 7")], " it is 7"),
        ("So", [reasoning(" it is"), content(" 7")], " it is 7"),
    ],
)
def test_where_tags_are_put(beginning: str, choices: list[dict[str, Any]], text: str) -> None:
    assert text_of(beginning, *choices) == text


@pytest.mark.parametrize(
    ("beginning", "choices", "text"),
    [
        (OPEN, [hidden("</think>"), content("\n\nSo")], "</think>\n\nSo"),
        (OPEN, [content("\n\nSo", "</think>", "\n\n", "So")], "</think>\n\nSo"),
        (OPEN, [content(" see.\n"), hidden("</think>"), content("\n\nSo")], " see.\n</think>\n\nSo"),
        (CLOSED, [hidden("</think>"), content(" 7")], "</think> 7"),
    ],
)
def test_tags_among_tokens_are_put_back_if_the_server_is_known_to_take_them_out(
    beginning: str, choices: list[dict[str, Any]], text: str
) -> None:
    assert text_of(beginning, *choices, fields=ReasoningFields(sent=True)) == text
    assert "</think>" not in text_of(beginning, *choices)


@pytest.mark.parametrize("beginning", ["", OPEN, CLOSED])
@pytest.mark.parametrize("lag", range(1, 12))
def test_text_that_comes_later_than_its_tokens(beginning: str, lag: int) -> None:
    """A server that looks for stop texts holds text back."""
    tokens = ["<think>", "\n", "see", ".", "\n", "</think>", "\n\n", "So", " 7", "."]
    text, sent, choices = "".join(tokens), 0, []
    for number in range(1, len(tokens) + 1):
        known = max(sent, len("".join(tokens[:number])) - lag) if number < len(tokens) else len(text)
        choices.append(event({"content": text[sent:known]}, (tokens[number - 1],)))
        sent = known
    assert text_of(beginning, *choices) == text


def test_a_rest_without_reasoning_closes_it_if_the_server_sent_reasoning_in_others() -> None:
    """Some servers send nothing of the token of a tag."""
    fields = ReasoningFields()
    assert text_of(OPEN, content("\n\nSo"), fields=fields) == "\n\nSo"
    assert text_of("", reasoning("a"), content("b"), fields=fields) == "<think>\na\n</think>\n\nb"
    assert text_of(OPEN, content("\n\nSo"), fields=fields) == "\n\nSo", "it may call all of a rest content"
    assert text_of(OPEN, reasoning(" see."), stops=("\n",), fields=fields) == " see."
    assert text_of(OPEN, content("So"), content(" 7"), fields=fields) == "\n</think>\n\nSo 7"
    assert text_of(CLOSED, content("So"), fields=fields) == "So"


def test_without_log_probabilities_the_fields_tell() -> None:
    choices = [{"delta": {"reasoning_content": "a"}}, {"delta": {"content": "b"}}]
    assert text_of("", *choices, signals=False) == "<think>\na\n</think>\n\nb"
    assert text_of(OPEN, *choices, signals=False) == "a\n</think>\n\nb"


REPLY = ("Let", " me see.", "\n", "It is 7.", "\n", "</think>", "\n\n", r"So \boxed{7}", ".")


def replied(body: dict[str, Any], manner: Manner, *, tags: bool) -> Iterator[str]:
    """The rest of one and the same reply, whose thinking the prompt has opened; `tags`: with an event for its end."""
    message = body["messages"][-1]
    beginning = message["content"].removeprefix("<think>") if message["role"] == "assistant" else ""
    begun = "".join(beginning.split())
    at = next(n for n in range(len(REPLY) + 1) if "".join("".join(REPLY[:n]).split()) == begun)
    while beginning.endswith("\n") and at < len(REPLY) and not REPLY[at].strip():
        at += 1
    rest = list(enumerate(REPLY))[at:]
    stop = next((n for n, (_, token) in enumerate(rest) if "\n" in token), None) if body.get("stop") else None
    rest = rest[: body["max_tokens"] if stop is None else min(stop + 1, body["max_tokens"])]
    for number, token in rest:
        last, stopped = number == rest[-1][0], stop is not None and "\n" in token
        shown = "" if token == "</think>" or stopped else token
        if shown or last or tags:
            choice = event({"reasoning" if number < REPLY.index("</think>") else "content": shown}, (token,))
            ends = {"finish_reason": "stop", "stop_reason": "\n" if stopped else 258} if last else {}
            yield json.dumps({"choices": [choice | {"index": 0} | ends]})
    if not rest:
        yield json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": 258}]})
    yield json.dumps({"choices": [], "usage": {"prompt_tokens": 9 + at, "completion_tokens": len(rest)}})


@pytest.mark.parametrize("tags", [True, False])
@pytest.mark.parametrize("strategy", ["predictive+sc:runs=2,rollouts=2", "mur+sc:runs=2", "phi+sc:runs=2,beams=2"])
def test_a_search_through_the_end_of_the_reasoning_has_an_answer(
    strategy: str, tags: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.engines.misbehaving.events", partial(replied, tags=tags))

    async def use() -> Outcome:
        async with serving(Manner()) as server:
            return await aask("?", OpenAI(server.url, "tiny"), strategy, seed=3)

    out = asyncio.run(asyncio.wait_for(use(), timeout=30))
    assert (out.answer, dict(out.votes), out.abstained) == ("7", {"7": 2.0}, 0)
    assert out.tokens.total < 900, "it is not asked for the end of its reasoning again and again"
