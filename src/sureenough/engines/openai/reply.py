"""One path's reply without I/O: bytes in, chunks out. Text comes from messages, tokens from log-probabilities."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import accumulate
from typing import Final

from sureenough.core.events import Token
from sureenough.engines.base import THINK_END_TAG, THINK_TAG, End, Piece, Report, is_thinking
from sureenough.engines.openai.errors import StreamError
from sureenough.engines.openai.logprobs import LONGEST_INCOMPLETE, REPEATED, RepeatCounter, append_tokens, too_few
from sureenough.engines.openai.sse import SSEParser
from sureenough.engines.openai.wire import (
    DONE,
    FINISH_REASONS,
    TOOL_CALL,
    Choice,
    Delta,
    InvalidReply,
    Logprobs,
    ToolCallDelta,
    Usage,
    candidates,
    decode,
    reasoning_count,
    sampled_logprobs,
    token_count,
    token_counts,
)
from sureenough.engines.watch.client import WatchedPath
from sureenough.errors import EngineError, MissingLogprobs
from sureenough.json_text import mend
from sureenough.redact import SecretMask

LINE_CANDIDATES: Final = 5
"""Per token of a line, if only they show what ended it: the sampled token is nearly always among them."""


def whole_stop_text(said: str | None, choice: Choice, event: bytes) -> str | None:
    """The stop text that ended a reply, with what its token has after it.

    Args:
        said: the stop text as the server says it; empty if the model ended the reply, None if the server does not say.
        choice: the last one with tokens.
        event: the bytes that it is from.

    vLLM says it, and does not cut the token. llama.cpp does not say it, and cuts the text of the last token, but not
    that of the same token among its candidates. It does not send a token that is nothing but a stop text, as it does
    not send the one by which a model ends: then it stays unknown.
    """
    if said:
        delta, entries = choice.delta or Delta(), choice.logprobs and choice.logprobs.content
        shown = delta.content or delta.reasoning_content or delta.reasoning or ""
        return mend(to_end_of_token(said, len(shown), [entry.token for entry in entries or ()]))
    if said is None:
        with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):  # any of it may be anything
            choices = [choice for choice in json.loads(event)["choices"] if not choice.get("index")]
            last = choices[-1]["logprobs"]["content"][-1]
            cut, id = last["token"], last["id"]
            same = [other["token"] for other in last["top_logprobs"] if id is not None and other.get("id") == id]
            rests = [text.removeprefix(cut) for text in same if text.startswith(cut)]
            return next((mend(rest) for rest in rests if rest), None)
    return said


def to_end_of_token(stop: str, start: int, texts: Sequence[str]) -> str:
    """A stop text with what its last token has after it, if it begins at this place of the tokens' texts."""
    whole = "".join(texts)
    if not whole.startswith(stop, start):
        return stop
    return whole[start : next(end for end in accumulate(map(len, texts)) if end >= start + len(stop))]


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


class MessageText:
    """Turns each event's part of a message, or of the rest of one that begins so, into text.

    Reasoning that comes in a field of its own is put between think tags, where answers are not looked for. A server
    that does so takes the tags out of the text. If they are among the tokens, they are put back where they were. On
    other servers they come with the text, which may lag behind the tokens while stop texts are looked for.
    """

    def __init__(self, beginning: str, fields: ReasoningFields) -> None:
        self._outside = Place.UNTAGGED if beginning else Place.CONTENT
        self._place = Place.UNKNOWN if is_thinking(beginning) else self._outside
        self._fields = fields
        self._half = ""  # first half of a surrogate pair
        self._silent = True
        self._ends_line = beginning.endswith("\n")
        self._call = -1  # the tool call that grows

    def add(self, choice: Choice) -> str:
        delta = choice.delta
        if delta is None:
            text = choice.text or ""
        elif delta.content and self._place in OUTSIDE and not (delta.reasoning_content or delta.reasoning):
            text = delta.content
        else:
            tokens = [] if choice.logprobs is None else [entry.token for entry in choice.logprobs.content or ()]
            text = self._tagged(delta.reasoning_content or delta.reasoning or "", delta.content or "", tokens)
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
        closing = self._closed_reasoning() if complete else ""
        if hides_tokens and self._silent and self._place is Place.UNKNOWN and self._fields.sent_in_rests:
            closing = THINK_END_TAG  # which was among the hidden tokens
        return f"\ufffd{closing}" if self._half else closing

    def _tagged(self, reasoning: str, content: str, tokens: Sequence[str]) -> str:
        """Reasoning and content that came together, with these tokens."""
        opens, closes = (tag in tokens and tag not in reasoning + content for tag in (THINK_TAG, THINK_END_TAG))
        if opens and self._place is Place.CONTENT:
            self._place = Place.OPENED
        text = self._opening() + reasoning if reasoning else ""
        ends = self._place is Place.REASONING or (self._place is Place.UNKNOWN and self._fields.sent_in_rests)
        if closes and (self._place is Place.REASONING or self._fields.sent):
            self._place = self._outside
            text += THINK_END_TAG
        elif content and ends:
            text += self._closing(content, ends_line=text.endswith("\n") if text else self._ends_line)
        return text + content

    def _opening(self) -> str:
        """What comes before reasoning: the tag, if it begins here; its line feed, if the prompt did not have it."""
        before, self._fields.sent = self._place, True
        self._fields.sent_in_rests |= before is Place.UNKNOWN
        if before is not Place.UNTAGGED:
            self._place = Place.REASONING
        return {Place.CONTENT: f"{THINK_TAG}\n", Place.OPENED: THINK_TAG}.get(before, "")

    def _closing(self, content: str, *, ends_line: bool) -> str:
        """The closing tag, if its place is all that is known: on a line of its own, with a blank line after it."""
        self._place = self._outside
        return "\n" * (not ends_line) + THINK_END_TAG + "\n\n" * (not content.startswith("\n"))

    def _closed_reasoning(self) -> str:
        return self._closing("", ends_line=self._ends_line) if self._place is Place.REASONING else ""

    def _with_calls(self, calls: list[ToolCallDelta]) -> str:
        """Tool calls as text: a mark, the name, a line feed and the arguments, one call after the other."""
        text = self._closed_reasoning()
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


