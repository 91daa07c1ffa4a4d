"""Problems that need a search: the same for ever, and their gold answers right by another method."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from searcher import countdown, grid
from searcher.grid import Grid
from searcher.problems import LEVELS, generate


def exhaustive(numbers: tuple[int, ...]) -> set[int]:
    """Every result, by trying every pair in every state, without sharing anything."""
    results = set(numbers)
    for i, j in combinations(range(len(numbers)), 2):
        a, b = sorted((numbers[i], numbers[j]))
        rest = numbers[:i] + numbers[i + 1 : j] + numbers[j + 1 :]
        made = [a + b, b - a, a * b, b // a if b % a == 0 else 0]
        for result in made:
            if 1 <= result <= countdown.MOST:
                results |= exhaustive((*rest, result))
    return results


def by_relaxation(question: str) -> int:
    """The length of a shortest path, by relaxing all cells until nothing changes."""
    side, walls, start, goal = re.findall(r"A (\d+)x.* walls at (.*?)\. .* from (\S+) to (\S+)\?", question)[0]
    cells = {f"{x}{y}" for x in "abcdefghijkl"[: int(side)] for y in range(1, int(side) + 1)} - set(walls.split())
    steps: dict[str, int] = dict.fromkeys(cells, 999) | {start: 0}
    changed = True
    while changed:
        changed = False
        for a in cells:
            for b in cells:
                near = abs(ord(a[0]) - ord(b[0])) + abs(int(a[1:]) - int(b[1:])) == 1
                if near and steps[a] + 1 < steps[b]:
                    steps[b], changed = steps[a] + 1, True
    return steps[goal]


@pytest.mark.parametrize(
    ("collection", "question", "gold"),
    [
        ("countdown", "From the numbers 5, 6, 8, 10, what is the largest number up to 41 that can be made? "
         "Use each at most once, with + - * /, and only whole numbers from 1 to 999.", "40"),
        ("grid", "A 5x5 grid has walls at a1 b3 c3 c4 d1 d3 d4 e2. What is the smallest number of steps from d5 to c2? "
         "A step goes to a cell above, below, left or right that is not a wall.", "8"),
    ],
)  # fmt: skip
def test_problems_stay_the_same(collection: str, question: str, gold: str) -> None:
    first = generate(collection, 1, 0, 1)[0]
    assert (first.id, first.question, first.gold) == (f"{collection}-1-0-0", question, gold)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_answer_is_the_largest_of_all_results(level: int) -> None:
    for problem in generate("countdown", level, 3, 6):
        given_numbers, _, rest = problem.question.removeprefix("From the numbers ").partition(", what")
        numbers = tuple(map(int, given_numbers.split(", ")))
        limit = int(rest.split("up to ")[1].split()[0])
        results = exhaustive(numbers)
        assert int(problem.gold) == max(result for result in results if result <= limit)
        assert set(countdown.reachable(numbers)) == results


@pytest.mark.parametrize("level", LEVELS)
def test_the_answer_is_the_length_of_a_shortest_path(level: int) -> None:
    for problem in generate("grid", level, 4, 2):
        assert by_relaxation(problem.question) == int(problem.gold)


def test_walls_can_cut_the_goal_off() -> None:
    around = Grid(3, frozenset({(1, 1), (1, 0)}), (0, 0), (2, 0))  # a1 to c1 around b1 and b2
    assert grid.distance(around) == 6
    assert grid.distance(Grid(3, frozenset({(1, 0), (1, 1), (1, 2)}), (0, 0), (2, 0))) is None
