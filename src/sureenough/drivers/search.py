"""How a search is carried out: its branches are continuations, sampled side by side on one engine."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from sureenough.core.events import Adopt, Compute, Computed, Extend, Extended, Sampled, Token
from sureenough.core.search import Continuation
from sureenough.engines.base import End, ExtendOptions, Part, Piece, Report, as_part
from sureenough.errors import MissingLogprobs

if TYPE_CHECKING:
    from sureenough.drivers.live import LiveRun

WHOLE: Final = 7 / 8
"""Share of its sampled tokens that a text must have when it is read: a model may sample more tokens than its tokenizer
makes of the same text."""
TEMPLATE_TOKENS: Final = 4
"""Tokens that a template may write before a reply of which nothing is given, and leaves out before one that is."""


class Branch:
    def __init__(self) -> None:
        self._tokens: list[Token] = []
        self._logprobs: list[float] = []
        self._loose = ""  # text before the first token
        self._unread = 0
        self.begun = False  # the server has sent something
        self.end = End()

    def add(self, part: Part) -> int:
        """Take in what has come; how many tokens it cost."""
        self.begun = True
        if isinstance(part, Piece):
            if len(part.logprobs) != len(part.tokens):
                raise MissingLogprobs(
                    "the engine sends no log-probabilities of the tokens that it samples, by which a search is guided: "
                    "use a server that sends logprobs, or a strategy that does not search"
                )
            for token in part.tokens:
                self._tokens.append(token._replace(text=self._loose + token.text))
                self._loose = ""
            self._logprobs += part.logprobs
            return len(part.tokens)
        if self._tokens:
            self._tokens[-1] = self._tokens[-1]._replace(text=self._tokens[-1].text + part.text)
        else:
            self._loose += part.text
        self._unread += part.unread
        if isinstance(part, Report):
            return part.unread
        self.end = part
        return part.unread + part.beyond

    def continuation(self) -> Continuation:
        sampled, complete = (tuple(self._tokens), tuple(self._logprobs)), self.end.finish == "stop"
        return Continuation(*sampled, complete, self._unread, self.end.stop_text)


class PromptGrowth:
    """Whether a server reads the beginnings that it is sent: its prompts must grow by about as many tokens.

    The prompt with the shortest beginning is what the others are compared with; best is one without any.
    """

    def __init__(self) -> None:
        self._shortest: tuple[int, int] | None = None  # tokens of the beginning, the prompt
        self._most_missing = -inf  # tokens, without what is known of the question

    def add(self, sent: int, read: int, *, seams: int = 0) -> None:
        """A prompt: the tokens of its beginning, and those of all of it by the server's count.

        `seams` are places at which the beginning was put together, where two sampled tokens may have become one.
        """
        self._shortest = min(self._shortest or (sent, read), (sent, read))
        self._most_missing = max(self._most_missing, WHOLE * sent - seams - read)

    @property
    def too_small(self) -> bool:
        """Whether a server read so much less than was sent that it cannot be due to other tokens for the same text."""
        if self._shortest is None:
            return False
        sent, read = self._shortest
        return self._most_missing > WHOLE * sent - read + TEMPLATE_TOKENS

    @property
    def question_known(self) -> bool:
        """Whether a prompt without a beginning was among them."""
        return self._shortest is not None and not self._shortest[0]

    @property
    def question_tokens(self) -> int:
        """Tokens of a prompt without a beginning; if there was none, about so many, and 0 if nothing is known."""
        sent, read = self._shortest or (0, 0)
        return max(0, read - (0 if self.too_small else sent))


class LiveSearch:
    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._places = asyncio.Semaphore(run.session.options.parallel)  # of branches
        self._tasks: dict[int, set[asyncio.Task[None]]] = {}  # by path
        self._texts: dict[int, str] = {}

    def carry_out(self, action: Extend | Adopt | Compute) -> None:
        """Begin a branch or a computation, or keep what was adopted; the answer is read from the whole text."""
        path, begin = action.path, self._run.begin
        if isinstance(action, Extend):
            task = begin(partial(self._extend, action), path, action.seed, f"branch {action.branch}", counted=False)
        elif isinstance(action, Compute):
            task = begin(partial(self._compute, action), path, 0, "computation")
        else:
            text = self._texts[path] = self._texts.get(path, "") + action.growth.text
            if not action.ends:
                return
            task = begin(partial(self._run.end_search, path, text, action.growth.truncated), path, 0, "answer")
        tasks = self._tasks.setdefault(path, set())  # which are cancelled with the path
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def cancel(self, path: int) -> None:
        self._texts.pop(path, None)
        for task in self._tasks.pop(path, ()):
            task.cancel()

    async def _compute(self, action: Compute) -> None:
        result = await asyncio.to_thread(action.computation.result)
        self._run.receive(Computed(action.path, result), action.path)

    def close(self) -> None:
        for path in list(self._tasks):
            self.cancel(path)

    async def _extend(self, action: Extend) -> None:
        """Carry out one branch.

        Raises:
            EngineError: it is lost, and its path with it.
        """
        limits, branch, engine, account = action.limits, Branch(), self._run.engine, self._run.account
        stop = () if limits.stop is None else (limits.stop,)
        longest = limits.max_tokens
        if engine.max_path_tokens is not None:
            longest = min(longest, engine.max_path_tokens - action.tokens)
        if longest < 1:
            self._end(action, Continuation(complete=False))
            return
        reads = self._run.session.strategy.reads_confidence
        options = ExtendOptions(
            max_tokens=longest, stop=stop, temperature=limits.temperature, top_p=1.0, confidence=reads
        )
        async with self._places:
            try:
                extended = engine.extend(self._run.prompt, action.beginning, options, seed=action.seed)
                async with aclosing(extended) as chunks:
                    async for chunk in chunks:
                        try:
                            tokens = branch.add(as_part(chunk))
                        except MissingLogprobs as error:
                            await extended.athrow(error)  # an engine of several servers adds which one it was
                            raise
                        if tokens:
                            self._run.receive(Sampled(action.path, action.branch, tokens), action.path)
            finally:
                account.accepted += branch.begun and not action.beginning
                account.add_end(branch.end, action.beginning, action.tokens)
        account.ended |= not action.beginning
        self._end(action, branch.continuation())

    def _end(self, action: Extend, continuation: Continuation) -> None:
        self._run.receive(Extended(action.path, action.branch, continuation), action.path)
        self._run.unavailable = 0
