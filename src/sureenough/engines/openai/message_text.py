"""The text of one reply from the fields of its messages: content, reasoning and tool calls, in one string."""

from __future__ import annotations

from typing import Final

from sureenough.engines.openai.wire import TOOL_CALL, Choice, Delta, ToolCallDelta
from sureenough.errors import EngineError
from sureenough.json_text import mend

END_OF_REASONING: Final = "\n</think>\n\n"


class MessageText:
    """Turns each event's part of a message into text."""

    def __init__(self, tags: bool, closes_reasoning: bool) -> None:
        self._tags = tags  # whether reasoning is put between think tags; it is not in the rest of a path
        self._closes_reasoning = closes_reasoning  # if a complete reply ends within it
        self._half = ""  # first half of a surrogate pair
        self._thinking = False
        self._call = -1  # the tool call that grows

    def add(self, choice: Choice) -> str:
        """The text that an event adds."""
        delta = choice.delta
        if delta is None:
            text = choice.text or ""
        elif self._thinking or delta.reasoning_content or delta.reasoning:
            text = self._with_reasoning(delta)
        else:
            text = delta.content or ""
        if delta is not None and delta.tool_calls:
            text += self._with_calls(delta.tool_calls)
        return self._joined(text) if self._half or not text.isascii() else text

    def end(self, *, complete: bool) -> str:
        """What completes the text when the reply ends."""
        closing = END_OF_REASONING if self._thinking and complete and self._closes_reasoning else ""
        return f"\ufffd{closing}" if self._half else closing

    def _with_reasoning(self, delta: Delta) -> str:
        """Reasoning in a field of its own is put between think tags, where answers are not looked for."""
        reasoning = delta.reasoning_content or delta.reasoning
        if not self._tags:
            return (reasoning or "") + (delta.content or "")
        text = ""
        if reasoning:
            text = reasoning if self._thinking else "<think>\n" + reasoning
            self._thinking = True
        if delta.content:
            self._thinking = False
            text += END_OF_REASONING + delta.content
        return text

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
