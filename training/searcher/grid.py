"""Shortest paths between walls: "… the smallest number of steps from a1 to f6?". Cells are named as in chess."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Final

from arithmetic import GeneratedProblem

QUESTION: Final = (
    "A {0}x{0} grid has walls at {1}. What is the smallest number of steps from {2} to {3}? "
    "A step goes to a cell above, below, left or right that is not a wall."
)
SIZES: Final = {1: (5, 6), 2: (7, 7), 3: (8, 9), 4: (10, 10), 5: (11, 12)}
"""The smallest and the largest side of a level's grids."""
WALLS: Final = (0.3, 0.4)
"""The smallest and the largest share of walls."""
Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Grid:
    side: int
    walls: frozenset[Cell]
    start: Cell
    goal: Cell

    def neighbours(self, cell: Cell) -> list[Cell]:
        """The cells that one step leads to."""
        x, y = cell
        near = ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1))
        side, walls = self.side, self.walls
        return [(a, b) for a, b in near if 0 <= a < side and 0 <= b < side and (a, b) not in walls]


def make(rng: Random, level: int) -> GeneratedProblem:
    """A grid whose walls force a detour."""
    while True:
        core = draw(rng, level)
        steps = distance(core)
        if steps is not None and steps > apart(core.start, core.goal):
            return GeneratedProblem("grid", write(core), str(steps), core)


def draw(rng: Random, level: int) -> Grid:
    """A grid of a level; the goal may be out of reach."""
    side = rng.randint(*SIZES[level])
    cells = [(x, y) for x in range(side) for y in range(side)]
    chosen = rng.sample(cells, 2 + int(side * side * rng.uniform(*WALLS)))
    while apart(chosen[0], chosen[1]) < side - 1:
        rng.shuffle(chosen)
    return Grid(side, frozenset(chosen[2:]), chosen[0], chosen[1])


def write(core: Grid) -> str:
    walls = " ".join(map(name, sorted(core.walls)))
    return QUESTION.format(core.side, walls, name(core.start), name(core.goal))


def name(cell: Cell) -> str:
    return "abcdefghijkl"[cell[0]] + str(cell[1] + 1)


def apart(a: Cell, b: Cell) -> int:
    """Steps between two cells if there were no walls."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def distance(core: Grid) -> int | None:
    """The fewest steps from start to goal; None if the goal is out of reach."""
    steps, waiting = {core.start: 0}, deque([core.start])
    while waiting:
        cell = waiting.popleft()
        if cell == core.goal:
            return steps[cell]
        for near in core.neighbours(cell):
            if near not in steps:
                steps[near] = steps[cell] + 1
                waiting.append(near)
    return None
