"""Thinking stays out of the content of a reply, by the same function that the extractor uses."""

from __future__ import annotations

import pytest

from sureenough.drivers.observers import Transcript
from sureenough.server.replies import split_reasoning
from tests.server.openai_client import extra
from tests.server.test_structured import ask, serving


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
    assert split_reasoning(Transcript(0, text)) == (reasoning, content)


def test_thinking_that_the_chat_template_opened_is_not_in_the_content_of_a_reply() -> None:
    """The vote reads what the client receives as content: the box inside the thinking plays no part."""
    with serving(["Perhaps \\boxed{4}?\n</think>\n\nIt is \\boxed{5}."]) as (client, _):
        reply = ask(client)
    message = reply.choices[0].message
    assert message.content == "It is \\boxed{5}."
    assert message.model_extra["reasoning_content"] == "Perhaps \\boxed{4}?"
    assert extra(reply)["votes"] == {"5": 5.0}
