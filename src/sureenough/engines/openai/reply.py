"""One path's reply without I/O: bytes in, chunks out. Text comes from messages, tokens from log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum, auto
from itertools import accumulate
from typing import Any, Final, Protocol

import msgspec

from sureenough.core.events import Summary, Token
from sureenough.engines.base import THINK_END_TAG, THINK_TAG, End, Piece, Report, is_thinking
from sureenough.engines.openai.errors import StreamError
from sureenough.engines.openai.logprobs import CandidateCheck, append_tokens, too_few
from sureenough.engines.openai.sse import SSEParser
from sureenough.engines.openai.wire import (
    DONE,
    FINISH_REASONS,
    TOOL_CALL,
    Choice,
    Delta,
    InvalidReply,
    Logprobs,
    TokenCounts,
    ToolCallDelta,
    candidates,
    decode,
    sampled_logprobs,
    token_count,
)
from sureenough.errors import EngineError, MissingLogprobs
from sureenough.json_text import mend


class _Token(msgspec.Struct, gc=False):
    id: int | None = None
    token: str = ""


class _Sampled(_Token, gc=False):
    top_logprobs: list[_Token] = []


class _Logprobs(msgspec.Struct, gc=False):
    content: list[_Sampled] = []


class _Choice(msgspec.Struct, gc=False):
    delta: Delta | None = None
    logprobs: _Logprobs | None = None
    index: int = 0


class _Event(msgspec.Struct, gc=False):
    choices: list[_Choice] = []


_decoder: Final = msgspec.json.Decoder(_Event)

LINE_CANDIDATES: Final = 5
"""Per token of a line, if only they show what ended it: the sampled token is nearly always among them."""


def whole_stop_text(data: bytes, said: str | None) -> str | None:
    """The stop text that ended a reply, with what its token has after it.

    Args:
        data: the last event with tokens; empty if there is none.
        said: the stop text as the server says it; empty if the model ended the reply, None if the server does not say.

    vLLM says it, and does not cut the token. llama.cpp does not say it, and cuts the text of the last token, but not
    that of the same token among its candidates. It does not send a token that is nothing but a stop text, as it does
    not send the one by which a model ends: then it stays unknown.
    """
    choice = _choice(data) if data and said != "" else None
    if choice is None or choice.logprobs is None or not choice.logprobs.content:
        return said
    tokens, delta = choice.logprobs.content, choice.delta or Delta()
    if said is not None:
        shown = delta.content or delta.reasoning_content or delta.reasoning or ""
        return to_end_of_token(said, len(shown), [token.token for token in tokens])
    last = tokens[-1]
    whole = [other.token for other in last.top_logprobs if other.id is not None and other.id == last.id]
    rests = [text.removeprefix(last.token) for text in whole if text != last.token and text.startswith(last.token)]
    return rests[0] if rests else None


def to_end_of_token(stop: str, start: int, texts: Sequence[str]) -> str:
    """A stop text with what its last token has after it, if it begins at this place of the tokens' texts."""
    whole = "".join(texts)
    if not whole.startswith(stop, start):
        return stop
    return whole[start : next(end for end in accumulate(map(len, texts)) if end >= start + len(stop))]


def _choice(data: bytes) -> _Choice | None:
    try:
        choices = _decoder.decode(data).choices
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # wire.py has read what it can
        return None
    return next((choice for choice in reversed(choices) if choice.index == 0), None)


# The text of one reply from the fields of its messages: content, reasoning and tool calls, in one string.


@dataclass(slots=True)
class ReasoningFields:
    """What is known of a server from its replies so far."""

    sent: bool = False  # reasoning comes in a field of its own
    sent_in_rests: bool = False  # also in the rest of a path that was thinking


class Place(Enum):
    """Where the text of a reply is, as far as think tags go."""

    CONTENT = auto()  # of a whole reply: a tag opens reasoning
    OPENED = auto()  # the same, but the tag was sampled, and the server took it out of the text
    REASONING = auto()  # in a field of its own: a tag closes it
    UNKNOWN = auto()  # in the rest of a reply that was thinking: no field has told yet whether it still is
    UNTAGGED = auto()  # in the rest of a reply that was not: reasoning gets no tags


OUTSIDE: Final = (Place.CONTENT, Place.OPENED, Place.UNTAGGED)


