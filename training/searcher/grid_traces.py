"""Searches for the shortest path through a grid, written out: breadth first, depth first, greedy, or A*.

greedy all, states 40        the plan; "first" ends at the first path
1 a1 0: a2 1 9, b1 1 9       the first cell, at 0 steps, and the new cells beside it with their steps and score
7 c4 5: dead                 a cell that leads nowhere; depth first then goes "back"
9 f5 11: f6 12!              the goal, after 12 steps: the best so far
path a1 0 a2 1 …             the way, counted again

Breadth first and A* end with a shortest path unless they run out of states. Depth first and greedy come upon any path;
unless the plan says "first", they go on, and look at cells only that could be on a shorter one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from searcher.grid import Cell, Grid, apart, name
from searcher.trace import Trace

METHODS = {"breadth": 1, "depth": 3, "greedy": 2, "star": 1}
"""How often each is drawn."""


class Visit(NamedTuple):
    """A cell that waits: by score, then the newest first."""

    score: int
    age: int
    cell: Cell


@dataclass(slots=True)
class GridSearch:
    rng: Random
    core: Grid
    method: str
    first: bool  # end at the first path
    trace: Trace
    frontier: list[Visit] = field(default_factory=list)
    steps: dict[Cell, int] = field(default_factory=dict)
    parent: dict[Cell, Cell] = field(default_factory=dict)

    def run(self) -> None:
        """Visit cells until a shortest path is known, or none is left, or there were enough."""
        trace, last = self.trace, None
        self.steps[self.core.start] = 0
        self.frontier.append(Visit(0, 0, self.core.start))
        while self.frontier and not trace.exhausted and not (self.first and trace.best is not None):
            cell = self.next_cell()
            if trace.best is not None and self.steps[cell] + apart(cell, self.core.goal) >= trace.best:
                if self.method in ("breadth", "star"):
                    break
                continue
            trace.visited += 1
            returns = self.method == "depth" and last is not None and self.parent.get(cell) != last
            trace.write(f"{'back ' if returns else ''}{trace.visited} {name(cell)} {self.steps[cell]}:")
            self.visit(cell)
            last = cell

    def next_cell(self) -> Cell:
        if self.method == "depth":
            return self.frontier.pop().cell
        if self.method == "breadth":
            return self.frontier.pop(0).cell
        visit = min(self.frontier)
        self.frontier.remove(visit)
        return visit.cell

    def visit(self, cell: Cell) -> None:
        """Write the cells beside this one that are new, or nearer than they were."""
        trace, goal, count = self.trace, self.core.goal, self.steps[cell] + 1
        near = [one for one in self.core.neighbours(cell) if count < self.steps.get(one, 10_000)]
        self.rng.shuffle(near)
        if self.method == "depth" and self.rng.random() < 0.8:
            near.sort(key=lambda one: -apart(one, goal))  # the nearest is taken first, and so written last
        for i, one in enumerate(near):
            self.steps[one], self.parent[one] = count, cell
            trace.write(f"{',' if i else ''} {name(one)} {count}")
            if one == goal:
                trace.improve(count)
                continue
            ahead = apart(one, goal)
            value = {"greedy": ahead, "star": count + ahead}.get(self.method, 0)
            if value:
                trace.write(f" {value}")
            self.frontier.append(Visit(value, -len(self.steps), one))
        trace.write("\n" if near else " dead\n")

    def conclude(self) -> None:
        """Write the way that was found and count its steps again."""
        trace, cell = self.trace, self.core.goal
        if trace.best is None:
            trace.write("no path\n")
            trace.end(None)
            return
        way = [cell]
        while cell != self.core.start:
            cell = self.parent[cell]
            way.append(cell)
        counted = " ".join(f"{name(one)} {i}" for i, one in enumerate(reversed(way)))
        trace.write(f"path {counted}\n")
        trace.end(len(way) - 1)


def solve(rng: Random, core: Grid) -> Trace:
    """One search, from its plan to its answer."""
    method = rng.choices(tuple(METHODS), tuple(METHODS.values()))[0]
    states, first = int(core.side**2 * rng.uniform(0.3, 0.9)), rng.random() < 0.5
    trace = Trace(states)
    trace.write(f"{method} {'first' if first else 'all'}, states {states}\n")
    search = GridSearch(rng, core, method, first, trace)
    search.run()
    search.conclude()
    return trace
