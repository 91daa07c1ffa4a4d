"""One streamed path: turns the engine's chunks into events, and remembers what the chunks tell beside their tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from sureenough.core.events import Start, Summary, Tokens
from sureenough.core.pruning import Gate
from sureenough.drivers.observers import PathConfidence, PathText, PathTruncated
from sureenough.engines.requests import Chunk, Prompt, WatchOptions


@dataclass(slots=True, eq=False)
class PathStream:
    """A path that is being streamed."""

    start: Start
    signals: bool  # whether confidence is read
    task: asyncio.Task[None] | None = None
    requested: bool = False  # the engine was asked for it; before that, nothing is generated
    begun: bool = False  # the engine has sent something
    closed: bool = False  # the session has cancelled it
    summary: Summary | None = None  # by an engine that watched the path
    prompt_tokens: int | None = None
    beyond: int = 0  # tokens past its limit or its cancel
    counted: bool = False  # after a cancel: the engine knows how many tokens were generated in all
    estimated: bool = False  # its token count is a guess
    may_overrun: bool = False  # the engine closed the stream itself; the server may have generated more
    truncated: bool = False  # its limit of tokens cut it
    _texts: list[str] = field(default_factory=list)
    _tokens: int = 0

    @property
    def number(self) -> int:
        return self.start.path

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def watched(self, prompt: Prompt, window: int | None) -> Prompt:
        """The prompt with this path's gate, for engines that watch their own paths."""
        if not self.signals:  # such an engine need not send anything before its end
            return replace(prompt, watch=WatchOptions(None, Gate(), self.count_unheard))
        gate = None if self.start.warmup or window is None else self.start.gate
        if gate is not None and gate.trend_window:  # such an engine has one window; the session watches this path
            return prompt
        return replace(prompt, watch=WatchOptions(window, gate, self.count_unheard))

    def close(self, *, interrupt: bool = True) -> None:
        """The session has cancelled the path; without an interrupt, its task sees so by itself."""
        if not self.closed and interrupt and self.task is not None:  # a second cancel would disturb its closing
            self.task.cancel()
        self.closed = True

    def count_unheard(self, tokens: int) -> None:
        """The path was cancelled, and its engine generated so many tokens more than it had passed on."""
        self.beyond += tokens
        self.counted = True

    def read(self, chunk: Chunk) -> Iterator[Tokens | PathText | PathConfidence | PathTruncated]:
        self.begun = True
        self._tokens += len(chunk)
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
            if chunk.tail is not None and self.signals:
                yield PathConfidence(self.number, chunk.tail)

    def _is_end_token_only(self, chunk: Chunk) -> bool:
        """Nothing but an end token without signals is a path without windows, like an empty one."""
        if not self.signals or self._tokens or self.summary is not None or chunk.finish is None:
            return False
        self.summary = Summary(chunk.unread, 0.0, 0.0, mean_peak=0.0, mean_conf=0.0, signals=np.empty((0, 2)))
        return True
