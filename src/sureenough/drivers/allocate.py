"""Many questions, one budget of tokens: carries out an allocation on live engines and on recorded paths."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, NamedTuple

from sureenough.answers import Judge
from sureenough.core.allocation import Allocation
from sureenough.core.events import Ended, Expired, Fate, Reason, Tokens, path_seed
from sureenough.core.outcome import Outcome
from sureenough.core.session import Session
from sureenough.drivers.judging import extract_or_abstain
from sureenough.drivers.live import run
from sureenough.drivers.record import CollectedPath
from sureenough.engines.base import Engine, SharedEngine, opened
from sureenough.engines.recorded import chunks_of
from sureenough.engines.requests import Prompt, TokenStream, as_chunk
from sureenough.pools import Journal, RecordedPath, SummarisedPath

ALLOCATED: Final = "sure:delta=0"
"""The strategy of an allocation by default: no question is settled before the budget is spent."""
JOURNAL_CHUNK: Final = 64
"""Tokens at a time of paths that are read from a journal."""


def replay_allocation(
    recorded: Sequence[Sequence[SummarisedPath]], sessions: Sequence[Session], total: int
) -> list[Outcome]:
    """Run new sessions of one path at a time; the path that would exceed the budget is cut at its last token."""
    allocation = Allocation(sessions, total)
    numbers = [0] * len(sessions)  # of each question's next path
    for number, session in enumerate(sessions):
        session.begin()
        allocation.wait(number)
    while (question := allocation.grant()) is not None:
        session, number = sessions[question], numbers[question]
        path = recorded[question][number]
        if path.tokens > allocation.left:
            session.receive(Tokens(number, unread=allocation.left))
            allocation.grew(question)
            break
        session.receive(Ended(number, Fate.KEPT, path.answer, path.summary))
        allocation.path_ended(question)
        numbers[question] += 1
        if not session.done:
            allocation.wait(question)
    for session in sessions:
        session.receive(Expired("max_tokens"))
    return allocation.corrected([session.outcome() for session in sessions])


class AllocatedQuestion(NamedTuple):
    """A question that shares a budget; its session runs one path at a time."""

    id: str
    prompt: Prompt
    judge: Judge
    session: Session


async def run_allocation(
    questions: Sequence[AllocatedQuestion],
    engine: Engine,
    total: int,
    *,
    parallel: int,
    journal: Journal | None = None,
) -> list[Outcome]:
    """Run new sessions, at most `parallel` paths at once. Cancelling this returns the votes so far.

    When the tokens are spent, running paths are closed; the chunks that are on their way may exceed the budget.
    """
    allocation = Allocation([question.session for question in questions], total)
    turns = _Turns(allocation, parallel, len(questions))
    async with opened(engine, parallel) as ready:
        runs = []
        for number, (_, prompt, judge, session) in enumerate(questions):
            source = ready if journal is None else _JournaledEngine(ready, journal, questions[number])
            own = _TurnEngine(source, turns, number)
            runs.append(asyncio.ensure_future(run(prompt, own, session, judge=judge, until=turns.over)))
            runs[-1].add_done_callback(lambda _, number=number: turns.run_ended(number))  # type: ignore[misc]
        await _all_of(runs, turns)
    error = next((error for one in runs if (error := one.exception()) is not None), None)
    if error is not None:
        raise error
    return allocation.corrected([one.result() for one in runs])


async def _all_of(runs: Sequence[asyncio.Future[Outcome]], turns: _Turns) -> None:
    """Wait for all; the first cancel ends every run with its vote so far, as an error in one of them does."""
    pending = set(runs)
    while pending:
        try:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if any(one.exception() is not None for one in done):
                turns.finish("interrupted")
        except asyncio.CancelledError:
            turns.finish("interrupted")
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()


class _Turns:
    """Which paths may run: every stream waits for its turn."""

    def __init__(self, allocation: Allocation, parallel: int, runs: int) -> None:
        self.over: asyncio.Future[Reason] = asyncio.get_running_loop().create_future()
        self._allocation, self._parallel = allocation, parallel
        self._active = runs  # that have not ended
        self._waiting: dict[int, asyncio.Future[None]] = {}

    async def wait(self, question: int) -> None:
        self._release(question)
        turn = self._waiting[question] = asyncio.get_running_loop().create_future()
        self._allocation.wait(question)
        self._advance()
        try:
            await turn
        finally:
            self._waiting.pop(question, None)

    def grew(self, question: int) -> None:
        self._allocation.grew(question)
        if not self._allocation.left:
            self.finish("max_tokens")

    def run_ended(self, question: int) -> None:
        self._release(question)
        self._active -= 1
        self._advance()

    def _release(self, question: int) -> None:
        """The session has taken in the end of the question's path: another path may have its place."""
        if self._allocation.is_running(question):
            self._allocation.path_ended(question)

    def finish(self, reason: Reason) -> None:
        """End all runs with their votes so far."""
        if not self.over.done():
            self.over.set_result(reason)

    def _advance(self) -> None:
        while not self.over.done() and self._allocation.running < self._parallel:
            question = self._allocation.grant()
            if question is None:
                break
            self._waiting.pop(question).set_result(None)
        if self._waiting and len(self._waiting) == self._active:  # nothing runs, and nothing fits any more
            self.finish("max_tokens")


class _TurnEngine(SharedEngine):
    """An open engine for one question: its paths wait for their turns, and their tokens count for the budget."""

    def __init__(self, engine: Engine, turns: _Turns, question: int) -> None:
        super().__init__(engine)
        self._turns, self._question = turns, question

    async def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        await self._turns.wait(self._question)
        async with aclosing(self._engine.stream(prompt, seed=seed)) as chunks:
            async for chunk in chunks:
                yield chunk
                self._turns.grew(self._question)


class _JournaledEngine(SharedEngine):
    """An open engine for one question that samples no path twice: complete ones are kept in a journal."""

    def __init__(self, engine: Engine, journal: Journal, question: AllocatedQuestion) -> None:
        super().__init__(engine)
        self._journal, self._question = journal, question
        options = question.session.options
        self._numbers = {path_seed(options.seed, number): number for number in range(options.paths or 0)}

    async def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        number = self._numbers[seed]
        if (self._question.id, number) in self._journal.paths:
            for chunk in chunks_of(self._journal.paths[self._question.id, number], JOURNAL_CHUNK):
                yield chunk
            return
        collected = CollectedPath()
        unwatched = replace(prompt, watch=None)  # the journal needs every token's signals
        async with aclosing(self._engine.stream(unwatched, seed=seed)) as stream:
            async for tokens in stream:
                collected.add(as_chunk(tokens))
                yield tokens
        text = collected.text
        answer, _ = await asyncio.to_thread(extract_or_abstain, self._question.judge, text)
        path = RecordedPath(answer, collected.peak, collected.conf, number, collected.finish, text, seed)
        self._journal.add(self._question.id, path)
