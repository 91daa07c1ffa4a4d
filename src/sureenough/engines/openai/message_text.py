"""The text of one reply from the fields of its messages: content, reasoning and tool calls, in one string."""

from __future__ import annotations

from dataclasses import dataclass

from sureenough.engines.openai.wire import TOOL_CALL, Choice, Delta, Logprobs, ToolCallDelta
from sureenough.engines.requests import THINK_END_TAG, THINK_TAG, is_thinking
from sureenough.errors import EngineError
from sureenough.json_text import mend


@dataclass(slots=True)
class ReasoningFields:
    """What is known of a server from its replies so far."""

    sent: bool = False  # reasoning comes in a field of its own
    sent_in_rests: bool = False  # also in the rest of a path that was thinking


class MessageText:
    """Turns each event's part of a message, or of the rest of one that begins so, into text."""

    def __init__(self, beginning: str, fields: ReasoningFields) -> None:
        self._begins = not beginning
        self._goes_on_thinking = is_thinking(beginning)
        self._fields = fields
        self._half = ""  # first half of a surrogate pair
        self._silent = True
        self._ends_line = beginning.endswith("\n")
        self._thinking = False  # the latest text was reasoning in a field of its own
        self._opened = False  # the model has sampled the opening tag
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
        if text:
            self._silent, self._ends_line = False, text.endswith("\n")
        return self._joined(text) if self._half or not text.isascii() else text

    def end(self, *, complete: bool, hides_tokens: bool = False) -> str:
        """What completes the text when the reply ends.

        Args:
            complete: the model has ended the reply. At a stop text, reasoning goes on.
            hides_tokens: a stop text has ended it, and the server has not shown all tokens before that.
        """
        closing = self._closing("") if self._thinking and complete else ""
        if hides_tokens and self._silent and self._goes_on_thinking and self._fields.sent_in_rests:
            closing = THINK_END_TAG
        return f"\ufffd{closing}" if self._half else closing

    def _with_reasoning(self, delta: Delta, logprobs: Logprobs | None) -> str:
        """Reasoning in a field of its own is put between think tags, where answers are not looked for.

        A server that does so takes the tags out of the text. If they are among the tokens, they are put back where they
        were. On other servers they come with the text, which may lag behind the tokens while stop texts are looked for.
        """
        reasoning, content = delta.reasoning_content or delta.reasoning or "", delta.content or ""
        tokens = [] if logprobs is None else [entry.token for entry in logprobs.content or ()]
        opens, closes = (tag in tokens and tag not in reasoning + content for tag in (THINK_TAG, THINK_END_TAG))
        self._opened |= opens
        opening = self._opening(reasoning)
        closes &= self._thinking or self._fields.sent
        if closes or (content and (self._thinking or (self._goes_on_thinking and self._fields.sent_in_rests))):
            self._thinking = self._goes_on_thinking = False
            self._ends_line = reasoning.endswith("\n") if reasoning else self._ends_line
            return opening + reasoning + (THINK_END_TAG if closes else self._closing(content)) + content
        return opening + reasoning + content

    def _closing(self, content: str) -> str:
        """The closing tag, if its place is all that is known: on a line of its own, with a blank line after it."""
        return "\n" * (not self._ends_line) + THINK_END_TAG + "\n\n" * (not content.startswith("\n"))

    def _opening(self, reasoning: str) -> str:
        """What comes before reasoning: the opening tag, if it begins here; its line feed, if the prompt had the tag."""
        if not reasoning:
            return ""
        begins, self._thinking = self._begins and not self._thinking, self._begins or self._goes_on_thinking
        self._fields.sent = True
        self._fields.sent_in_rests |= self._goes_on_thinking
        return (THINK_TAG if self._opened else f"{THINK_TAG}\n") if begins else ""

    def _with_calls(self, calls: list[ToolCallDelta]) -> str:
        """Tool calls as text: a mark, the name, a line feed and the arguments, one call after the other."""
        text = self._closing("") if self._thinking else ""
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