class ThinkTags:
    """Puts reasoning that comes in a field of its own between think tags, where answers are not looked for.

    A server that does so takes the tags out of the text. If they are among the tokens, they are put back where they
    were. On other servers they come with the text, which may lag behind the tokens while stop texts are looked for.
    """

    def __init__(self, beginning: str, fields: ReasoningFields) -> None:
        self._outside = Place.UNTAGGED if beginning else Place.CONTENT
        self.place = Place.UNKNOWN if is_thinking(beginning) else self._outside
        self._fields = fields

    def tagged(self, reasoning: str, content: str, tokens: Sequence[str], *, ends_line: bool) -> str:
        """Reasoning and content that came together, with these tokens, after a text that ends a line or does not."""
        opens, closes = (tag in tokens and tag not in reasoning + content for tag in (THINK_TAG, THINK_END_TAG))
        if opens and self.place is Place.CONTENT:
            self.place = Place.OPENED
        text = self._opening() + reasoning if reasoning else ""
        ends = self.place is Place.REASONING or (self.place is Place.UNKNOWN and self._fields.sent_in_rests)
        if closes and (self.place is Place.REASONING or self._fields.sent):
            self.place = self._outside
            text += THINK_END_TAG
        elif content and ends:
            text += self.close(content, ends_line=reasoning.endswith("\n") if reasoning else ends_line)
        return text + content

    def _opening(self) -> str:
        """What comes before reasoning: the tag, if it begins here; its line feed, if the prompt did not have it."""
        before, self._fields.sent = self.place, True
        self._fields.sent_in_rests |= before is Place.UNKNOWN
        if before is not Place.UNTAGGED:
            self.place = Place.REASONING
        return {Place.CONTENT: f"{THINK_TAG}\n", Place.OPENED: THINK_TAG}.get(before, "")

    def close(self, content: str = "", *, ends_line: bool) -> str:
        """The closing tag, if its place is all that is known: on a line of its own, with a blank line after it."""
        self.place = self._outside
        return "\n" * (not ends_line) + THINK_END_TAG + "\n\n" * (not content.startswith("\n"))

    @property
    def hides_end(self) -> bool:
        """Whether tokens that the server does not show, before any text, were the end of reasoning."""
        return self.place is Place.UNKNOWN and self._fields.sent_in_rests


class MessageText:
    """Turns each event's part of a message, or of the rest of one that begins so, into text."""

    def __init__(self, beginning: str, fields: ReasoningFields) -> None:
        self._tags = ThinkTags(beginning, fields)
        self._half = ""  # first half of a surrogate pair
        self._silent = True
        self._ends_line = beginning.endswith("\n")
        self._call = -1  # the tool call that grows

    def add(self, choice: Choice) -> str:
        """The text that an event adds."""
        delta = choice.delta
        if delta is None:
            text = choice.text or ""
        elif delta.content and self._tags.place in OUTSIDE and not (delta.reasoning_content or delta.reasoning):
            text = delta.content
        else:
            tokens = [] if choice.logprobs is None else [entry.token for entry in choice.logprobs.content or ()]
            reasoning = delta.reasoning_content or delta.reasoning or ""
            text = self._tags.tagged(reasoning, delta.content or "", tokens, ends_line=self._ends_line)
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
        closing = self._close() if complete else ""
        if hides_tokens and self._silent and self._tags.hides_end:
            closing = THINK_END_TAG
        return f"\ufffd{closing}" if self._half else closing

    def _close(self) -> str:
        return self._tags.close(ends_line=self._ends_line) if self._tags.place is Place.REASONING else ""

    def _with_calls(self, calls: list[ToolCallDelta]) -> str:
        """Tool calls as text: a mark, the name, a line feed and the arguments, one call after the other."""
        text = self._close()
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


# How the tokens of a reply are counted: by their log-probabilities, by pieces of text, or by a server that watches.


class TokenCounter(Protocol):
    """Collects what events bring, until it is passed on."""

    tokens: int  # counted so far
    pieces: int  # of text whose tokens may still come

    def add(self, logprobs: Logprobs | None, text: str) -> None:
        """What an event brings."""

    def cut(self, over: int, text: str) -> None:
        """Drop the last tokens, which are beyond the limit, and with them text of the last event."""

    def take(self) -> Piece | Report | None:
        """What has come since the last call."""


