"""One path's reply without I/O: bytes in, chunks out. Text comes from messages, tokens from log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import msgspec

from sureenough.core.events import Token
from sureenough.engines.base import THINK_END_TAG, THINK_TAG, End, ExtendOptions, Part, Piece, Report, is_thinking
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
    Monitored,
    TokenCounts,
    ToolCallDelta,
    candidates,
    decode,
    sampled_logprobs,
    token_count,
)
from sureenough.engines.watch.record import Progress
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


def few_candidates(options: ExtendOptions, says: bool) -> int:
    """How many to request if confidence is not needed. `says`: whether the server says what ended a reply."""
    needed = options.stop and not says
    return LINE_CANDIDATES if needed else 1  # not 0, which servers may take for no log-probabilities


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


LONGEST_PATH: Final = 32_768
"""Tokens after which a path is closed if the caller sets no limit; servers with less context end it themselves."""


class ReplyParser:
    """Parses one reply; `feed` returns what arrived, `last` ends the path."""

    def __init__(
        self, k: int, signals: bool, limit: int | None = None, *,
        beginning: str = "", stops: tuple[str, ...] | None = None, fields: ReasoningFields | None = None,
    ) -> None:  # fmt: skip
        self.k, self.signals, self.stops = k, signals, stops  # `stops` end a continuation; None: this is a whole path
        self._sampled: list[float] | None = None if stops is None or not signals else []  # log-probabilities
        self._message = MessageText(beginning, fields or ReasoningFields())
        self.limit = limit or LONGEST_PATH
        self._closes_at_limit = limit is None  # else the server knows the limit, and ends the path there itself
        self.watched = False  # by the server, which then sends no candidates, and all text in one event
        self.record: dict[str, Any] | None = None  # of a watched path
        self.done = False  # [DONE] arrived: whatever follows is ignored
        self.full = False  # the limit was reached before the server ended the path
        self.event_count = 0  # in the bytes of the latest `feed`
        self.tokens = 0  # passed on so far, with or without signals
        self.finish: str | None = None
        self.stop_text: str | None = None  # as the server says
        self._latest = b""  # event with tokens
        self.error: Exception | None = None  # ends the path, after the chunk that `feed` returned with it
        self._events = SSEParser()
        self._check = CandidateCheck(k)
        self._text: list[str] = []
        self._tokens: list[Token] = []
        self._unread = 0
        self._tail: float | None = None
        self._alive = False  # the path goes on, but the server cannot say how far it is
        self._beyond = 0  # tokens past the limit
        self._loose = ""  # text since the last token, to go with the next one
        self._pieces = 0  # pieces of text without log-probabilities, less the tokens that came for them later
        self._usage = TokenCounts()

    @property
    def begun(self) -> bool:
        """Whether any of the reply has arrived; from then on the request is not sent again."""
        return self.tokens > 0 or self._pieces > 0

    @property
    def completion_tokens(self) -> int | None:
        """Tokens of the reply by the server's own count, if it sends one."""
        return self._usage.completion

    def leave_to_server(self) -> None:
        """Expect no candidates: the server watches this path itself."""
        self.watched, self.signals = True, False

    def feed(self, raw: bytes) -> Part | None:
        """What these bytes add to the path, if anything. After an error, what came before it; see `error`."""
        try:
            events = self._events.feed(raw)
            self.event_count = len(events)
            for data in events:
                self.receive(data)
        except (StreamError, EngineError) as error:
            self.error = error.with_traceback(None)
        return self._take()

    def follow(self, progress: Progress) -> Part | None:
        """What the server's count of a path that it watches adds to it, if the client has asked for it."""
        self._follow(Monitored(*progress))
        return self._take()

    def _take(self) -> Part | None:
        if self._closes_at_limit and self.tokens >= self.limit and self.finish is None:
            self.finish, self.full = "length", True
        tokens = self._tokens
        if not tokens and not self._text and not self._unread and not self._alive:
            return None
        text, loose, unread, tail = self._text, self._loose, self._unread, self._tail
        self._text, self._loose, self._unread, self._tail, self._alive = [], "", 0, None, False
        if not tokens:
            return Report(unread, "".join(text), estimated=not self.signals and not self.watched, tail=tail)
        if loose:
            tokens[-1] = tokens[-1]._replace(text=tokens[-1].text + loose)
        sampled, self._tokens = self._sampled, []
        if not sampled:
            return Piece(tokens)
        self._sampled = []
        return Piece(tokens, sampled)

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
        if self.watched and message.sureenough is not None:
            self._follow(message.sureenough)
        if message.usage is not None:
            self._usage = TokenCounts.of(message.usage)
        for choice in message.choices:
            if self.full:
                self._beyond += token_count(choice)
            elif choice.index == 0:
                self._add(choice)
                self._latest = data if choice.logprobs is not None and choice.logprobs.content else self._latest

    def last(self) -> End:
        """The end of the path, with the tokens that the server counted beyond those received."""
        prompt, completion, cached = self._usage
        if self.signals and not self.tokens and ((completion or 0) > 1 or self._pieces):
            raise MissingLogprobs(too_few(0, self.k))
        unseen = self._pieces if self.full or completion is None else max(0, completion - self.tokens)
        self.tokens += unseen
        finish = FINISH_REASONS[self.finish or "stop"]
        complete = self.finish is not None and finish == "stop" and not self.stops
        text = self._message.end(complete=complete, hides_tokens=unseen > 0 and bool(self.stop_text))
        estimated = completion is None and (not self.signals or self._pieces > 0)
        stop_text = None if self.stops is None else whole_stop_text(self._latest, self.stop_text)
        return End(finish, text, unseen, estimated, stop_text, prompt, cached, self._beyond, self.full)

    def _follow(self, path: Monitored) -> None:
        """The server's own count of a path that it watches, less one: it may have sampled a token after the last."""
        self.record, self._alive = path.record or self.record, path.alive
        new = min(path.tokens - 1, self.limit) - self.tokens
        if new > 0:
            self._unread += new
            self.tokens += new
            self._tail = path.tail

    def _add(self, choice: Choice) -> None:
        text = self._message.add(choice)
        received = self._add_tokens(choice.logprobs, text) if self.signals and choice.logprobs is not None else 0
        if text:
            self._text.append(text)
            received = received or self._add_unsigned(text)
        self.tokens += received
        if choice.finish_reason is not None:
            self.finish, said = choice.finish_reason, choice.stop_text
            self.stop_text = said if not said or said in (self.stops or ()) else None
        if self.tokens + self._pieces > self.limit:
            self._cut(text)
        if self.finish is not None and self.finish not in FINISH_REASONS:
            raise InvalidReply("the server ended a path with finish_reason ", self.finish, "; its text is incomplete")

    def _cut(self, text: str) -> None:
        """Drop what this event brought beyond the limit, so that a path does not depend on how its tokens are sent."""
        over = self.tokens + self._pieces - self.limit
        self.full, self.finish = True, "length"
        self._beyond += over
        if not self.signals or self._pieces:
            self._text.pop()
            self._loose = self._loose.removesuffix(text)
        if not self.signals:
            self.tokens -= over
            self._unread -= over
        elif self._pieces:
            self._pieces -= over
        else:
            self.tokens -= over
            dropped = "".join([token.text for token in self._tokens[-over:]])
            del self._tokens[-over:]
            if self._sampled:
                del self._sampled[-over:]
            if text:
                self._text[-1] = text.removesuffix(dropped)

    def _add_unsigned(self, text: str) -> int:
        """How many tokens to count this text as: none yet if signals are read, since its token may still come."""
        if self.watched:
            return 0  # its tokens are counted by the server
        if not self.signals:
            self._unread += 1
            return 1
        self._loose += text
        self._pieces += 1
        if not self.tokens and self._pieces > 1:  # one may be a greeting; two are a reply without candidates
            raise MissingLogprobs(too_few(0, self.k))
        return 0

    def _add_tokens(self, logprobs: Logprobs, text: str) -> int:
        strings, columns = candidates(logprobs)
        received = len(columns)
        if not received:
            return 0
        self._check.add(columns, self.tokens)
        # Text comes from the message. The tokens' own strings only say where to cut it, if they add up to it.
        pieces = strings if "".join(strings) == text else [text, *[""] * (received - 1)]
        if self._loose:
            pieces = [self._loose + pieces[0], *pieces[1:]]
            self._loose = ""
        append_tokens(self._tokens, pieces, columns, self.k)
        if self._sampled is not None:
            self._sampled += sampled_logprobs(logprobs)
        if self._pieces:
            self._pieces = max(0, self._pieces - received)
        return received
