"""Shortest paths: answers right by another method, and paths checked."""

from __future__ import annotations

import re

import pytest

from sureenough.datasets.load import load
from sureenough.problems import LEVELS, generate, grid
from sureenough.problems.grid import Grid, check

QUESTION = (
    "A 5x5 grid has walls at a1 b3 c3 c4 d1 d3 d4 e2. "
    "What is the smallest number of steps from d5 to c2? "
    "A step goes to a cell above, below, left or right that is not a wall."
)
OPEN = Grid(3, frozenset({(1, 1), (1, 0)}), (0, 0), (2, 0))  # a1 to c1 around b1 and b2


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


@pytest.mark.parametrize("level", LEVELS)
def test_the_answer_is_the_length_of_a_shortest_path(level: int) -> None:
    for problem in generate(level, 4, 2, "grid"):
        assert by_relaxation(problem.question) == int(problem.gold)


def test_problems_stay_the_same() -> None:
    first = generate(1, 0, 1, "grid")[0]
    assert first.id == "grid-1-0-0"
    assert (first.question, first.gold) == (QUESTION, "8")


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a1 a2 a3 b3 c3 c2 c1", 6),
        ("a1 b1 c1", None),  # through a wall
        ("a1 a2 a3 b3 c3 c2", None),  # not at the goal
        ("a2 a3 b3 c3 c2 c1", None),  # not from the start
        ("a1 a3 b3 c3 c2 c1", None),  # a jump
        ("a1 a0 z9 c1", None),
        ("", None),
    ],
)
def test_paths_are_checked(path: str, steps: int | None) -> None:
    assert check(path.split(), OPEN) == steps


def test_walls_can_cut_the_goal_off() -> None:
    assert grid.distance(OPEN) == 6
    assert grid.distance(Grid(3, frozenset({(1, 0), (1, 1), (1, 2)}), (0, 0), (2, 0))) is None


def test_every_level_can_be_asked_as_a_dataset() -> None:
    assert [problem.level for problem in load("grid", limit=5).problems] == [*LEVELS]
