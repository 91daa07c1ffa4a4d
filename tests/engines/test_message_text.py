"""Reasoning in a field of its own: where its tags are put, in whole paths and in the rest of one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from sureenough.api import aask
from sureenough.core.outcome import Outcome
from sureenough.engines.openai.client import OpenAI
from sureenough.engines.openai.reply import ReasoningFields, ReplyParser
from tests.engines.misbehaving import Manner, serving

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
    if signals:
        assert "".join(token.text for token in chunk) == chunk.text
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


def test_a_line_may_end_within_the_reasoning() -> None:
    assert text_of(OPEN, reasoning(" see."), stops=("\n",)) == " see."


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
