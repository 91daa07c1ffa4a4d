"""Thinking stays out of the content of a reply, by the same function that the extractor uses."""

from __future__ import annotations

import pytest

from sureenough.drivers.transcripts import Transcript
from sureenough.server.replies import split_reasoning


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
