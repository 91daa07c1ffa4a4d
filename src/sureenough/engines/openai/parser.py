"""One path's reply, read event by event into chunks: text from the message, tokens from the log-probabilities."""

from __future__ import annotations

import sys
from typing import Final

from sureenough.core.events import Token
from sureenough.engines.base import Chunk
from sureenough.engines.openai.logprobs import append_tokens, too_few
from sureenough.engines.openai.wire import DONE, Choice, Delta, Logprobs, decode
from sureenough.errors import EngineError, MissingLogprobs

REPEATED: Final = (
    "the server repeats one token's candidates for every token of a chunk, so confidence means nothing (seen with "
    "SGLang, its issue 39260): upgrade it, or start it with --stream-interval 1; or ask with sc, ac or esc"
)


class StreamCut(Exception):
    """The server sent an error in the middle of a stream; some do so even for requests that they refuse."""

    def __init__(self, error: object) -> None:
        super().__init__(said(error))
        code = error.get("code") if isinstance(error, dict) else None
        self.status = code if isinstance(code, int) else None


class ReplyParser:
    """Takes the events of one reply; `chunk` gives what has come since it was last asked."""

    def __init__(self, k: int, signals: bool, limit: int = sys.maxsize) -> None:
        self.k, self.signals, self.limit = k, signals, limit
        self.watched = False  # by the server, which sends no candidates then
        self.done = False  # the server said that it is done
        self.full = False  # more tokens came than the limit allows
        self.tokens = 0  # told so far, read or not
        self.finish: str | None = None
        self._text: list[str] = []
        self._tokens: list[Token] = []
        self._unread = 0
        self._beyond = 0  # tokens past the limit
        self._loose = ""  # text since the last token, to go with the next one
        self._silent = 0  # pieces of text that came before any log-probabilities
        self._thinking = False
        self._usage: tuple[int | None, int | None] = (None, None)

    @property
    def begun(self) -> bool:
        """Whether the reply has begun, after which a lost path is lost."""
        return self.tokens > 0 or self._silent > 0

    @property
    def made(self) -> int | None:
        """Tokens of the reply by the server's own count, where it says."""
        return self._usage[1]

    def leave_to_server(self) -> None:
        """Look for no candidates: the server watches this path itself."""
        self.watched, self.signals = True, False

    def take(self, data: bytes) -> None:
        """Read one event."""
        if data == DONE:
            self.done = True
            return
        message = decode(data)
        if message.error is not None:
            raise StreamCut(message.error)
        for choice in message.choices:
            if self.full:
                self._beyond += _count(choice)
            elif choice.index == 0:
                self._choice(choice)
        if message.usage is not None:
            self._usage = (message.usage.prompt_tokens, message.usage.completion_tokens)

    def take_all(self, events: list[bytes]) -> Exception | None:
        """Read events up to one that is wrong; what is wrong with it."""
        for data in events:
            try:
                self.take(data)
            except (StreamCut, EngineError) as error:
                return error
        return None

    def chunk(self) -> Chunk | None:
        """What came since the last chunk, if anything."""
        if not self._tokens and not self._text and not self._beyond:
            return None
        if self._loose and self._tokens:
            self._tokens[-1] = self._tokens[-1]._replace(text=self._tokens[-1].text + self._loose)
        self._loose = ""
        chunk = Chunk(self._tokens, text="".join(self._text), unread=self._unread, estimated=not self.signals)
        chunk.beyond = self._beyond
        self._tokens, self._text, self._unread, self._beyond = [], [], 0, 0
        return chunk

    def last(self) -> Chunk:
        """The path's end: why, and what the server counted beyond what was read."""
        prompt, made = self._usage
        if self.signals and not self._read and ((made or 0) > 1 or self._silent):
            raise MissingLogprobs(too_few(0, self.k))
        unseen = 0 if self.full else max(0, (made or 0) - self.tokens)
        self.tokens += unseen
        text = "\n</think>\n\n" if self._thinking and self.finish == "stop" else ""
        finish = "length" if self.finish == "length" else "stop"
        estimated = not self.signals and made is None
        return Chunk(text=text, unread=unseen, finish=finish, prompt_tokens=prompt, estimated=estimated)

    # -- parts

    @property
    def _read(self) -> bool:
        return self.signals and self.tokens > 0

    def _choice(self, choice: Choice) -> None:
        delta = choice.delta
        if delta is None:
            text = choice.text or ""
        elif self._thinking or delta.reasoning_content or delta.reasoning:
            text = self._said(delta)
        else:
            text = delta.content or ""
        made = self._entries(choice.logprobs, text) if self.signals and choice.logprobs is not None else 0
        if text:
            self._text.append(text)
            made = made or self._unsigned(text)
        self.tokens += made
        if choice.finish_reason is not None:
            self.finish = choice.finish_reason or self.finish
        if self.tokens > self.limit:
            self._cut(text)

    def _cut(self, text: str) -> None:
        """Drop what this event brought beyond the limit, so that a path is the same however its tokens are sent."""
        over = self.tokens - self.limit
        self.tokens, self.full, self.finish = self.limit, True, "length"
        self._beyond += over
        if not self.signals:
            self._unread -= over
            self._text.pop()
            return
        dropped = "".join([token.text for token in self._tokens[-over:]])
        del self._tokens[-over:]
        if text:
            self._text[-1] = text.removesuffix(dropped)

    def _unsigned(self, text: str) -> int:
        """Text without a token of its own: how many tokens to count it as."""
        if not self.signals:
            self._unread += 1
            return 1
        self._loose += text
        if not self.tokens:
            self._silent += 1
            if self._silent > 1:  # a single one may be a greeting; two are a reply without candidates
                raise MissingLogprobs(too_few(0, self.k))
        return 0

    def _said(self, delta: Delta) -> str:
        """Thinking that comes apart from the reply is put where answers are not looked for."""
        thought = delta.reasoning_content or delta.reasoning
        text = ""
        if thought:
            text = thought if self._thinking else "<think>\n" + thought
            self._thinking = True
        if delta.content:
            self._thinking = False
            text += "\n</think>\n\n" + delta.content
        return text

    def _entries(self, logprobs: Logprobs, text: str) -> int:
        words, columns = candidates(logprobs)
        made = len(columns)
        if not made:
            return 0
        if made > 1 and columns[0] == columns[1] and _all_alike(columns) and len(set(words)) > 1:
            raise MissingLogprobs(REPEATED)
        # Text comes from the message. The tokens' own strings only say where to cut it, where they add up to it.
        pieces = words if "".join(words) == text else [text, *[""] * (made - 1)]
        if self._loose:
            pieces = [self._loose + pieces[0], *pieces[1:]]
            self._loose = ""
        append_tokens(self._tokens, pieces, columns, self.k)
        return made


def _count(choice: Choice) -> int:
    """Tokens of an event that nobody reads any more; one, where it comes without log-probabilities."""
    if choice.logprobs is not None:
        return len(choice.logprobs.content or choice.logprobs.top_logprobs or ())
    return bool(choice.text or (choice.delta and choice.delta.content))


def _all_alike(columns: list[list[float]]) -> bool:
    return all(values == columns[0] for values in columns)


def candidates(logprobs: Logprobs) -> tuple[list[str], list[list[float]]]:
    """The tokens' own strings, and the log-probabilities of each one's candidates."""
    entries = logprobs.content
    if entries is not None:
        columns = [[candidate.logprob for candidate in entry.top_logprobs] for entry in entries]
        return [entry.token for entry in entries], columns
    maps = logprobs.top_logprobs or []
    words = logprobs.tokens or []
    return [*words, *[""] * len(maps)][: len(maps)], [list((found or {}).values()) for found in maps]


def said(error: object) -> str:
    """An error object of a server, in its own words."""
    if isinstance(error, dict):
        inner = error.get("error", error)
        words = inner.get("message") or inner.get("detail") if isinstance(inner, dict) else inner
        return str(words or inner)[:300]
    return str(error)[:300]
