"""A run as the page draws it: an observer that keeps every path's line and words, and says what is new to whom.

Nothing is queued: a reader brings a cursor and gets what has changed since, so a slow one only gets fewer, larger news.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import isfinite, isnan
from typing import Any, Final

from sureenough.core.events import Action, Fate, Tokens, Unread
from sureenough.core.path import PathState, token_bill
from sureenough.core.pruning import Gate
from sureenough.core.session import Session
from sureenough.core.votes import Poll
from sureenough.core.weights import Ballot
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
        self.session: Session | None = None
        self.lines: dict[int, PathLine] = {}
        self.steps: list[list[float | None]] = []  # paths counted, tokens made, what the stop rule measured

    def __call__(self, session: Session, news: ObservedEvent, actions: Sequence[Action]) -> None:
        """Take note."""
        self.session = session
        if isinstance(news, Tokens):
            if not isinstance(news.tokens, Unread):
                self._line(news.path).grow(news)
        elif isinstance(news, PathText):
            self._line(news.path).words.append(news.text)
        counted = session.poll.counted
        if counted and (not self.steps or self.steps[-1][0] != counted):
            measured = session.strategy.stop.measure(session.poll)
            self.steps.append([counted, self.made(), None if measured is None or isnan(measured) else measured])

    def _line(self, path: int) -> PathLine:
        if path not in self.lines:
            assert self.session is not None
            self.lines[path] = PathLine(self.session.window)
        return self.lines[path]

    def made(self) -> int:
        """Tokens so far."""
        return sum(path.tokens + path.overrun for path in self.session.paths) if self.session else 0

    def news(self, cursor: ViewCursor) -> dict[str, Any]:
        """What this reader has not seen yet; empty where there is nothing."""
        session = self.session
        if session is None:
            return {}
        found: dict[str, Any] = {}
        names = _names(session.poll)
        paths = [news for path in session.paths if (news := self._path(path, names, cursor)) is not None]
        if paths:
            found["paths"] = paths
        if len(self.steps) > cursor.steps:
            found["steps"], cursor.steps = self.steps[cursor.steps :], len(self.steps)
        standing = self._standing(session)
        if standing != cursor.standing:
            cursor.standing = standing
            found["standing"] = standing
        return found

    def _path(self, path: PathState, names: dict[int, str], cursor: ViewCursor) -> dict[str, Any] | None:
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

    def _standing(self, session: Session) -> dict[str, Any]:
        spent = token_bill(session.paths)
        whole = [path.tokens for path in session.paths if path.fate is Fate.KEPT]
        stop = session.strategy.stop
        rises, bar = hasattr(stop, "tau"), getattr(stop, "tau", getattr(stop, "delta", None))
        return {
            "votes": [[answer, weight] for answer, weight in session.poll.votes().items()],
            "started": len(session.paths),
            "counted": session.poll.counted,
            "budget": session.budget,
            "warmup": session.strategy.warmup,
            "window": session.window,
            "stride": max(1, session.window // POINTS),
            "made": spent.total,
            "pruned_tokens": spent.pruned,
            "plain": session.budget * sum(whole) / len(whole) if whole else None,
            "bar": bar,
            "rises": rises,
            "why": stop.why(session.poll) if session.poll.counted else "",
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


def _names(poll: Poll) -> dict[int, str]:
    """The candidate that each path voted for, by the name that the votes have it under."""
    first: dict[Any, Ballot] = {}
    for ballot in poll.ballots:
        key = poll.outcomes[ballot.path]
        if key not in first or ballot.path < first[key].path:
            first[key] = ballot
    return {ballot.path: first[poll.outcomes[ballot.path]].answer for ballot in poll.ballots}


def _gate(gate: Gate) -> dict[str, float | None]:
    """Thresholds; those that never close are none."""
    values = {"trust": gate.trust, "drop": gate.drop, "risk": gate.risk}
    return {name: value if isfinite(value) else None for name, value in values.items()}