# How the tokens of a reply are counted: by their log-probabilities, by pieces of text, or by a server that watches
# (`WatchedPath`). `tokens` are counted so far; `pieces` are of text whose tokens may still come.


class SignedTokens:
    """Tokens that come with candidates. Text may come before its token, or without one."""

    def __init__(self, k: int, *, sampled: bool) -> None:
        self.tokens = self.pieces = 0
        self._k, self._repeats = k, RepeatCounter()
        self._complete = False  # some token came with all its candidates
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
        self._check(columns)
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

    def _check(self, columns: Sequence[Sequence[float]]) -> None:
        """Refuse candidates if there are too few of them, or if they are those of other tokens."""
        if self._k > 1:  # the likeliest token alone may well be as likely as the one before
            self._repeats.add(columns)
            if self._repeats.repeated:
                raise MissingLogprobs(REPEATED)
        if not self._complete:
            most = max(map(len, columns))
            self._complete = most >= self._k
            if not self._complete and self.tokens + len(columns) > LONGEST_INCOMPLETE:
                raise MissingLogprobs(too_few(most, self._k))

    def cut(self, over: int, text: str) -> None:
        """Drop the last tokens, which are beyond the limit, and with them text of the last event."""
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


def masked(part: Piece | Report | None, mask: SecretMask) -> Piece | Report | None:
    """A part of a reply without the secrets that its text repeats."""
    if part is None or not mask.secrets:
        return part
    if isinstance(part, Report):
        return replace(part, text=mask.feed(part.text))
    texts = [mask.feed(token.text) for token in part.tokens]
    pairs = zip(part.tokens, texts, strict=True)
    return replace(part, tokens=[token if token.text == text else token._replace(text=text) for token, text in pairs])


LONGEST_PATH: Final = 32_768
"""Tokens at which a path is cut if the caller sets no limit; servers with less context end it themselves."""
TOKEN_BYTES: Final = 64
"""Bytes of text that a path may have for each token of its limit, about fifteen times as many as tokens have."""
SHORT_TEXT: Final = 1 << 16
"""Bytes of text that any path may have."""


