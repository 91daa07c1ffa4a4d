"""The training data: problems with written searches, packed into rows by other processes while training runs.

Needs numpy and the standard library only; `python -m searcher.corpus` describes the data and measures the speed.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from queue import Full
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from searcher import countdown, countdown_traces, grid, grid_traces
from searcher.problems import COLLECTIONS, LEVELS, generate
from searcher.trace import Trace
from shape import CLOSE, PAD, prompt_tokens

ROW = 4096
BLOCK = 8
"""Rows that a process makes at a time."""
LEARNED = 1 << 15
"""Added to the tokens that are learned."""
SHARES = (1.0, 1.5, 1.5, 2.0, 2.0)
"""The share of each level's documents."""
GRIDS, INSTRUCTED, CUT = 0.35, 0.1, 0.08
"""The shares of documents about grids, of questions that end with the usual instruction, and of cut searches."""
INSTRUCTION = "\n\nPlease reason step by step, and put your final answer within \\boxed{}."
HELD_OUT_SEEDS, HELD_OUT = (0, 9001, 9002, 9003), 60
"""Problems of these seeds, so many per level, are never trained on."""
Rows = npt.NDArray[np.uint16]


class Document(NamedTuple):
    """Tokens, and which part of them is learned."""

    tokens: list[int]
    learned: slice
    level: int
    trace: Trace


def write_document(rng: Random, held_out: frozenset[str] = frozenset()) -> Document:
    """A problem and a search. Some are cut somewhere, and only the answer at that point is learned."""
    level = rng.choices(LEVELS, SHARES)[0]
    question, trace = _grid(rng, level) if rng.random() < GRIDS else _countdown(rng, level)
    if question in held_out:
        return write_document(rng, held_out)
    prompt = prompt_tokens(question + (INSTRUCTION if rng.random() < INSTRUCTED else ""))
    text, skipped = trace.text, 0
    if rng.random() < CUT and trace.improved:
        begun, answer = trace.cut(rng)
        text, skipped = begun + answer, len(begun) + answer.index("{") + 1
    tokens = [*prompt, *text.encode(), CLOSE]
    return Document(tokens, slice(len(prompt) + skipped, len(tokens)), level, trace)


def _countdown(rng: Random, level: int) -> tuple[str, Trace]:
    core = countdown.draw(rng, level)  # its answer is not looked for: a trace has no use for it
    return countdown.write(core), countdown_traces.solve(rng, core)


def _grid(rng: Random, level: int) -> tuple[str, Trace]:
    task = grid.make(rng, level)
    return task.question, grid_traces.solve(rng, task.core)


def rows(seed: str, count: int, held_out: frozenset[str] = frozenset(), row: int = ROW) -> Rows:
    """Rows of whole documents: each takes the longest of some waiting ones that fits."""
    rng = Random(seed)
    table = np.full((count, row + 1), PAD, np.uint16)
    waiting: list[Document] = []
    for line in table:
        at = 0
        while True:
            while len(waiting) < 24:
                one = write_document(rng, held_out)
                if len(one.tokens) <= row + 1:
                    waiting.append(one)
            fitting = [one for one in waiting if len(one.tokens) <= row + 1 - at]
            if not fitting:
                break
            # the first of a row is any, so that long ones do not pile up at the front of all rows
            chosen = max(fitting, key=lambda one: len(one.tokens)) if at else fitting[0]
            waiting.remove(chosen)
            line[at : at + len(chosen.tokens)] = chosen.tokens
            line[at + chosen.learned.start : at + chosen.learned.stop] |= LEARNED
            at += len(chosen.tokens)
    return table


def _questions(job: tuple[str, int, int]) -> list[str]:
    return [problem.question for problem in generate(*job, HELD_OUT)]


@cache
def held_out_questions(workers: int) -> frozenset[str]:
    """The questions that are kept for measuring."""
    jobs = [(name, level, seed) for level in (5, 4, 3, 2, 1) for name in COLLECTIONS for seed in HELD_OUT_SEEDS]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
        return frozenset(question for questions in pool.map(_questions, jobs) for question in questions)