class Watch(TokenCounter, Protocol):
    """One path that the server is asked to watch. If it does, it sends no candidates, and all text in one event."""

    headers: dict[str, str]  # of the request

    def accepted(self, headers: Mapping[str, str]) -> bool:
        """Whether the headers of the response say that the server watches the path."""

    def reading(self, content: Any) -> AbstractAsyncContextManager[Any]:
        """What to read the response with, in place of its content: it returns None if only the count has changed."""

    def receive(self, report: Any) -> None:
        """What the server adds to an event."""

    def summary(self) -> Summary | None:
        """The path as the server saw it, at its end; ValueError if that cannot be read."""

    async def cancelled(self) -> None:
        """The stream was closed before the path's end."""


class SignedTokens:
    """Tokens that come with candidates. Text may come before its token, or without one."""

    def __init__(self, k: int, *, sampled: bool) -> None:
        self.tokens = self.pieces = 0
        self._k, self._check = k, CandidateCheck(k)
        self._new: list[Token] = []
        self._sampled: list[float] | None = [] if sampled else None  # log-probabilities
        self._loose = ""  # text since the last token, to go with the next one

    def add(self, logprobs: Logprobs | None, text: str) -> None:
        received = 0 if logprobs is None else self._add_tokens(logprobs, text)
        if received or not text:
            return
        self._loose += text
        self.pieces += 1
        if not self.tokens and self.pieces > 1:  # one may be a greeting; two are a reply without candidates
            raise MissingLogprobs(too_few(0, self._k))

    def _add_tokens(self, logprobs: Logprobs, text: str) -> int:
        strings, columns = candidates(logprobs)
        received = len(columns)
        if not received:
            return 0
        self._check.add(columns, self.tokens)
        # Text comes from the message. The tokens' own strings only say where to cut it, if they add up to it.
        texts = strings if "".join(strings) == text else [text, *[""] * (received - 1)]
        if self._loose:
            texts = [self._loose + texts[0], *texts[1:]]
            self._loose = ""
        append_tokens(self._new, texts, columns, self._k)
        if self._sampled is not None:
            self._sampled += sampled_logprobs(logprobs)
        self.tokens += received
        self.pieces = max(0, self.pieces - received)
        return received

    def cut(self, over: int, text: str) -> None:
        if self.pieces:
            self.pieces -= over
            self._loose = self._loose.removesuffix(text)
            return
        self.tokens -= over
        del self._new[-over:]
        if self._sampled:
            del self._sampled[-over:]

    def take(self) -> Piece | Report | None:
        new, loose, sampled = self._new, self._loose, self._sampled
        if not new:
            self._loose = ""
            return Report(text=loose) if loose else None
        if loose:
            new[-1] = new[-1]._replace(text=new[-1].text + loose)
            self._loose = ""
        self._new = []
        if sampled is None:
            return Piece(new)
        self._sampled = []
        return Piece(new, sampled)


class CountedText:
    """Text without signals: a piece counts as a token, until the server says how many there were."""

    pieces = 0

    def __init__(self) -> None:
        self.tokens = 0
        self._texts: list[str] = []

    def add(self, _: Logprobs | None, text: str) -> None:
        if text:
            self._texts.append(text)
            self.tokens += 1

    def cut(self, over: int, _: str) -> None:
        self.tokens -= over
        del self._texts[-over:]

    def take(self) -> Report | None:
        texts, self._texts = self._texts, []
        return Report(len(texts), "".join(texts), estimated=True) if texts else None


LONGEST_PATH: Final = 32_768
"""Tokens at which a path is cut if the caller sets no limit; servers with less context end it themselves."""


