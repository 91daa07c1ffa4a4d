"""One streamed path: turns the engine's chunks into events, and remembers what the chunks tell beside their tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import numpy as np

from sureenough.core.events import Start, Summary, Token, Tokens
from sureenough.drivers.observers import PathConfidence, PathText, PathTruncated
from sureenough.engines.base import Chunk


class PathStream:
    """A path that is being streamed."""

    __slots__ = (
        "_signals", "_texts", "_tokens", "begun", "beyond", "closed", "counted", "estimated", "may_overrun", "number",
        "prompt_tokens", "start", "summary", "task", "truncated",
    )  # fmt: skip

    def __init__(self, start: Start, signals: bool) -> None:
        self.start, self.number = start, start.path
        self.task: asyncio.Task[None] | None = None
        self.begun = False  # the engine has sent something
        self.closed = False  # the session has cancelled it
        self.summary: Summary | None = None  # by an engine that watched the path
        self.prompt_tokens: int | None = None
        self.beyond = 0  # tokens past its limit or its cancel
        self.counted = False  # after a cancel: the engine knows how many tokens were generated in all
        self.estimated = False  # its token count is a guess
        self.may_overrun = False  # the engine closed the stream itself; the server may have generated more
        self.truncated = False  # its limit of tokens cut it
        self._signals = signals  # whether confidence is read
        self._texts: list[str] = []
        self._tokens = 0

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join(self._texts)

    def count_unheard(self, tokens: int) -> None:
        """The path was cancelled, and its engine generated so many tokens more than it had passed on."""
        self.beyond += tokens
        self.counted = True

    def read(self, chunk: Sequence[Token]) -> Iterator[Tokens | PathText | PathConfidence | PathTruncated]:
        """The events of one chunk."""
        self.begun = True
        self._tokens += len(chunk)
        if not isinstance(chunk, Chunk):
            self._texts.extend([token.text for token in chunk])
            yield Tokens(self.number, chunk)
            return
        self._texts.append(chunk.text)
        self.estimated = chunk.estimated
        self.beyond += chunk.beyond
        self.may_overrun |= chunk.closed
        self.summary = chunk.summary or self.summary
        self.prompt_tokens = chunk.prompt_tokens or self.prompt_tokens
        if chunk:
            yield Tokens(self.number, chunk)
        elif chunk.text:
            yield PathText(self.number, chunk.text)
        if chunk.finish == "length":
            self.truncated = True
            yield PathTruncated(self.number)
        if chunk.unread and not self._is_end_token_only(chunk):
            yield Tokens(self.number, unread=chunk.unread)
            if chunk.tail is not None:
                yield PathConfidence(self.number, chunk.tail)

    def _is_end_token_only(self, chunk: Chunk) -> bool:
        """Nothing but an end token without signals is a path without windows, like an empty one."""
        if not self._signals or self._tokens or self.summary is not None or chunk.finish is None:
            return False
        self.summary = Summary(chunk.unread, 0.0, 0.0, mean_peak=0.0, mean_conf=0.0, signals=np.empty((0, 2)))
        return True