def _produce(queue: Any, seed: str, block: int, held_out: frozenset[str], row: int) -> None:
    parent = os.getppid()
    while True:
        made = rows(f"{seed} {block}", BLOCK, held_out, row)
        block += 1
        while True:
            try:
                queue.put(made, timeout=5)
                break
            except Full:
                if os.getppid() != parent:  # the training was killed
                    os._exit(1)


class Stream:
    """Blocks of rows from several processes in turn: the same rows in the same order for the same number of them."""

    def __init__(self, seed: int, workers: int, start: int, held_out: frozenset[str], row: int = ROW) -> None:
        context = multiprocessing.get_context("fork")
        self._queues = [context.Queue(6) for _ in range(workers)]
        self._at = start  # blocks that were taken before
        self._processes = []
        for i, queue in enumerate(self._queues):
            block = len(range(i, start, workers))  # how many of these this process made
            arguments = (queue, f"searches {seed} {i}", block, held_out, row)
            self._processes.append(context.Process(target=_produce, args=arguments, daemon=True))
            self._processes[-1].start()

    def take(self, count: int) -> Rows:
        """The next rows; `count` is a multiple of a block."""
        blocks = []
        for _ in range(count // BLOCK):
            index = self._at % len(self._queues)
            if not self._processes[index].is_alive():
                raise RuntimeError("a process that makes data has died")
            blocks.append(self._queues[index].get(timeout=120))
            self._at += 1
        return np.concatenate(blocks)

    @property
    def taken(self) -> int:
        return self._at

    def close(self) -> None:
        for process in self._processes:
            process.kill()


def statistics(seed: int, count: int) -> Iterator[str]:
    """What the documents are like: lengths, and how often they end with an answer."""
    rng = Random(seed)
    documents = [write_document(rng) for _ in range(count)]
    lengths = np.array([len(one.trace.text) for one in documents])
    shares = np.percentile(lengths, (0, 5, 25, 50, 75, 95, 100)).astype(int)
    yield f"{count} searches, tokens per search: mean {lengths.mean():.0f}, percentiles 0 5 25 50 75 95 100: {shares}"
    for family in ("countdown", "grid"):
        for level in LEVELS:
            chosen = [
                one for one in documents if one.level == level and ("by" in one.trace.text[:20]) == (family != "grid")
            ]
            tokens = np.mean([len(one.trace.text) for one in chosen])
            none = np.mean([one.trace.answer is None for one in chosen])
            yield f"{family} {level}: {len(chosen)} searches, {tokens:.0f} tokens, {none:.0%} without an answer"


def votes(seed: int, problems: int, paths: int = 64) -> Iterator[str]:
    """How often one search is right, and the majority of several: what a model that imitates them could reach."""
    yield "| | one search right, % | majority of 64, % | without an answer, % | tokens |\n|---|---|---|---|---|"
    for name, solve in (("countdown", countdown_traces.solve), ("grid", grid_traces.solve)):
        for level in LEVELS:
            rng, rows = Random(f"{seed} {name} {level}"), []
            for _ in range(problems):
                task = COLLECTIONS[name](rng, level)
                traces = [solve(rng, task.core) for _ in range(paths)]
                answers = [str(trace.answer) for trace in traces if trace.answer is not None]
                right = Counter(answers).most_common(1)[:1]
                rows.append((
                    answers.count(task.gold) / paths,
                    bool(right) and right[0][0] == task.gold,
                    1 - len(answers) / paths,
                    np.mean([len(trace.text) for trace in traces]),
                ))  # fmt: skip
            one, majority, none, tokens = np.array(rows, float).mean(axis=0)
            yield f"| {name} {level} | {one:.0%} | {majority:.0%} | {none:.0%} | {tokens:,.0f} |".replace("%", "")


if __name__ == "__main__":
    import sys
    import time

    if sys.argv[1:] == ["votes"]:
        print("\n".join(votes(1, 20)))
        sys.exit()
    started = time.time()
    table = rows("speed", 32)
    used = int((table != PAD).sum())
    print(f"{used / (time.time() - started):,.0f} tokens/s per core, {1 - used / table.size:.1%} of a row is empty")
    print("\n".join(statistics(1, 2000)), f"\n{os.cpu_count()} cores")
