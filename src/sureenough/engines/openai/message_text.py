"""The text of one reply from the fields of its messages: content, reasoning and tool calls, in one string."""

from __future__ import annotations

from typing import Final

from sureenough.engines.openai.wire import TOOL_CALL, Choice, Delta, Logprobs, ToolCallDelta
from sureenough.engines.requests import THINK_END_TAG, THINK_TAG, is_thinking
from sureenough.errors import EngineError
from sureenough.json_text import mend

END_OF_REASONING: Final = f"\n{THINK_END_TAG}\n\n"


class MessageText:
    """Turns each event's part of a message, or of the rest of one that begins so, into text."""

    def __init__(self, beginning: str, closes_reasoning: bool) -> None:
        self._begins = not beginning
        self._goes_on_thinking = is_thinking(beginning, opened=False)
        self._closes_reasoning = closes_reasoning  # if a complete reply ends within it
        self._half = ""  # first half of a surrogate pair
        self._thinking = False  # the latest text was reasoning in a field of its own
        self._call = -1  # the tool call that grows

    def add(self, choice: Choice) -> str:
        """The text that an event adds."""
        delta = choice.delta
        if delta is None:
            text = choice.text or ""
        elif delta.content and not (
            self._thinking or self._goes_on_thinking or delta.reasoning_content or delta.reasoning
        ):
            text = delta.content
        else:
            text = self._with_reasoning(delta, choice.logprobs)
        if delta is not None and delta.tool_calls:
            text += self._with_calls(delta.tool_calls)
        return self._joined(text) if self._half or not text.isascii() else text

    def end(self, *, complete: bool) -> str:
        """What completes the text when the reply ends."""
        closing = END_OF_REASONING if self._thinking and complete and self._closes_reasoning else ""
        return f"\ufffd{closing}" if self._half else closing

    def _with_reasoning(self, delta: Delta, logprobs: Logprobs | None) -> str:
        """Reasoning in a field of its own is put between think tags, where answers are not looked for.

        A server takes the tags out of the text. If they are among its tokens, they are put back where they were.
        """
        reasoning, content = delta.reasoning_content or delta.reasoning or "", delta.content or ""
        tokens = [] if logprobs is None else [entry.token for entry in logprobs.content or ()]
        opens, closes = (tag in tokens and tag not in reasoning + content for tag in (THINK_TAG, THINK_END_TAG))
        opening = ""
        if opens:
            opening, self._thinking = THINK_TAG, True
        elif reasoning and not self._thinking and (self._begins or self._goes_on_thinking):
            opening, self._thinking = f"{THINK_TAG}\n" if self._begins else "", True
        if closes or (content and self._thinking):
            self._thinking = self._goes_on_thinking = False
            return opening + reasoning + (THINK_END_TAG if closes else END_OF_REASONING) + content
        return opening + reasoning + content

    def _with_calls(self, calls: list[ToolCallDelta]) -> str:
        """Tool calls as text: a mark, the name, a line feed and the arguments, one call after the other."""
        text = END_OF_REASONING if self._thinking else ""
        self._thinking = False
        for call in calls:
            index = 0 if call.index is None else call.index
            if index < self._call:
                raise EngineError("the server sent parts of several tool calls in turn, which cannot be read")
            if call.function is None:
                continue
            if index > self._call:
                self._call = index
                text += f"{TOOL_CALL}{' '.join((call.function.name or '').split())}\n"
            text += call.function.arguments or ""
        return text

    def _joined(self, text: str) -> str:
        """Join surrogate halves that came in two events; a half that stays alone becomes U+FFFD."""
        text, self._half = self._half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._half, text = text[-1], text[:-1]
        return mend(text)