class ReplyParser:
    """Parses one reply; `feed` returns what arrived, `last` ends the path."""

    def __init__(
        self, k: int, signals: bool, limit: int | None = None, *,
        beginning: str = "", stops: tuple[str, ...] | None = None, fields: ReasoningFields | None = None,
        mask: SecretMask | None = None,
    ) -> None:  # fmt: skip
        self._k, self._limit = k, limit or LONGEST_PATH
        self._stops = stops  # which end a continuation; None: this is a whole path
        self._counter: SignedTokens | CountedText | WatchedPath = (
            SignedTokens(k, sampled=stops is not None) if signals else CountedText()
        )
        self._message = MessageText(beginning, fields or ReasoningFields())
        self._mask = mask or SecretMask(())
        self._events = SSEParser()
        self._usage = Usage()
        self._latest: tuple[Choice, bytes] | None = None  # of a continuation, with tokens
        self._beyond = 0  # tokens past the limit
        self._text_bytes = 0
        self.done = False  # [DONE] arrived: whatever follows is ignored
        self.finish: str | None = None
        self.stop_text: str | None = None  # as the server says
        self.error: Exception | None = None  # ends the path, after what `feed` returned with it

    @property
    def tokens(self) -> int:
        return self._counter.tokens

    @property
    def begun(self) -> bool:
        """Whether any of the reply has arrived; from then on the request is not sent again."""
        return self._counter.tokens > 0 or self._counter.pieces > 0

    @property
    def full(self) -> bool:
        return self._beyond > 0

    @property
    def completion_tokens(self) -> int | None:
        return token_counts(self._usage)[1]

    def leave_to(self, watch: WatchedPath) -> None:
        """Expect no candidates: the server watches this path itself."""
        self._counter = watch

    def feed(self, raw: bytes) -> Piece | Report | None:
        """What these bytes add to the path, if anything. After an error, what came before it; see `error`."""
        try:
            for data in self._events.feed(raw):
                self.receive(data)
            self._cut("")  # a watched path may have grown without bytes
        except (StreamError, EngineError) as error:
            self.error = error.with_traceback(None)
        return masked(self._counter.take(), self._mask)

    def raise_error(self) -> None:
        """Raise the error, unless the path is complete without what caused it."""
        try:
            if self.error is not None and not self.full:
                raise self.error
        finally:
            self.error = None  # from now on it refers to frames, and these to the parser and all that it received

    def end_of_stream(self) -> None:
        for data in [] if self.full else self._events.end():
            self.receive(data)

    def receive(self, data: bytes) -> None:
        if self.done or data == DONE:
            self.done = True
            return
        message = decode(data)
        if message.error is not None:
            raise StreamError(message.error)
        if message.sureenough is not None and isinstance(self._counter, WatchedPath):
            self._counter.receive(message.sureenough)
        if message.usage is not None:
            self._usage = message.usage
        for choice in message.choices:
            if self._beyond:
                self._beyond += token_count(choice)
            elif choice.index == 0:
                self._add(choice)
                if self._stops is not None and choice.logprobs is not None and choice.logprobs.content:
                    self._latest = choice, data

    def _add(self, choice: Choice) -> None:
        text = self._message.add(choice)
        self._check_size(text)
        self._counter.add(choice.logprobs, text)
        if choice.finish_reason is not None:
            self.finish, said = choice.finish_reason, choice.stop_text
            self.stop_text = said if not said or said in (self._stops or ()) else None
        self._cut(text)
        if self.finish is not None and self.finish not in FINISH_REASONS:
            raise InvalidReply("the text of a path is incomplete: the server ended it with finish_reason", self.finish)

    def _check_size(self, text: str) -> None:
        """Refuse text that no tokens within the limit have; tokens of a megabyte would fill the memory."""
        self._text_bytes += len(text) if text.isascii() else len(text.encode())
        if self._text_bytes > (most := SHORT_TEXT + TOKEN_BYTES * self._limit):
            raise EngineError(f"the server sent more than {most:,} bytes of text for {self._limit:,} tokens at most")

    def _cut(self, text: str) -> None:
        """Drop what is beyond the limit, so that a path does not depend on how its tokens are sent."""
        over = self._counter.tokens + self._counter.pieces - self._limit
        if over > 0:
            self._counter.cut(over, text)
            self._beyond += over
            self.finish = "length"

    def last(self) -> End:
        """The end of the path, with the tokens that the server counted beyond those received."""
        prompt, completion, cached = token_counts(self._usage)
        counter, signed = self._counter, isinstance(self._counter, SignedTokens)
        if signed and not counter.tokens and ((completion or 0) > 1 or counter.pieces):
            raise MissingLogprobs(too_few(0, self._k))
        unseen = counter.pieces if self.full or completion is None else max(0, completion - counter.tokens)
        finish = FINISH_REASONS[self.finish or "stop"]
        complete = self.finish is not None and finish == "stop" and not self._stops
        text = self._mask.held + self._message.end(complete=complete, hides_tokens=unseen > 0 and bool(self.stop_text))
        estimated = completion is None and (not signed or counter.pieces > 0)
        stop_text = self.stop_text if self._stops is not None else None
        if self._latest is not None:
            stop_text = whole_stop_text(stop_text, *self._latest)
        try:
            summary = counter.summary() if isinstance(counter, WatchedPath) else None
        except ValueError as error:
            raise InvalidReply("the server watched a path, but its record could not be read:", str(error)) from None
        return End(
            finish, text, unseen, estimated, stop_text, prompt, cached, self._beyond, summary,
            reasoning_count(self._usage),
        )  # fmt: skip
