"""Recorded questions without their signals: small enough to keep a whole pool, and to send to other processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar
from zlib import crc32

import numpy as np

from sureenough.bench.judging import JudgedAnswers
from sureenough.pools import Question, SummarisedPath, scan_together

P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)


class HasPaths(Protocol[P_co]):
    """A question, with signals or without."""

    @property
    def id(self) -> str: ...
    @property
    def paths(self) -> Sequence[P_co]: ...


class SummarisedQuestion(NamedTuple):
    """What strategies that do not prune read of a question."""

    id: str
    paths: list[SummarisedPath]
    judged: JudgedAnswers


@dataclass(frozen=True, slots=True)
class Summarise:
    """The pipeline's task: a question under one window."""

    window: int

    def __call__(self, question: Question, judged: JudgedAnswers) -> SummarisedQuestion:
        scan_together(question.paths, self.window)
        return SummarisedQuestion(question.id, [path.summarised(self.window) for path in question.paths], judged)


def in_order(question: HasPaths[P], repeat: int, seed: int, budget: int | None) -> list[P]:
    """The paths that a repeat may use, in its order; the same for every strategy."""
    rng = np.random.default_rng((seed, repeat, crc32(question.id.encode())))
    return [question.paths[i] for i in rng.permutation(len(question.paths))[:budget]]
