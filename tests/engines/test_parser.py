"""Rules of one reply, without a network. Names such as 14.18 are those of the tracker's list of defects."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.engines.openai import sse
from sureenough.engines.openai.errors import StreamError
from sureenough.engines.openai.logprobs import RepeatCounter
from sureenough.engines.openai.reply import ReplyParser
from sureenough.engines.openai.sse import SSEParser
from sureenough.engines.openai.wire import FINISH_REASONS, InvalidReply, decode
from sureenough.errors import EngineError, MissingLogprobs
from tests.engines.raw_server import stream_body, text_event, token_event


def parsed(*events: str, **options: Any) -> tuple[ReplyParser, str, int]:
    """A parser after these events, the text, and the tokens that were passed on."""
    parser = ReplyParser(20, **{"signals": True} | options)
    text, tokens = "", 0
    for event in events:
        chunk = parser.feed(stream_body(event))
        if chunk is not None:
            text += chunk.text
            tokens += len(chunk) + chunk.unread
        if parser.error is not None:
            raise parser.error
    return parser, text, tokens


def test_14_16_what_follows_done_is_ignored() -> None:
    parser, text, _ = parsed(token_event("42", finish="stop"), "[DONE]", token_event(" no, 666"), "<html>")
    assert (parser.done, text, parser.tokens) == (True, "42", 1)


@pytest.mark.parametrize("reason", ["abort", "content_filter", "error", "repetition", "anything else", "STOP"])
def test_14_18_other_finish_reasons_fail_the_path(reason: str) -> None:
    with pytest.raises(InvalidReply, match="finish_reason") as raised:
        parsed(token_event("a"), token_event("b", finish=reason))
    assert raised.value.quoted == reason
    parser = ReplyParser(20, signals=True)
    chunk = parser.feed(stream_body(token_event("a"), token_event("b", finish=reason)))
    assert chunk is not None
    assert len(chunk) == 2, "its tokens are counted"


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
        (("-0.5", "-Infinity"), "\n"),
        (('"t"', '"\\ud83d"'), "\n"),
        (('"token": "t"', '"token": ' + "[" * 50 + "]" * 50), "\n"),
        (('"choices": [', '"choices": [{"index": 1, "delta": {"content": "z"}}, '), "\n\n"),
    ],
)
def test_a_strange_last_event_hides_at_most_the_rest_of_the_token(change: tuple[str, str], stop_text: str) -> None:
    first, event, last = ending_with({"token": "]\n\n"}, stop_reason="\n")
    assert change[0] in event
    assert stop_text_of(first, event.replace(*change, 1), last) == stop_text


def test_14_15_text_without_log_probabilities_counts_against_the_limit() -> None:
    parser, text, tokens = parsed(token_event("a"), *[text_event("x")] * 200, limit=100)
    assert (parser.full, parser.finish, parser.tokens, tokens) == (True, "length", 100, 100)
    assert text == "a" + "x" * 99
    assert parser.last().estimated


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


def chunk_event(text: str, values: list[float] | None) -> str:
    """An event in which every character is a token, all with the same candidates."""
    event = json.loads(token_event(text, values=values))
    logprobs = event["choices"][0]["logprobs"]
    logprobs["content"] = [logprobs["content"][0] | {"token": char} for char in text]
    return json.dumps(event)


def test_14_19_two_equal_lists_do_not_end_a_run() -> None:
    certain = [0.0] + [-9999.0] * 19
    for values in (certain, None):
        parser, _, tokens = parsed(chunk_event("ab", values))
        assert (parser.error, tokens) == (None, 2)
    assert parsed(chunk_event("x" * 50, certain))[2] == 50
    with pytest.raises(MissingLogprobs, match="repeats one token's candidates"):
        parsed(chunk_event("x" * 50, None))


def escaped(text: str) -> str:
    return token_event(text)  # json.dumps writes surrogates as escapes


def test_14_6_surrogate_halves_are_joined_and_lone_ones_replaced() -> None:
    smile = "\U0001f600"
    halves = smile.encode("utf-16-be")
    first, second = (halves[at : at + 2].decode("utf-16-be", "surrogatepass") for at in (0, 2))
    assert parsed(escaped("a" + first), escaped(second + "b"))[1] == f"a{smile}b"
    assert parsed(escaped(first), escaped("b"))[1] == "\ufffdb"
    assert parsed(escaped(second))[1] == "\ufffd"
    parser, text, _ = parsed(escaped("a" + first))
    assert text + parser.last().text == "a\ufffd"
    for token in [*(parser.feed(stream_body(escaped(second + first))) or [])]:
        token.text.encode()


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


@given(st.binary(max_size=300), st.integers(1, 7))
def test_any_bytes_end_in_chunks_or_an_engine_error(raw: bytes, size: int) -> None:
    parser = ReplyParser(20, signals=True)
    for at in range(0, len(raw), size):
        parser.feed(raw[at : at + size])
        if parser.error is not None:
            assert isinstance(parser.error, EngineError | StreamError)
            return


@pytest.mark.parametrize("piece", [b"x" * 1000, b"data: " + b"x" * 993 + b"\n", b"data: x\r\n" * 100])
def test_14_5_an_event_has_a_limit(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LARGEST_EVENT", 10_000)
    events = SSEParser()
    with pytest.raises(EngineError, match="more than 10,000 bytes, which is the limit"):
        for _ in range(1000):
            events.feed(piece)
