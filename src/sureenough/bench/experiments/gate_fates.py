"""What gates do to right and wrong paths, and where on the path they close."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sureenough.bench.experiments.table_settings import VARIED, settings_note
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.result import Axis, Cell, Figure, ResultColumn, Series, Table
from sureenough.bench.source import Source
from sureenough.bench.summaries import in_order
from sureenough.core.pruning import Tier
from sureenough.pools import Question, RecordedPath, scan_together
from sureenough.spec import resolve

SIDES: Final = ("right", "wrong", "unanswered")
PARTS: Final = 100
"""A path is cut into so many parts of equal length."""
STEP: Final = 5
"""Parts between the points of a figure."""


class PathGroup(NamedTuple):
    """Paths that a gate treated alike."""

    gate: str
    window: int
    side: str  # of SIDES
    tier: Tier | None  # None: it never closed
    part: int = 0  # in which it closed, from 1; 0 if never


class GateCounts(NamedTuple):
    """Sums over paths, repeats and questions."""

    paths: Counter[PathGroup]
    tokens: Counter[tuple[str, int]]  # by gate and window
    saved: Counter[tuple[str, int]]

    def share(self, gate: str, window: int, sides: Sequence[str], tiers: Iterable[Tier] = tuple(Tier)) -> float | None:
        """Of the paths on these sides, how many these tiers prune."""
        closed, every = set(tiers), 0
        pruned = 0
        for group, n in self._of(gate, window, sides):
            every += n
            pruned += n * (group.tier in closed)
        return pruned / every if every else None

    def number(self, gate: str, window: int, sides: Sequence[str]) -> int:
        return sum(n for _, n in self._of(gate, window, sides))

    def running(self, gate: str, window: int, sides: Sequence[str], part: int) -> float | None:
        """The share of paths that still run after so many parts."""
        every = self.number(gate, window, sides)
        closed = sum(n for group, n in self._of(gate, window, sides) if 0 < group.part <= part)
        return 1 - closed / every if every else None

    def median_depth(self, gate: str, window: int, sides: Sequence[str]) -> float | None:
        """The part of the path after which half of those that are pruned have been."""
        parts = sorted((group.part, n) for group, n in self._of(gate, window, sides) if group.part)
        left = sum(n for _, n in parts) / 2
        for part, n in parts:
            left -= n
            if left <= 0:
                return part / PARTS
        return None

    def saving(self, gate: str, window: int) -> float:
        """The share of tokens that are not generated."""
        return self.saved[gate, window] / max(1, self.tokens[gate, window])

    def _of(self, gate: str, window: int, sides: Sequence[str]) -> list[tuple[PathGroup, int]]:
        return [
            (group, n) for group, n in self.paths.items() if group[:2] == (gate, window) and group.side in sides
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadGates:
    """The pipeline's task: calibrate each gate on each order, then show it all later paths."""

    gates: Sequence[str]  # strategies
    windows: Sequence[int]
    repeats: int
    seed: int
    budget: int | None

    def __call__(self, question: Question, judged: JudgedAnswers) -> GateCounts:
        counts = GateCounts(Counter(), Counter(), Counter())
        if judged.right is None:
            return counts
        for window in self.windows:
            scan_together(question.paths, window)
        for repeat in range(self.repeats):
            order = in_order(question, repeat, self.seed, self.budget)
            for window in self.windows:
                for gate in self.gates:
                    self._count(gate, window, order, judged.right, counts)
        return counts

    def _count(
        self, name: str, window: int, order: list[RecordedPath], right: dict[str, bool], counts: GateCounts
    ) -> None:
        strategy = resolve(name)
        gate = strategy.calibrate([path.windows(window) for path in order[: strategy.warmup]])
        for path in order[strategy.warmup :]:
            closed = gate.first_closed(path.windows(window))
            side = "unanswered" if path.answer is None else "right" if right[path.answer] else "wrong"
            counts.tokens[name, window] += path.tokens
            if closed is None:
                counts.paths[PathGroup(name, window, side, None)] += 1
                continue
            part = -(-closed.tokens * PARTS // path.tokens)
            counts.paths[PathGroup(name, window, side, closed.tier, part)] += 1
            counts.saved[name, window] += path.tokens - closed.tokens


def joined_counts(values: Iterable[GateCounts]) -> GateCounts:
    """Of all questions."""
    total = GateCounts(Counter(), Counter(), Counter())
    for value in values:
        total.paths.update(value.paths)
        total.tokens.update(value.tokens)
        total.saved.update(value.saved)
    return total


# -- table and figures


def fates_table(sources: Sequence[Source], counts: Sequence[GateCounts], budget: str, repeats: str) -> Table:
    """One row per gate and window."""
    rows: list[list[Cell]] = []
    for source, count in zip(sources, counts, strict=True):
        for gate, window in count.tokens:
            cells: list[Cell] = [source.dataset, source.model, gate, window]
            for side in SIDES:
                tiers = [count.share(gate, window, [side], [tier]) for tier in Tier]
                cells += [count.number(gate, window, [side]), *tiers, count.median_depth(gate, window, [side])]
            rows.append([*cells, count.saving(gate, window)])
    columns = [ResultColumn(name) for name in ("dataset", "model", "gate of")]
    columns.append(ResultColumn("window", "count", "tokens"))
    for side in SIDES:
        columns += [
            ResultColumn(f"{side} paths", "count"),
            *(ResultColumn(f"{side}: {tier}", "percent", "%") for tier in Tier),
            ResultColumn(f"{side}: pruned after", "percent", "% of the path"),
        ]
    columns.append(ResultColumn("tokens saved", "percent", "%"))
    notes = [
        "every path after the warm-up, in all repeats, as if the run never stopped; drop, risk: the tiers of the gate",
        "pruned after: the median, over pruned paths, of the part of the path that was generated",
        settings_note(window=VARIED, budget=budget, repeats=repeats),
    ]
    return Table("fates", "Right and wrong paths that the gates prune", columns, rows, notes)


def fate_figures(place: int, source: Source, count: GateCounts, window: int) -> list[Figure]:
    """Paths that still run, over relative depth."""
    figures = []
    parts = range(0, PARTS + 1, STEP)
    gates = [gate for gate, size in count.tokens if size == window]
    for number, gate in enumerate(gates, 1):
        series = [
            Series(
                f"{side} ({count.number(gate, window, [side]):,} paths)", [part / PARTS for part in parts],
                [count.running(gate, window, [side], part) for part in parts],
            )
            for side in SIDES
            if count.number(gate, window, [side])
        ]  # fmt: skip
        title = f"{source.dataset}, {source.model}: paths that the gate of {gate} leaves running"
        axes = Axis("part of the path", percent=True), Axis("paths still running, %", percent=True)
        note = f"window {window}; every path after the warm-up, as if the run never stopped"
        figures.append(Figure(f"fates-{place}-{number}", title, "line", *axes, series, [note]))
    return figures
