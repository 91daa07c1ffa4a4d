"""DSC, difficulty-adaptive self-consistency (Wang et al., 2024): how many samples each question of a dataset gets.

The questions come ranked by difficulty. A binary search finds how many of the easiest are settled by one sample each;
the others are sampled until adaptive-consistency is settled, with a first batch as large as their neighbours needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sureenough.core.beta import exceeds_share
from sureenough.core.strategy_options import COUNT, PROBABILITY, HasOptions, option


@dataclass(frozen=True, slots=True)
class DscOptions(HasOptions):
    """The constants of the authors' code."""

    step: int = option(4, "samples that judge whether a question is easy, and of each further batch", COUNT)
    judged: int = option(32, "questions around the middle of the search that must all be easy", COUNT)
    neighbours: int = option(16, "questions before this one whose sizes predict its first batch", COUNT)
    tau: float = option(0.95, "probability at which a vote is settled", PROBABILITY)


class DscQuestion(NamedTuple):
    """What a question gets."""

    samples: int
    batches: int  # requests for samples, one after the other
    easy: bool  # it belongs to the easy part


Votes = Sequence[Hashable | None]
"""The answers of a question's samples in their order, by class; None for a sample without an answer."""


def is_settled(votes: Votes, tau: float) -> bool:
    """Whether the most frequent answer beats the next one with this probability, as `ac` tests it."""
    counts = [count for _, count in Counter(vote for vote in votes if vote is not None).most_common(2)]
    first, second = (*counts, 0, 0)[:2]
    return first > 0 and exceeds_share(first + 1.0, second + 1.0, 0.5) >= tau


def easy_part(count: int, is_easy: Callable[[int], bool], judged: int) -> int:
    """How many of `count` ranked questions are easy: all around the middle of each step of a binary search are."""
    left, right = 0, count
    while left < right:
        middle = (left + right) // 2
        around = range(max(0, middle - judged // 2), min(count, middle + max(1, judged // 2)))
        verdicts = [is_easy(place) for place in around]  # all of them: the window is sampled in one go
        if all(verdicts):
            left = middle + 1
        else:
            right = middle
    return left


def first_batch(sizes: Sequence[int], options: DscOptions) -> int:
    """Samples of a question's first batch: what its neighbours needed on average, in whole steps."""
    latest = sizes[-options.neighbours :]
    if len(latest) < options.neighbours:
        return options.step
    return max(1, round(sum(latest) / len(latest) / options.step)) * options.step


def assign_samples(ranked: Sequence[Votes], options: DscOptions) -> list[DscQuestion]:
    """What each question gets, from the answers that it would give; the easiest question comes first."""
    judged: set[int] = set()

    def is_easy(place: int) -> bool:
        judged.add(place)
        return is_settled(ranked[place][: options.step], options.tau)

    easy = easy_part(len(ranked), is_easy, options.judged)
    assigned = [
        DscQuestion(min(len(votes), options.step if place in judged else 1), 1, easy=True)
        for place, votes in enumerate(ranked[:easy])
    ]
    sizes: list[int] = []  # the fewest samples that would have settled each question
    for place in range(easy, len(ranked)):
        votes = ranked[place]
        samples, batches = (min(options.step, len(votes)), 1) if place in judged else (0, 0)
        while samples < len(votes) and not is_settled(votes[:samples], options.tau):
            wanted = max(first_batch(sizes, options), samples + options.step if samples else 0)
            samples, batches = min(len(votes), wanted), batches + 1
        assigned.append(DscQuestion(samples, batches, easy=False))
        needed = (n for n in range(1, samples + 1) if is_settled(votes[:n], options.tau))
        sizes.append(next(needed, samples))
    return assigned
