"""Reasoning in a field of its own: where its tags are put, in whole paths and in the rest of one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from sureenough.api import aask
from sureenough.core.outcome import Outcome
from sureenough.engines.openai.client import OpenAI
from sureenough.engines.openai.parser import ReplyParser
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
    entries = [{"token": token, "logprob": -1.0, "top_logprobs": [{"logprob": -1.0}]} for token in tokens]
    return {"delta": delta, "logprobs": {"content": entries}}


def text_of(beginning: str, *choices: dict[str, Any], signals: bool = True, stops: tuple[str, ...] = ()) -> str:
    """The text of a reply, which is also that of its tokens if they have signals."""
    parser = ReplyParser(1, signals, beginning=beginning, closes_reasoning=not stops, stops=stops)
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
        (OPEN, [hidden("</think>"), content("\n\nSo")], "</think>\n\nSo"),
        (OPEN, [content("\n\nSo", "</think>", "\n\n", "So")], "</think>\n\nSo"),
        (OPEN, [content(" see.\n"), hidden("</think>"), content("\n\nSo")], " see.\n</think>\n\nSo"),
        (
            OPEN,
            [event({"reasoning": " see.\n", "content": "\nSo"}, (" see.", "\n", "</think>", "\n", "So"))],
            " see.\n</think>\nSo",
        ),
        # They are not: a line feed is put before the closing one, and a blank line after it.
        ("", [reasoning("a"), content("b")], "<think>\na\n</think>\n\nb"),
        (OPEN, [reasoning(" see."), content("So")], " see.\n</think>\n\nSo"),
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


def test_a_line_may_end_within_the_reasoning() -> None:
    assert text_of(OPEN, reasoning(" see."), stops=("\n",)) == " see."


def test_without_log_probabilities_the_fields_tell() -> None:
    choices = [{"delta": {"reasoning_content": "a"}}, {"delta": {"content": "b"}}]
    assert text_of("", *choices, signals=False) == "<think>\na\n</think>\n\nb"
    assert text_of(OPEN, *choices, signals=False) == "a\n</think>\n\nb"


@pytest.mark.parametrize("strategy", ["predictive+sc:runs=2,rollouts=2", "mur+sc:runs=2"])
def test_a_search_through_the_end_of_the_reasoning_has_an_answer(strategy: str) -> None:
    async def use() -> Outcome:
        async with serving(Manner(tokens=30, answer="7", reasoning=True, tags=True)) as server:
            return await aask("?", OpenAI(server.url, "tiny"), strategy, seed=3)

    out = asyncio.run(asyncio.wait_for(use(), timeout=30))
    assert (out.answer, dict(out.votes), out.abstained) == ("7", {"7": 2.0}, 0)
