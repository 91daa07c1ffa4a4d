"""DSC: which questions get one sample, and how many the others get, against a plain reference."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import beta

from sureenough.core.difficulty import (
    DscOptions,
    DscQuestion,
    assign_samples,
    easy_part,
    first_batch,
    is_settled,
)
from sureenough.errors import UsageError

OPTIONS = DscOptions()


def settled(votes: list[str | None]) -> bool:
    """As it is defined: the chance that the first answer's share beats the second's is at least 0.95."""
    counts = sorted(Counter(vote for vote in votes if vote).values(), reverse=True)
    a, b = [*counts, 0, 0][:2]
    return a > 0 and float(beta.sf(0.5, a + 1, b + 1)) >= 0.95


def by_brute_force(ranked: list[list[str | None]], step: int, judged: int, neighbours: int) -> list[DscQuestion]:
    """The method in loops, with every sample drawn one by one."""
    count, drawn, batches = len(ranked), [0] * len(ranked), [0] * len(ranked)
    left, right = 0, count
    while left < right:
        middle = (left + right) // 2
        window = [p for p in range(count) if middle - judged // 2 <= p < middle + max(1, judged // 2)]
        for place in window:
            drawn[place], batches[place] = min(step, len(ranked[place])), 1
        if all(settled(ranked[place][:step]) for place in window):
            left = middle + 1
        else:
            right = middle
    result, sizes = [], list[int]()
    for place, votes in enumerate(ranked):
        if place < left:
            result.append(DscQuestion(drawn[place] or 1, 1, True))
            continue
        first = step
        if len(sizes) >= neighbours:
            first = max(step, round(sum(sizes[-neighbours:]) / neighbours / step) * step)
        while not settled(votes[: drawn[place]]) and drawn[place] < len(votes):
            target = max(first, drawn[place] + step) if drawn[place] else first
            drawn[place], batches[place] = min(target, len(votes)), batches[place] + 1
        needed = [n for n in range(1, drawn[place] + 1) if settled(votes[:n])]
        sizes.append(needed[0] if needed else drawn[place])
        result.append(DscQuestion(drawn[place], batches[place], False))
    return result


@pytest.mark.parametrize("seed", range(40))
def test_samples_equal_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, paths = int(rng.integers(1, 60)), int(rng.integers(1, 41))
    ranked: list[list[str | None]] = []
    for place in range(count):
        doubt = rng.choice([0.0, 0.3]) * place / count + (0.6 if place > 0.7 * count else 0.0)
        answers = rng.choice(["a", "b", "c", ""], p=[1 - doubt, doubt * 0.5, doubt * 0.3, doubt * 0.2], size=paths)
        ranked.append([str(answer) or None for answer in answers])
    step, judged, neighbours = int(rng.integers(1, 6)), int(rng.integers(1, 12)), int(rng.integers(1, 8))
    options = DscOptions(step, judged, neighbours)
    assert assign_samples(ranked, options) == by_brute_force(ranked, step, judged, neighbours)


@pytest.mark.parametrize(
    ("votes", "expected"),
    [("aaaa", True), ("aaa", False), ("aaab", False), ("aaa.", False), ("....", False), ("", False),
     ("aaaaaaab", True), ("aaaaa.b", False), ("aaaaaa.b", True)],
)  # fmt: skip
def test_when_a_vote_is_settled(votes: str, expected: bool) -> None:
    answers = [None if vote == "." else vote for vote in votes]
    assert is_settled(answers, 0.95) == settled(answers) == expected


def test_the_easy_part() -> None:
    for border in range(41):
        found = easy_part(40, lambda place, border=border: place < border, 8)  # type: ignore[misc]
        assert border - 4 <= found <= border, "the window of the middle reaches beyond it"
    assert easy_part(0, lambda place: True, 32) == 0
    assert easy_part(1, lambda place: True, 32) == 1
    assert easy_part(1, lambda place: False, 32) == 0
    assert easy_part(9, lambda place: place < 4, 1) == 4


def test_the_first_batch_is_the_mean_of_the_neighbours_in_whole_steps() -> None:
    assert first_batch([], OPTIONS) == first_batch([40] * 15, OPTIONS) == 4
    assert first_batch([40] * 16, OPTIONS) == 40
    assert first_batch([40] * 99 + [4] * 16, OPTIONS) == 4
    assert first_batch([9] * 16, OPTIONS) == 8
    assert first_batch([1] * 16, OPTIONS) == 4


def test_all_alike() -> None:
    """Questions that all agree get one sample each, except those that were judged."""
    assigned = assign_samples([["a"] * 40] * 200, OPTIONS)
    assert all(one.easy for one in assigned)
    assert Counter(one.samples for one in assigned).keys() == {1, 4}
    nothing = assign_samples([[None] * 12] * 5, OPTIONS)
    assert nothing == [DscQuestion(12, 3, False)] * 5
    assert assign_samples([], OPTIONS) == []
    assert assign_samples([["a"]], OPTIONS) == [DscQuestion(1, 1, False)]


@pytest.mark.parametrize("wrong", [{"step": 0}, {"judged": 0}, {"neighbours": 0}, {"tau": 2.0}])
def test_impossible_options_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="will not do"):
        DscOptions(**wrong)  # type: ignore[arg-type]
