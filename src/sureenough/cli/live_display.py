"""The display of a live run: its paths and their confidence, the votes, and how near the run is to stopping."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sureenough.cli.terminal import printable
from sureenough.core.events import Action, Cancel, Ended, Expired, Fate, Tokens
from sureenough.core.snapshot import Phase, Snapshot
from sureenough.drivers.observers import ObservedEvent, PathText

BARS: Final = "▁▂▃▄▅▆▇█"
BUCKET: Final = 16
"""Tokens per bar of the sparkline at first; neighbours are joined when a line grows too long."""
WIDTH: Final = 32
COLOURS: Final = {Fate.KEPT: "green", Fate.PRUNED: "yellow", Fate.DISCARDED: "dim", Fate.FAILED: "red", None: "white"}


class PathRow:
    """A path's confidence along its tokens, in at most WIDTH bars."""

    __slots__ = ("_count", "_size", "_sum", "means")

    def __init__(self) -> None:
        self.means: list[float] = []
        self._size, self._count, self._sum = BUCKET, 0, 0.0

    def add(self, conf: float) -> None:
        """Add a token."""
        self._sum += conf
        self._count += 1
        if self._count == self._size:
            self.means.append(self._sum / self._count)
            self._count, self._sum = 0, 0.0
            if len(self.means) == WIDTH:
                self.means = [(a + b) / 2 for a, b in zip(self.means[::2], self.means[1::2], strict=True)]
                self._size *= 2

    def bars(self, low: float, high: float) -> str:
        """The bars, scaled from the lowest to the highest mean of all paths."""
        span = (high - low) or 1.0
        return "".join(BARS[min(7, max(0, int(8 * (mean - low) / span)))] for mean in self.means)


class PathTexts:
    """An observer that keeps the text of every path."""

    def __init__(self) -> None:
        self._said: dict[int, list[str]] = {}
        self._snapshot: Snapshot | None = None

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        """An observer."""
        self._snapshot = snapshot
        if isinstance(event, Tokens):
            self._said.setdefault(event.path, []).extend([token.text for token in event.tokens])
        elif isinstance(event, PathText):
            self._said.setdefault(event.path, []).append(event.text)

    def of(self, answer: str | None) -> tuple[int, str] | None:
        """The path that the answer was read from, and its text."""
        if answer is None or self._snapshot is None:
            return None
        number = next((p.number for p in self._snapshot.paths if p.counted and p.answer == answer), None)
        return None if number is None else (number, "".join(self._said.get(number, [])))


class PlainDisplay:
    """An observer for pipes: one line per path, when it ends."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        """An observer."""
        if isinstance(event, Ended):
            path = snapshot.paths[event.path]
            answer = f", answer {event.answer}" if event.answer is not None else ", no answer"
            self._write(f"path {event.path}: {event.fate}, {path.tokens} tokens" + answer * (event.fate is Fate.KEPT))
        for action in actions:
            if isinstance(action, Cancel) and action.fate is Fate.PRUNED:
                path = snapshot.paths[action.path]
                self._write(f"path {action.path}: pruned, {path.tokens} tokens")
        if isinstance(event, Expired):
            self._write(f"stopped: {event.reason}")


class LiveDisplay:
    """An observer for terminals: it redraws a few times per second."""

    def __init__(self, live: Live, budget: int) -> None:
        self._live, self._budget = live, budget
        self._lines: dict[int, PathRow] = {}
        self._drawn = 0.0

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        """An observer."""
        if isinstance(event, Tokens) and snapshot.strategy.reads_confidence:
            line = self._lines.setdefault(event.path, PathRow())
            for token in event.tokens:
                line.add(token.conf)
        now = time.monotonic()
        if now - self._drawn > 0.2 or snapshot.phase is Phase.STOPPED:
            self._drawn = now
            self._live.update(self.draw(snapshot), refresh=True)

    def draw(self, snapshot: Snapshot) -> RenderableType:
        """The whole view."""
        return Group(
            self._paths(snapshot), self._votes(snapshot), Text(stop_status(snapshot)), Text(token_count(snapshot))
        )

    def _paths(self, snapshot: Snapshot) -> Table:
        room = max(4, self._live.console.height - 10)
        running = [path for path in snapshot.paths if path.fate is None]
        ended = [path for path in snapshot.paths if path.fate is not None]
        shown = sorted([*ended[-max(0, room - len(running)) :], *running][-room:], key=lambda path: path.number)
        means = [mean for line in self._lines.values() for mean in line.means]
        low, high = min(means, default=0.0), max(means, default=1.0)
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("path", "tokens", "confidence", "fate", "answer"):
            table.add_column(name, justify="right" if name in ("path", "tokens") else "left", no_wrap=True)
        for path in shown:
            bars = self._lines[path.number].bars(low, high) if path.number in self._lines else ""
            fate = Text("running" if path.fate is None else str(path.fate), style=COLOURS[path.fate])
            table.add_row(str(path.number), f"{path.tokens:,}", bars, fate, Text(printable(path.answer or "")))
        return table

    def _votes(self, snapshot: Snapshot) -> Table:
        votes = snapshot.votes.weights
        total = sum(votes.values()) or 1.0
        table = Table(box=None, pad_edge=False, show_header=False)
        for answer, weight in list(votes.items())[:5]:
            table.add_row(Text(printable(answer)), f"{weight / total:4.0%}", "█" * round(30 * weight / total))
        return table


def stop_status(snapshot: Snapshot) -> str:
    """How near the stop rule is to stopping."""
    measured = snapshot.votes.measure
    stop = snapshot.strategy.stop
    if measured is None:
        return f"{len(snapshot.paths)} of {snapshot.budget} paths"
    quantity = (stop.quantity or "stop rule").replace("_", " ")
    against = "" if stop.threshold is None else f", stops {'above' if stop.stops_above else 'below'} {stop.threshold:g}"
    return f"{len(snapshot.paths)} of {snapshot.budget} paths; {quantity} {measured:.4f}{against}"


def token_count(snapshot: Snapshot) -> str:
    """Tokens so far, and what plain voting would take."""
    made, plain = snapshot.generated, snapshot.full_budget_tokens()
    if plain is None:
        return f"{made:,} tokens"
    return (
        f"{made:,} tokens; plain voting on {snapshot.budget} paths would take about {plain:,.0f}: {saving(made, plain)}"
    )


def saving(made: float, plain: float) -> str:
    """The saving against plain voting, in words."""
    return f"{1 - made / plain:.0%} saved" if 0 < made < plain else "nothing saved"
