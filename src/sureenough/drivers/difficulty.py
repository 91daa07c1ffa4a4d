"""The difficulty of a dataset's questions by a model: it orders small batches of them, several times over."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

import numpy as np

from sureenough.core.events import path_seed
from sureenough.drivers.difficulty_journal import Reply, ReplyJournal
from sureenough.engines.base import Engine, opened
from sureenough.engines.requests import Prompt, as_chunk
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, SureEnoughError, UsageError

BATCH: Final = 8
"""Questions that are ordered together; of the authors' code, as are the rounds."""
ROUNDS: Final = 5
LONGEST: Final = 4_000
"""Characters of a question that the model sees."""
REQUEST: Final = (
    "Here are {count} problems, each with a label.\n\n{problems}\n\nOrder them by how hard they are to solve, the "
    "easiest first. Do not solve them. Reply with a single line: all labels in this order, separated by commas."
)
LABEL: Final = re.compile(r"\bP([0-9]{1,4})\b")


class DifficultyRanking(NamedTuple):
    """How hard a model takes each question to be, and what that cost."""

    scores: dict[str, float]  # from 0, the easiest, to 1
    tokens: int  # generated
    prompt_tokens: int
    requests: int
    unreadable: int  # replies that are not an order of all problems of their batch


def read_order(text: str, count: int) -> list[int] | None:
    """The order in the last line with labels, as numbers from 0; None if a problem is missing or named twice."""
    last = next((labels for line in reversed(text.splitlines()) if (labels := LABEL.findall(line))), [])
    numbers = [int(label) - 1 for label in last][-count:]
    return numbers if sorted(numbers) == list(range(count)) else None


def batches(count: int, size: int, rounds: int, seed: int) -> Iterator[list[int]]:
    """Every round puts all questions into batches of about the same size, at random."""
    for number in range(rounds):
        order = np.random.default_rng((seed, number)).permutation(count)
        yield from (part.tolist() for part in np.array_split(order, -(-count // size)))


async def rank_difficulty(
    questions: Sequence[tuple[str, str]],
    engine: Engine,
    *,
    batch: int = BATCH,
    rounds: int = ROUNDS,
    seed: int = 0,
    parallel: int = 8,
    journal: ReplyJournal | None = None,
) -> DifficultyRanking:
    """Rank questions, given as pairs of an id and a text. A score is the mean of a question's relative ranks.

    A question of which no reply could be read has the score in the middle, 0.5. With a journal, only batches that it
    does not hold are sent to the engine.

    Raises:
        UsageError: no reply could be read; the journal is removed.
    """
    jobs = [places for places in batches(len(questions), batch, rounds, seed) if len(places) > 1]
    replies = {} if journal is None else journal.replies([len(places) for places in jobs])
    waiting = iter([(number, places) for number, places in enumerate(jobs) if number not in replies])

    async def work(ready: Engine) -> None:
        for number, places in waiting:
            texts = [questions[place][1][:LONGEST] for place in places]
            reply, whole = await _ask(ready, texts, path_seed(seed, number))
            replies[number] = reply
            if journal is not None and whole:
                journal.add(number, reply)

    try:
        async with opened(engine, parallel) as ready, asyncio.TaskGroup() as tasks:
            for _ in range(min(parallel, len(jobs) - len(replies))):
                tasks.create_task(work(ready))
    except* SureEnoughError as group:
        raise group.exceptions[0] from None
    if jobs and all(reply.order is None for reply in replies.values()):
        if journal is not None:  # nothing in it is of use, and it would refuse another model
            journal.remove()
        raise UsageError(
            f"none of the {len(jobs)} replies is an order of the problems: this model cannot rank them; use another "
            "one, or leave the ranking out"
        )
    return _ranking(questions, jobs, [replies[number] for number in range(len(jobs))])


def _ranking(
    questions: Sequence[tuple[str, str]], jobs: Sequence[list[int]], replies: Sequence[Reply]
) -> DifficultyRanking:
    ranks: list[list[float]] = [[] for _ in questions]
    for places, reply in zip(jobs, replies, strict=True):
        for rank, place in enumerate(reply.order or ()):
            ranks[places[place]].append((rank + 0.5) / len(places))
    unreadable = sum(reply.order is None for reply in replies)
    scores = {name: float(np.mean(own)) if own else 0.5 for (name, _), own in zip(questions, ranks, strict=True)}
    return DifficultyRanking(
        scores, sum(one.tokens for one in replies), sum(one.prompt_tokens for one in replies), len(jobs), unreadable
    )


async def _ask(engine: Engine, texts: Sequence[str], seed: int) -> tuple[Reply, bool]:
    """The reply to one batch, and whether it came whole; one that is lost in the middle counts as unreadable."""
    problems = "\n\n".join(f"P{number}: {text}" for number, text in enumerate(texts, 1))
    prompt = Prompt.user(REQUEST.format(count=len(texts), problems=problems), signals=False)
    parts: list[str] = []
    tokens = prompt_tokens = 0
    try:
        async with aclosing(engine.stream(prompt, seed=seed)) as chunks:
            async for some in chunks:
                chunk = as_chunk(some)
                parts.append(chunk.text)
                tokens += len(chunk) + chunk.unread
                prompt_tokens += chunk.prompt_tokens or 0
    except (EngineRejected, EngineUnavailable):
        raise
    except EngineError:
        return Reply(None, tokens, prompt_tokens), False
    return Reply(read_order("".join(parts), len(texts)), tokens, prompt_tokens), True
