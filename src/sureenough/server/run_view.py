"""A run as the page draws it: an observer that keeps every path's line and words, and says what is new to whom.

Nothing is queued: a reader brings a cursor and gets what has changed since, so a slow one only gets fewer, larger news.
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
"""Points of a line a window."""


class PathLine:
    """One path's words, and its confidence over its tokens: means of the window before every `stride`-th token."""

    __slots__ = ("_window", "conf", "points", "stride", "words")

    def __init__(self, window: int) -> None:
        self._window, self.stride = window, max(1, window // POINTS)
        self.words: list[str] = []
        self.conf = array("f")
        self.points: list[float] = []

    def grow(self, news: Tokens) -> None:
        """Take tokens that can be read."""
        for text, _, conf in news.tokens:
            self.words.append(text)
            self.conf.append(conf)
            if len(self.conf) % self.stride == 0:
                self.points.append(self.latest())

    def latest(self) -> float:
        """Mean confidence of the window that ends here, or of as much as there is."""
        last = self.conf[-self._window :]
        value = sum(last) / len(last) if last else 0.0
        return 0.0 if isnan(value) else round(value, 3)


class ViewCursor:
    """How much of a run one reader has seen."""

    def __init__(self) -> None:
        self.paths: dict[int, tuple[Any, ...]] = {}
        self.points: dict[int, int] = {}
        self.steps = 0
        self.standing: Any = None


class RunView:
    """An observer for one run."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self.lines: dict[int, PathLine] = {}
        self.steps: list[list[float | None]] = []  # paths counted, tokens made, what the stop rule measured

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        """Take note."""
        self.snapshot = snapshot
        if isinstance(event, Tokens):
            if event.tokens:
                self._line(event.path).grow(event)
        elif isinstance(event, PathText):
            self._line(event.path).words.append(event.text)
        counted = snapshot.votes.counted
        if counted and (not self.steps or self.steps[-1][0] != counted):
            measured = snapshot.votes.measure
            self.steps.append([counted, self.made(), None if measured is None or isnan(measured) else measured])

    def _line(self, path: int) -> PathLine:
        if path not in self.lines:
            assert self.snapshot is not None
            self.lines[path] = PathLine(self.snapshot.window)
        return self.lines[path]

    def made(self) -> int:
        """Tokens so far."""
        return self.snapshot.generated if self.snapshot else 0

    def news(self, cursor: ViewCursor) -> dict[str, Any]:
        """What this reader has not seen yet; empty where there is nothing."""
        snapshot = self.snapshot
        if snapshot is None:
            return {}
        found: dict[str, Any] = {}
        names = snapshot.votes.candidates
        paths = [news for path in snapshot.paths if (news := self._path(path, names, cursor)) is not None]
        if paths:
            found["paths"] = paths
        if len(self.steps) > cursor.steps:
            found["steps"], cursor.steps = self.steps[cursor.steps :], len(self.steps)
        standing = self._standing(snapshot)
        if standing != cursor.standing:
            cursor.standing = standing
            found["standing"] = standing
        return found

    def _path(self, path: PathSnapshot, names: Mapping[int, str], cursor: ViewCursor) -> dict[str, Any] | None:
        line = self.lines.get(path.number)
        fate = None if path.fate is None else str(path.fate)
        tier = None if path.tier is None else str(path.tier)
        told = (path.tokens, fate, tier, path.answer, path.counted, names.get(path.number))
        if cursor.paths.get(path.number) == told:
            return None
        cursor.paths[path.number] = told
        news: dict[str, Any] = dict(zip(("tokens", "fate", "tier", "answer", "counted", "vote"), told, strict=True))
        news |= {"path": path.number, "warmup": path.warmup}
        if line is not None and line.conf:
            seen = cursor.points.get(path.number, 0)
            news |= {"points": line.points[seen:], "now": line.latest()}
            cursor.points[path.number] = len(line.points)
        return news

    def _standing(self, session: Snapshot) -> dict[str, Any]:
        spent = token_bill(session.paths)
        stop = session.strategy.stop
        rises, bar = hasattr(stop, "tau"), getattr(stop, "tau", getattr(stop, "delta", None))
        return {
            "votes": [[answer, weight] for answer, weight in session.votes.weights.items()],
            "started": len(session.paths),
            "counted": session.votes.counted,
            "budget": session.budget,
            "warmup": session.strategy.warmup,
            "window": session.window,
            "stride": max(1, session.window // POINTS),
            "made": spent.total,
            "pruned_tokens": spent.pruned,
            "plain": session.full_budget_tokens(),
            "bar": bar,
            "rises": rises,
            "why": session.votes.why,
            "gate": _gate(session.gate),
            "reads": session.strategy.reads_confidence,
        }

    def path(self, number: int) -> dict[str, Any] | None:
        """One path's words, each with its confidence."""
        line = self.lines.get(number)
        if line is None:
            return None
        conf = [round(value, 2) if isfinite(value) else None for value in line.conf]
        return {"path": number, "words": line.words, "conf": conf if len(conf) == len(line.words) else []}


def _gate(gate: Gate) -> dict[str, float | None]:
    """Thresholds; those that never close are none."""
    values = {"trust": gate.trust, "drop": gate.drop, "risk": gate.risk}
    return {name: value if isfinite(value) else None for name, value in values.items()}
