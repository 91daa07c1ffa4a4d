"""A run as the page draws it: an observer that keeps the confidence and text of every path.

Nothing is queued: a reader has a cursor and receives what has changed since, so a slow one gets fewer, larger updates.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from math import isfinite, isnan
from typing import Any, Final

from sureenough.core.events import Action, Tokens
from sureenough.core.outcome import token_bill
from sureenough.core.pruning import Gate
from sureenough.core.snapshot import PathSnapshot, Snapshot
from sureenough.drivers.observers import ObservedEvent, PathText

POINTS: Final = 8
"""Points of a line per window."""


class PathLine:
    """One path's text, and its confidence: the mean of the window before every `stride`-th token."""

    __slots__ = ("_window", "conf", "points", "stride", "words")

    def __init__(self, window: int) -> None:
        self._window, self.stride = window, max(1, window // POINTS)
        self.words: list[str] = []
        self.conf = array("f")
        self.points: list[float] = []

    def extend(self, event: Tokens) -> None:
        """Add tokens."""
        for text, _, conf in event.tokens:
            self.words.append(text)
            self.conf.append(conf)
            if len(self.conf) % self.stride == 0:
                self.points.append(self.latest())

    def latest(self) -> float:
        """Mean confidence of the last window, or of all tokens before one is full."""
        window = self.conf[-self._window :]
        value = sum(window) / len(window) if window else 0.0
        return 0.0 if isnan(value) else round(value, 3)


class ViewCursor:
    """How much of a run one reader has received."""

    def __init__(self) -> None:
        self.paths: dict[int, tuple[Any, ...]] = {}
        self.points: dict[int, int] = {}
        self.steps = 0
        self.summary: Any = None


class RunView:
    """An observer for one run."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self.lines: dict[int, PathLine] = {}
        self.steps: list[list[float | None]] = []  # paths counted, tokens so far, the stop rule's measure

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        if isinstance(event, Tokens):
            if event.tokens:
                self._line(event.path).extend(event)
        elif isinstance(event, PathText):
            self._line(event.path).words.append(event.text)
        counted = snapshot.votes.counted
        if counted and (not self.steps or self.steps[-1][0] != counted):
            measured = snapshot.votes.measure
            self.steps.append([counted, self._generated(), None if measured is None or isnan(measured) else measured])

    def _line(self, path: int) -> PathLine:
        if path not in self.lines:
            assert self.snapshot is not None
            self.lines[path] = PathLine(self.snapshot.window)
        return self.lines[path]

    def _generated(self) -> int:
        return self.snapshot.generated if self.snapshot else 0

    def changes(self, cursor: ViewCursor) -> dict[str, Any]:
        """What this reader has not received yet; empty if nothing has changed."""
        snapshot = self.snapshot
        if snapshot is None:
            return {}
        changes: dict[str, Any] = {}
        names = snapshot.votes.candidates
        paths = [change for path in snapshot.paths if (change := self._path(path, names, cursor)) is not None]
        if paths:
            changes["paths"] = paths
        if len(self.steps) > cursor.steps:
            changes["steps"], cursor.steps = self.steps[cursor.steps :], len(self.steps)
        summary = self._summary(snapshot)
        if summary != cursor.summary:
            cursor.summary = summary
            changes["standing"] = summary
        return changes

    def _path(self, path: PathSnapshot, names: Mapping[int, str], cursor: ViewCursor) -> dict[str, Any] | None:
        line = self.lines.get(path.number)
        fate = None if path.fate is None else str(path.fate)
        tier = None if path.tier is None else str(path.tier)
        current = (path.tokens, fate, tier, path.answer, path.counted, names.get(path.number))
        if cursor.paths.get(path.number) == current:
            return None
        cursor.paths[path.number] = current
        change: dict[str, Any] = dict(
            zip(("tokens", "fate", "tier", "answer", "counted", "vote"), current, strict=True)
        )
        change |= {"path": path.number, "warmup": path.warmup}
        if line is not None and line.conf:
            sent = cursor.points.get(path.number, 0)
            change |= {"points": line.points[sent:], "now": line.latest()}
            cursor.points[path.number] = len(line.points)
        return change

    def _summary(self, snapshot: Snapshot) -> dict[str, Any]:
        spent = token_bill(snapshot.paths)
        stop = snapshot.strategy.stop
        return {
            "votes": [[answer, weight] for answer, weight in snapshot.votes.weights.items()],
            "started": len(snapshot.paths),
            "counted": snapshot.votes.counted,
            "budget": snapshot.budget,
            "warmup": snapshot.strategy.warmup,
            "window": snapshot.window,
            "stride": max(1, snapshot.window // POINTS),
            "made": spent.total,
            "pruned_tokens": spent.pruned,
            "plain": snapshot.full_budget_tokens(),
            "bar": stop.threshold,
            "rises": stop.stops_above,
            "why": snapshot.votes.why,
            "gate": _gate(snapshot.gate),
            "reads": snapshot.strategy.reads_confidence,
        }

    def path(self, number: int) -> dict[str, Any] | None:
        """One path's tokens, each with its confidence."""
        line = self.lines.get(number)
        if line is None:
            return None
        conf = [round(value, 2) if isfinite(value) else None for value in line.conf]
        return {"path": number, "words": line.words, "conf": conf if len(conf) == len(line.words) else []}


def _gate(gate: Gate) -> dict[str, float | None]:
    """The thresholds; None for one that never prunes."""
    values = {"trust": gate.trust, "drop": gate.drop, "risk": gate.risk}
    return {name: value if isfinite(value) else None for name, value in values.items()}
