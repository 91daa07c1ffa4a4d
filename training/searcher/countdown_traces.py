"""Searches for Countdown, written out: depth first, best first or beam, by one of five heuristics.

A trace knows the numbers and the target only. It begins with its plan, so that a sampled path has first drawn a way to
search:

best by gap, width 3, states 24, within 5     how it searches, and how far from the target an answer may be
1 [3 7 12 25]                                 the first state that it visits
3*25=75! [7 12 75] 5                          a step, the state after it, and its score; ! marks the best so far
back 6 [7 12 28]                              after a dead end, a state from before
stop, best 87                                 out of states; "all done" if there are none left, "found" at the target
3*25=75, 75+12=87                             how it was made, and the same as one expression, checked
check 3*25+12=87, 87-87=0
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from arithmetic import Op, Tree, value, write
from searcher.countdown import MOST, Countdown
from searcher.trace import Trace

METHODS = ("depth", "best", "beam")
HEURISTICS = {"gap": 3, "near": 2, "sum": 2, "factor": 1, "any": 1}
"""How often each is drawn."""
WIDTHS = (3, 4, 5, 6)
"""The steps that are written from one state; a beam keeps twice as many states."""
WITHIN = (0, 2, 5, 10, 99)
"""How far below the target an answer may be; a search that does not come as near ends without one."""
State = tuple[int, ...]


class Step(NamedTuple):
    """One operation on two numbers of a state, and the numbers that are left beside its result."""

    result: int
    left: int
    sign: str
    right: int
    rest: State

    @property
    def state(self) -> State:
        return tuple(sorted((*self.rest, self.result)))

    def __str__(self) -> str:
        return f"{self.left}{self.sign}{self.right}={self.result}"


class Node(NamedTuple):
    """A state that waits, its score, and the steps that led to it."""

    score: float
    number: int  # in the order in which it was written: ties go to the first
    state: State
    steps: tuple[Step, ...]


def steps_of(state: State) -> list[Step]:
    """Every step from a state, whose numbers ascend."""
    steps = []
    for i, a in enumerate(state):
        for j in range(i + 1, len(state)):
            b, rest = state[j], state[:i] + state[i + 1 : j] + state[j + 1 :]
            if a + b <= MOST:
                steps.append(Step(a + b, a, "+", b, rest))
            if b > a:
                steps.append(Step(b - a, b, "-", a, rest))
            if a > 1:
                if a * b <= MOST:
                    steps.append(Step(a * b, a, "*", b, rest))
                if b % a == 0:
                    steps.append(Step(b // a, b, "/", a, rest))
    return steps


def score(heuristic: str, target: int, step: Step) -> int:
    """How far a state seems from the target: 0 is best. The state is a step's result and the rest."""
    result, rest = step.result, step.rest
    if heuristic == "near":
        return min(abs(target - number) for number in (result, *rest))
    if heuristic == "sum":
        return abs(target - result - sum(rest))
    if heuristic == "factor":
        return min((min(target % n, n - target % n) for n in (result, *rest) if n > 1), default=MOST)
    gaps = [abs(target - result)]  # gap: also what one more step with another number would leave
    for number in rest:
        gaps += (abs(target - result - number), abs(abs(result - number) - target), abs(result * number - target))
    return min(gaps)