class ReplyParser:
    """Parses one reply; `feed` returns what arrived, `last` ends the path."""

    def __init__(
        self, k: int, signals: bool, limit: int | None = None, *,
        beginning: str = "", stops: tuple[str, ...] | None = None, fields: ReasoningFields | None = None,
    ) -> None:  # fmt: skip
        self._k, self._limit = k, limit or LONGEST_PATH
        self._stops = stops  # which end a continuation; None: this is a whole path
        self._counter: TokenCounter = SignedTokens(k, sampled=stops is not None) if signals else CountedText()
        self._watch: Watch | None = None  # if the server watches the path
        self._message = MessageText(beginning, fields or ReasoningFields())
        self._events = SSEParser()
        self._usage = TokenCounts()
        self._latest = b""  # event with tokens
        self._beyond = 0  # tokens past the limit
        self.done = False  # [DONE] arrived: whatever follows is ignored
        self.finish: str | None = None
        self.stop_text: str | None = None  # as the server says
        self.error: Exception | None = None  # ends the path, after what `feed` returned with it

    @property
    def tokens(self) -> int:
        """Tokens of the path so far."""
        return self._counter.tokens

    @property
    def begun(self) -> bool:
        """Whether any of the reply has arrived; from then on the request is not sent again."""
        return self._counter.tokens > 0 or self._counter.pieces > 0

    @property
    def full(self) -> bool:
        """Whether the limit was exceeded before the server ended the path."""
        return self._beyond > 0

    @property
    def completion_tokens(self) -> int | None:
        """Tokens of the reply by the server's own count, if it sends one."""
        return self._usage.completion

    def leave_to(self, watch: Watch) -> None:
        """Expect no candidates: the server watches this path itself."""
        self._counter = self._watch = watch

    def feed(self, raw: bytes) -> Piece | Report | None:
        """What these bytes add to the path, if anything. After an error, what came before it; see `error`."""
        try:
            for data in self._events.feed(raw):
                self.receive(data)
            self._cut("")  # a watched path may have grown without bytes
        except (StreamError, EngineError) as error:
            self.error = error.with_traceback(None)
        return self._counter.take()

    def raise_error(self) -> None:
        """Raise the error, unless the path is complete without what caused it.

        It is forgotten, because from then on it refers to frames, and these to the parser and all that it received.
        """
        error, self.error = self.error, None
        try:
            if error is not None and not self.full:
                raise error
        finally:
            del error

    def end_of_stream(self) -> None:
        """Parse what is left when the response ends."""
        for data in [] if self.full else self._events.end():
            self.receive(data)

    def receive(self, data: bytes) -> None:
        if self.done or data == DONE:
            self.done = True
            return
        message = decode(data)
        if message.error is not None:
            raise StreamError(message.error)
        if self._watch is not None:
            self._watch.receive(message.sureenough)
        if message.usage is not None:
            self._usage = TokenCounts.of(message.usage)
        for choice in message.choices:
            if self._beyond:
                self._beyond += token_count(choice)
            elif choice.index == 0:
                self._add(choice)
                self._latest = data if choice.logprobs is not None and choice.logprobs.content else self._latest

    def _add(self, choice: Choice) -> None:
        text = self._message.add(choice)
        self._counter.add(choice.logprobs, text)
        if choice.finish_reason is not None:
            self.finish, said = choice.finish_reason, choice.stop_text
            self.stop_text = said if not said or said in (self._stops or ()) else None
        self._cut(text)
        if self.finish is not None and self.finish not in FINISH_REASONS:
            raise InvalidReply("the text of a path is incomplete: the server ended it with finish_reason", self.finish)

    def _cut(self, text: str) -> None:
        """Drop what is beyond the limit, so that a path does not depend on how its tokens are sent."""
        over = self._counter.tokens + self._counter.pieces - self._limit
        if over > 0:
            self._counter.cut(over, text)
            self._beyond += over
            self.finish = "length"

    def last(self) -> End:
        """The end of the path, with the tokens that the server counted beyond those received."""
        prompt, completion, cached = self._usage
        counter, signed = self._counter, isinstance(self._counter, SignedTokens)
        if signed and not counter.tokens and ((completion or 0) > 1 or counter.pieces):
            raise MissingLogprobs(too_few(0, self._k))
        unseen = counter.pieces if self.full or completion is None else max(0, completion - counter.tokens)
        finish = FINISH_REASONS[self.finish or "stop"]
        complete = self.finish is not None and finish == "stop" and not self._stops
        text = self._message.end(complete=complete, hides_tokens=unseen > 0 and bool(self.stop_text))
        estimated = completion is None and (not signed or counter.pieces > 0)
        stop_text = None if self._stops is None else whole_stop_text(self._latest, self.stop_text)
        try:
            summary = None if self._watch is None else self._watch.summary()
        except ValueError as error:
            raise InvalidReply("the server watched a path, but its record could not be read:", str(error)) from None
        return End(finish, text, unseen, estimated, stop_text, prompt, cached, self._beyond, summary)
