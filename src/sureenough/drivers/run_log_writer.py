"""Writes the log of a live run: an observer that turns snapshots into lines with what has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from sureenough.core.events import Action, Adopt, Extend, Extended, Json, Sampled, Tokens
from sureenough.core.outcome import Outcome
from sureenough.core.snapshot import PathSnapshot, Snapshot
from sureenough.drivers.observers import ObservedEvent, PathConfidence, PathText
from sureenough.drivers.run_log import SCHEMA, LogLine, PathTokens, RunHead, RunView
from sureenough.drivers.search_tree import SearchTree
from sureenough.drivers.token_record import TokenRecord, known_number, stride_of
from sureenough.json_text import encode

INTERVAL: Final = 0.1
"""Seconds between two lines, unless the phase changes."""

LineReader = Callable[[LogLine, RunView], None]
"""Receives every line when it is written, and the view after it."""


class RunLogWriter:
    """An observer for one run. Its lines stay in memory, encoded: every reader, however late, gets the same ones."""

    def __init__(self, head: RunHead, *readers: LineReader, interval: float = INTERVAL) -> None:
        self.view = RunView()
        self.lines: list[bytes] = []
        self._readers, self._interval = readers, interval
        self._began = self._written_at = time.perf_counter()
        self._tokens: dict[int, TokenRecord] = {}
        self._trees: dict[int, SearchTree] = {}
        self._steps: list[tuple[int, int, float | None]] = []  # for the next line
        self._last = 0  # paths counted at the last step
        self._snapshot: Snapshot | None = None  # None: nothing is new
        self._write({"schema": SCHEMA, "run": head})

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        if isinstance(event, Tokens) and event.tokens:
            self._record(event.path, snapshot).extend(event.tokens)
        elif isinstance(event, PathText):
            self._record(event.path, snapshot).texts.append(event.text)
        elif isinstance(event, PathConfidence):
            self._record(event.path, snapshot).draw_to(snapshot.paths[event.path].tokens, event.confidence)
        for action in actions:
            if isinstance(action, Adopt):
                self._record(action.path, snapshot).adopt(action.growth)
        if snapshot.strategy.search is not None:
            self._grow_trees(event, actions)
        counted = snapshot.votes.counted
        if counted != self._last:
            self._last = counted
            self._steps.append((counted, snapshot.generated, known_number(snapshot.votes.measure)))
        if snapshot.phase.value != self.view.summary.get("phase"):
            self._write_changes()
        else:
            self.update()

    def _grow_trees(self, event: ObservedEvent, actions: Sequence[Action]) -> None:
        numbers = {action.path for action in actions if isinstance(action, Extend | Adopt)}
        if isinstance(event, Sampled | Extended):
            numbers.add(event.path)
        for number in numbers:
            own = [action for action in actions if isinstance(action, Extend | Adopt) and action.path == number]
            of_path = event if isinstance(event, Sampled | Extended) and event.path == number else None
            self._trees.setdefault(number, SearchTree()).receive(of_path, own)

    def update(self) -> None:
        """Write what has changed, unless the last line is too recent."""
        if time.perf_counter() - self._written_at >= self._interval:
            self._write_changes()

    def end(self, outcome: Outcome | None, error: Json | None = None) -> None:
        """Write the last line: the result, or the error that ended the run."""
        self._write_changes()
        line: Any = {"at": self._now()} | ({"error": error} if outcome is None else {"result": outcome.to_json()})
        self._write(line)

    def text(self, path: int) -> PathTokens | None:
        """The text of one path so far; None if it has none."""
        record = self._tokens.get(path)
        return None if record is None else record.to_json(path)

    def with_texts(self) -> Iterator[bytes]:
        """The whole log of a run that has ended: its lines, and the texts of its paths before the last one."""
        yield from self.lines[:-1]
        yield from (encode({"text": self.text(path)}) for path in sorted(self._tokens))
        yield self.lines[-1]

    def _record(self, path: int, snapshot: Snapshot) -> TokenRecord:
        if path not in self._tokens:
            self._tokens[path] = TokenRecord(snapshot.window if snapshot.strategy.reads_confidence else 0)
        return self._tokens[path]

    def _now(self) -> float:
        return round(time.perf_counter() - self._began, 6)

    def _write(self, line: LogLine) -> None:
        self.view.apply(line)
        self.lines.append(encode(line))
        for reader in self._readers:
            reader(line, self.view)

    def _write_changes(self) -> None:
        snapshot, self._snapshot, self._written_at = self._snapshot, None, time.perf_counter()
        if snapshot is None:
            return
        names = _candidate_paths(snapshot)
        voted = {path: names[answer] for path, answer in snapshot.votes.candidates.items()}
        paths = [self._changes(path, voted.get(path.number), snapshot) for path in snapshot.paths]
        parts = {
            "paths": [change for change in paths if len(change) > 1],
            "steps": self._steps,
            "summary": _changed(self.view.summary, _summary(snapshot, names)),
        }
        self._steps = []
        line: Any = {"at": self._now()} | {name: part for name, part in parts.items() if part}
        if len(line) > 1:
            self._write(line)

    def _changes(self, path: PathSnapshot, vote: int | None, snapshot: Snapshot) -> Json:
        current = {
            "warmup": path.warmup, "tokens": path.tokens, "fate": path.fate and str(path.fate),
            "tier": path.tier and str(path.tier), "answer": path.answer, "counted": path.counted, "vote": vote,
        }  # fmt: skip
        if path.ended_uncounted:
            current["ended_uncounted"] = True
        change: Json = {"path": path.number} | _changed(self.view.paths.get(path.number, {}), current)
        record = self._tokens.get(path.number)
        if record is not None and record.window not in (0, snapshot.window):
            record.redraw(snapshot.window)
            change["redrawn"] = True
        if record is not None and record.points:
            change["points"], record.points = record.points, []
        if record is not None and "tokens" in change and (record.conf or record.drawn):
            change["confidence"] = record.mean() if record.conf else record.drawn[-1]
        if path.number in self._trees and (branches := self._trees[path.number].changes()):
            change["branches"] = branches
        return change


def _changed(old: Mapping[str, Any], new: Json) -> Json:
    return {name: value for name, value in new.items() if name not in old or old[name] != value}


def _candidate_paths(snapshot: Snapshot) -> dict[str, int]:
    """The lowest-numbered path of every candidate, by the answer that names it."""
    names: dict[str, int] = {}
    for number, answer in sorted(snapshot.votes.candidates.items()):
        if snapshot.paths[number].answer == answer:
            names.setdefault(answer, number)
    return names


def _summary(snapshot: Snapshot, names: Mapping[str, int]) -> Json:
    strategy, votes, gate = snapshot.strategy, snapshot.votes, snapshot.gate
    stop = strategy.stop
    thresholds = {"trust": gate.trust, "drop": gate.drop, "risk": gate.risk}
    return {
        "phase": snapshot.phase.value,
        "budget": snapshot.budget,
        "warmup": strategy.warmup,
        "window": snapshot.window,
        "stride": stride_of(snapshot.window),
        "reads_confidence": strategy.reads_confidence,
        "stop": {"quantity": stop.quantity, "threshold": stop.threshold, "stops_above": stop.stops_above},
        "started": len(snapshot.paths),
        "counted": votes.counted,
        "votes": [(names[answer], known_number(weight)) for answer, weight in votes.weights.items()],
        "measure": known_number(votes.measure),
        "posterior": votes.posterior,
        "why": votes.why,
        "tokens": snapshot.generated,
        "full_budget_tokens": snapshot.full_budget_tokens(),
        "gate": {name: value if isfinite(value) else None for name, value in thresholds.items()},
    }