@dataclass(slots=True)
class Search:
    """One search. `frontier` holds the states that wait, and the method decides which is next."""

    rng: Random
    core: Countdown
    method: str
    heuristic: str
    width: int
    trace: Trace
    frontier: list[Node]
    seen: set[State]
    made_by: tuple[Step, ...] = ()  # the steps to the best number so far

    def run(self) -> None:
        """Visit states until the target is made, or none is left, or there were enough."""
        trace = self.trace
        top = tuple(self.core.numbers)
        self.frontier.append(Node(0, 0, top, ()))
        last: Node | None = None
        while self.frontier and not trace.exhausted and trace.best != self.core.target:
            node = self.next_node()
            returns = self.method == "depth" and last is not None and node.steps[:-1] != last.steps
            trace.visited += 1
            trace.write(f"{'back ' if returns else ''}{trace.visited} [{' '.join(map(str, node.state))}]")
            if last is None:
                self.begin()
            trace.write("\n")
            self.visit(node)
            last = node
        outcome = "found" if trace.best == self.core.target else "all done" if not self.frontier else "stop"
        trace.write(f"{outcome}, best {trace.best}\n")

    def begin(self) -> None:
        """The largest given number that is not above the target is the first best; 0 if all are above."""
        given = max((number for number in self.core.numbers if number <= self.core.target), default=0)
        self.trace.write(f" {given}")
        self.trace.improve(given)

    def next_node(self) -> Node:
        if self.method == "depth":
            return self.frontier.pop()
        if self.method == "best":
            node = min(self.frontier)
            self.frontier.remove(node)
            return node
        depth = len(self.frontier[0].state)
        if all(len(node.state) == depth for node in self.frontier) and len(self.frontier) > 2 * self.width:
            self.frontier = sorted(self.frontier)[: 2 * self.width]
            kept = " ".join(f"[{' '.join(map(str, node.state))}]" for node in self.frontier)
            self.trace.write(f"keep {kept}\n")
        return self.frontier.pop(0)

    def visit(self, node: Node) -> None:
        """Write the most promising steps from a state; those to states that were seen are left out."""
        found, last_pair = [], len(node.state) == 2
        for points, step in self.ranked(node.state):
            state = step.state
            if state in self.seen and not last_pair:
                continue
            self.seen.add(state)
            self.write(step, points, node, last_pair)
            if not last_pair:
                found.append(Node(points, len(self.seen), state, (*node.steps, step)))
            if self.trace.best == self.core.target or len(found) == self.width:
                break
        if last_pair:
            self.trace.write("\n")
        self.frontier += reversed(found) if self.method == "depth" else found

    def ranked(self, state: State) -> list[tuple[float, Step]]:
        """Steps by their scores, with some chance, so that two searches with one plan differ."""
        draw, target = self.rng.random, self.core.target
        if self.heuristic == "any":
            return sorted((draw(), step) for step in steps_of(state))
        scored = [(score(self.heuristic, target, step), step) for step in steps_of(state)]
        scored.sort(key=lambda pair: pair[0] * (0.7 + 0.6 * draw()) + 2 * draw())
        return list(scored)

    def write(self, step: Step, points: float, node: Node, last_pair: bool) -> None:
        trace = self.trace
        trace.write(str(step))
        if trace.best is not None and trace.best < step.result <= self.core.target:
            trace.improve(step.result)
            self.made_by = (*node.steps, step)
        if last_pair:
            trace.write(" ")
            return
        shown = "" if self.heuristic == "any" else f" {points}"
        trace.write(f" [{' '.join(map(str, step.state))}]{shown}\n")


def derivation(steps: tuple[Step, ...]) -> tuple[list[Step], Tree]:
    """The steps that the last result needs, and that result as one expression."""
    wanted, needed = [steps[-1].result], list[Step]()
    for step in reversed(steps):
        if step.result in wanted:
            wanted.remove(step.result)
            wanted += (step.left, step.right)
            needed.insert(0, step)
    trees: list[Tree] = []
    for step in needed:
        left, right = (_take(trees, number) for number in (step.left, step.right))
        trees.append(Op(step.sign, left, right))
    return needed, trees[-1]


def _take(trees: list[Tree], number: int) -> Tree:
    """The expression that made a number, if one did."""
    made = next((tree for tree in reversed(trees) if value(tree) == number), None)
    if made is None:
        return number
    trees.remove(made)
    return made


def solve(rng: Random, core: Countdown) -> Trace:
    """One search, from its plan to its answer."""
    method, width = rng.choice(METHODS), rng.choice(WIDTHS)
    heuristic = rng.choices(tuple(HEURISTICS), tuple(HEURISTICS.values()))[0]
    states = min(int(2 ** rng.uniform(3.0, 6.7)), 3_400 // (14 + 17 * width))
    within = rng.choice(WITHIN)
    trace = Trace(states)
    trace.write(f"{method} by {heuristic}, width {width}, states {states}, within {within}\n")
    search = Search(rng, core, method, heuristic, width, trace, [], set())
    search.run()
    conclude(search, within)
    return trace


def conclude(search: Search, within: int) -> None:
    """Write how the best number was made, check it, and give it as the answer if it is near enough."""
    trace, target = search.trace, search.core.target
    best = trace.best or 0
    if search.made_by:
        needed, tree = derivation(search.made_by)
        trace.write(f"{', '.join(map(str, needed))}\ncheck {write(tree)}={best}, ")
    trace.write(f"{target}-{best}={target - best}\n")
    trace.end(best if best and target - best <= within else None)
