"""The run log: what a live run shows to people, in lines of JSON that add up to a view of it.

The terminal, the page, kept runs and live benchmarks read this one format; docs/serving.md#the-run-log describes it.
Below are the lines and their view, the observer that writes them, and files of them.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from math import isfinite, isnan
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal, Required, TypedDict

import msgspec
from msgspec import Meta

from sureenough.core.events import Action, Adopt, Extend, Extended, Json, Sampled, Token, Tokens
from sureenough.core.outcome import Outcome, PathSnapshot, Snapshot
from sureenough.core.search import Growth
from sureenough.drivers.observers import ObservedEvent, PathReport
from sureenough.errors import TraceError
from sureenough.json_text import encode
from sureenough.pools.durable import write_file

SCHEMA: Final = 2
INTERVAL: Final = 0.1
"""Seconds between two lines, unless the phase changes."""
MOST_CONFIDENCE: Final = 1e6
"""A server that reports more is not believed: a chart could not show it."""
POINTS: Final = 8
"""Points of a path's confidence per window."""
MOST_BRANCHES: Final = 2048
"""Branches of a path that are shown; a search with more is shown up to there."""
SHOWN: Final = 160
"""Characters of a branch that are shown."""
LINE_BYTES: Final = 1 << 24
"""The longest line that is read."""
INCOMPLETE: Final = "The log ends before the run does."

PathNumber = Annotated[int, Meta(ge=0, lt=1 << 20)]
BranchNumber = Annotated[int, Meta(ge=0, lt=1 << 16)]


class RunHead(TypedDict, total=False):
    id: str
    question: str
    model: str
    strategy: str
    begun: float  # seconds since 1970
    notes: list[str]  # what is known before its first path


class BranchChange(TypedDict, total=False):
    branch: Required[BranchNumber]
    parent: BranchNumber | None  # the branch that it continues; None: it begins the path
    round: BranchNumber  # branches of a round are sampled side by side
    tokens: int
    text: str  # its beginning
    used: bool  # the path was made from it


class PathChange(TypedDict, total=False):
    """The fields of a path that have changed; `points` and new `branches` are added to the earlier ones."""

    path: Required[PathNumber]
    warmup: bool
    tokens: int
    fate: Literal["kept", "pruned", "discarded", "failed"] | None  # None while it runs
    tier: str | None
    answer: str | None
    counted: bool
    ended_uncounted: bool  # missing unless true: it ended, but was not counted before the run was over
    vote: PathNumber | None  # the lowest-numbered path with the same answer
    points: list[float]  # mean confidence of the window before every `stride`-th token
    redrawn: bool  # the window was chosen now: these points replace the earlier ones
    confidence: float  # mean confidence of the last window
    branches: list[BranchChange]


class StopTest(TypedDict):
    """What the stop rule measures, and when it stops."""

    quantity: str | None
    threshold: float | None
    stops_above: bool


class RunSummary(TypedDict, total=False):
    phase: str
    budget: int
    warmup: int
    window: int
    stride: int
    reads_confidence: bool
    stop: StopTest
    started: int
    counted: int
    votes: list[tuple[PathNumber, float | None]]  # answers by their lowest-numbered path, and weights, heaviest first
    measure: float | None
    posterior: float | None  # with every path one vote
    why: str
    tokens: int
    full_budget_tokens: float | None
    gate: dict[str, float | None]  # None: never prunes


class PathTokens(TypedDict):
    path: PathNumber
    texts: list[str]
    confidence: list[float | None]  # empty if it is not known for every piece of text


class LoggedResult(TypedDict, total=False):
    """What readers use of an outcome; the log has all of `Outcome.to_json()`."""

    answer: str | None
    reason: str
    why: str
    started: int
    tokens: dict[str, int | bool]
    notes: list[str]
    classes: list[list[str]]  # answers that were counted as one


class LogLine(TypedDict, total=False):
    """One line: the head has `schema` and `run`, the last one `result` or `error`."""

    schema: int
    run: RunHead
    at: float  # seconds since the log began
    paths: list[PathChange]
    steps: list[tuple[int, int, float | None]]  # paths counted, tokens so far, the stop rule's measure
    summary: RunSummary
    text: PathTokens
    result: LoggedResult
    error: dict[str, Any]


class RunView:
    """A run as its log tells it: the state after the lines so far."""

    def __init__(self) -> None:
        self.run: RunHead = {}
        self.paths: dict[int, PathChange] = {}
        self.steps: list[tuple[int, int, float | None]] = []
        self.summary: RunSummary = {}
        self.phases: dict[str, float] = {}  # when each phase began
        self.result: LoggedResult | None = None
        self.error: dict[str, Any] | None = None

    def apply(self, line: LogLine) -> None:
        self.run = line.get("run", self.run)
        for change in line.get("paths", ()):
            path = self.paths.setdefault(change["path"], new_path(change["path"]))
            points = [] if change.get("redrawn") else path["points"]
            points += change.get("points", ())
            branches = path.get("branches", [])
            path.update(change)
            path["points"] = points
            if "branches" in change:
                path["branches"] = _with_changes(branches, change["branches"])
            path.pop("redrawn", None)
        self.steps += line.get("steps", ())
        self.summary.update(line.get("summary", {}))
        if "phase" in self.summary:
            self.phases.setdefault(self.summary["phase"], line.get("at", 0.0))
        self.result, self.error = line.get("result", self.result), line.get("error", self.error)

    def answer(self, path: int) -> str:
        return self.paths.get(path, new_path(path))["answer"] or ""

    def seconds(self) -> tuple[float, float]:
        """Seconds of the warm-up and of the rest, once the run has stopped."""
        stopped = self.phases["stopped"]
        sampling = self.phases.get("sampling", stopped)
        return round(sampling - self.phases.get("warm-up", sampling), 6), round(stopped - sampling, 6)


def _with_changes(branches: list[BranchChange], changes: list[BranchChange]) -> list[BranchChange]:
    by_number = {branch["branch"]: branch for branch in branches}
    for change in changes:
        by_number.setdefault(change["branch"], {"branch": change["branch"]}).update(change)
    return list(by_number.values())


def new_path(number: int) -> PathChange:
    return {"path": number, "warmup": False, "tokens": 0, "fate": None, "tier": None, "answer": None,
            "counted": False, "vote": None, "points": []}  # fmt: skip


LineReader = Callable[[LogLine, RunView], None]
"""Receives every line when it is written, and the view after it."""


class RunLogWriter:
    """An observer for one run. Its lines stay in memory, encoded: every reader, however late, gets the same ones."""

    def __init__(self, head: RunHead, *readers: LineReader, interval: float = INTERVAL) -> None:
        self.view = RunView()
        self.lines: list[bytes] = []
        self._readers, self._interval = readers, interval
        self._began = self._written_at = time.perf_counter()
        self._paths: dict[int, PathLog] = {}
        self._steps: list[tuple[int, int, float | None]] = []  # for the next line
        self._last = 0  # paths counted at the last step
        self._snapshot: Snapshot | None = None  # None: nothing is new
        self._write({"schema": SCHEMA, "run": head})

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        if isinstance(event, Tokens | PathReport | Sampled | Extended):
            self._path(event.path, snapshot).receive(event, snapshot)
        searching = [action for action in actions if isinstance(action, Extend | Adopt)]
        for number, own in groupby(searching, key=attrgetter("path")):
            self._path(number, snapshot).grow(list(own))
        counted = snapshot.votes.counted
        if counted != self._last:
            self._last = counted
            self._steps.append((counted, snapshot.generated, known_number(snapshot.votes.verdict.measure)))
        if snapshot.phase.value != self.view.summary.get("phase"):
            self._write_changes()
        else:
            self.update()

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
        log = self._paths.get(path)
        return log.to_json(path) if log is not None and log.texts else None

    def with_texts(self) -> Iterator[bytes]:
        """The whole log of a run that has ended: its lines, and the texts of its paths before the last one."""
        yield from self.lines[:-1]
        yield from (encode({"text": text}) for path in sorted(self._paths) if (text := self.text(path)))
        yield self.lines[-1]

    def _path(self, number: int, snapshot: Snapshot) -> PathLog:
        if number not in self._paths:
            self._paths[number] = PathLog(snapshot.window if snapshot.strategy.reads_confidence else 0)
        return self._paths[number]

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
        names = "warmup", "tokens", "fate", "tier", "answer", "counted", *(["ended_uncounted"] * path.ended_uncounted)
        current = {name: getattr(path, name) for name in names} | {"vote": vote}
        change: Json = {"path": path.number} | _changed(self.view.paths.get(path.number, {}), current)
        if path.number in self._paths:
            change |= self._paths[path.number].changes(snapshot.window, grown="tokens" in change)
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
        "measure": known_number(votes.verdict.measure),
        "posterior": votes.verdict.posterior,
        "why": votes.verdict.why,
        "tokens": snapshot.generated,
        "full_budget_tokens": snapshot.full_budget_tokens(),
        "gate": {name: value if isfinite(value) else None for name, value in thresholds.items()},
    }


class PathLog:
    """One path: the texts of its tokens, their confidence, its points, and the tree of its search."""

    __slots__ = ("conf", "points", "texts", "tree", "window", "written")

    def __init__(self, window: int) -> None:
        self.window = window  # 0: confidence is not used
        self.texts: list[str] = []
        self.conf = array("f")
        self.points: list[float] = []
        self.written = 0  # of the points
        self.tree = SearchTree()

    def receive(self, event: Tokens | PathReport | Sampled | Extended, snapshot: Snapshot) -> None:
        match event:
            case Tokens(_, tokens):
                self.extend(tokens)
            case PathReport(number, text, confidence):
                self.texts += [text] if text else []
                if confidence is not None:
                    self.draw_to(snapshot.paths[number].tokens, confidence)
            case _:
                self.tree.receive(event)

    def grow(self, actions: Sequence[Extend | Adopt]) -> None:
        for action in actions:
            if isinstance(action, Adopt):
                self.adopt(action.growth)
        self.tree.grow(actions)

    def changes(self, window: int, *, grown: bool) -> Json:
        change: Json = {}
        if self.window not in (0, window):
            self.redraw(window)
            change["redrawn"] = True
        if len(self.points) > self.written:
            change["points"], self.written = self.points[self.written :], len(self.points)
        if grown and (self.conf or self.points):
            change["confidence"] = self.mean() if self.conf else self.points[-1]
        if branches := self.tree.changes():
            change["branches"] = branches
        return change

    def draw_to(self, tokens: int, confidence: float) -> None:
        """Points up to this token, on a line from the last one: single tokens of the path are not known."""
        if not self.window or self.conf or not abs(confidence) < MOST_CONFIDENCE:
            return
        missing = tokens // stride_of(self.window) - len(self.points)
        before = self.points[-1] if self.points else confidence
        self.points += [round(before + (confidence - before) * step / missing, 3) for step in range(1, missing + 1)]

    def extend(self, tokens: Sequence[Token]) -> None:
        self.texts += [token.text for token in tokens]
        if self.window:
            stride = stride_of(self.window)
            for token in tokens:
                self.conf.append(token.conf)
                if len(self.conf) % stride == 0:
                    self.points.append(self.mean())

    def adopt(self, growth: Growth) -> None:
        """Take what a search adds to its path; text without tokens, such as a blank line, joins the piece before it."""
        self.extend(growth.tokens)
        if growth.text and not growth.tokens:
            self.texts[-1:] = ["".join([*self.texts[-1:], growth.text])]

    def redraw(self, window: int) -> None:
        self.window, self.written = window, 0
        stride = stride_of(window)
        self.points = [self.mean(end) for end in range(stride, len(self.conf) + 1, stride)]

    def mean(self, end: int | None = None) -> float:
        """Mean confidence of the window before `end`, the last one by default, or of all tokens before one is full."""
        end = len(self.conf) if end is None else end
        window = self.conf[max(0, end - self.window) : end]
        return round(known_number(sum(window) / len(window)) or 0.0, 3)

    def to_json(self, path: int) -> PathTokens:
        aligned = len(self.conf) == len(self.texts)
        conf = [round(value, 2) if isfinite(value) else None for value in self.conf] if aligned else []
        return {"path": path, "texts": self.texts, "confidence": conf}


def stride_of(window: int) -> int:
    """Tokens between two points."""
    return max(1, window // POINTS)


def known_number(value: float | None) -> float | None:
    return None if value is None or isnan(value) else value


@dataclass(slots=True)
class _Branch:
    beginning: str
    parent: int | None
    round: int
    text: str = ""
    end: str = ""  # the line feeds at which a step may have been cut
    tokens: int = 0
    used: bool = False  # the path was made from it
    reported: Json = field(default_factory=dict)

    def reaches(self, text: str) -> bool:
        """Whether this text ends within it, or within the end of its line."""
        place = len(self.beginning)
        return len(text) > place and text.startswith(self.beginning) and (self.text + self.end).startswith(text[place:])


class SearchTree:
    def __init__(self) -> None:
        self._branches: list[_Branch] = []
        self._rounds = 0
        self._adopted = ""
        self._changed: set[int] = set()

    def receive(self, event: Sampled | Extended) -> None:
        if event.branch >= len(self._branches):
            return
        branch = self._branches[event.branch]
        if isinstance(event, Sampled):
            branch.tokens += event.tokens
        else:
            branch.text, branch.end = event.continuation.text, event.continuation.line_end
        self._changed.add(event.branch)

    def grow(self, actions: Sequence[Extend | Adopt]) -> None:
        for action in actions:
            if isinstance(action, Adopt):
                self._adopted += action.growth.text
                self._use(self._source(self._adopted))
        self._begin([action for action in actions if isinstance(action, Extend)])

    def _begin(self, extends: Sequence[Extend]) -> None:
        parents: dict[str, int | None] = {}
        for extend in extends[: MOST_BRANCHES - len(self._branches)]:
            if extend.beginning not in parents:
                parents[extend.beginning] = self._source(extend.beginning)
            self._changed.add(len(self._branches))
            self._branches.append(_Branch(extend.beginning, parents[extend.beginning], self._rounds))
        self._rounds += bool(extends)

    def _source(self, text: str) -> int | None:
        """The branch in which this text ends: one that is read to its end if there is any, else the latest to begin."""
        reaching = [number for number, branch in enumerate(self._branches) if branch.reaches(text)]
        places = {number: len(self._branches[number].beginning) for number in reaching}

        def rank(number: int) -> tuple[bool, int]:
            return len(text) - places[number] >= len(self._branches[number].text), places[number]

        return max(reaching, key=rank, default=None)

    def _use(self, number: int | None) -> None:
        while number is not None and not self._branches[number].used:
            self._branches[number].used = True
            self._changed.add(number)
            number = self._branches[number].parent

    def changes(self) -> list[dict[str, Any]]:
        changes = []
        for number in sorted(self._changed):
            branch = self._branches[number]
            current: Json = {name: getattr(branch, name) for name in ("parent", "round", "tokens", "used")}
            current["text"] = branch.text[:SHOWN]
            changes.append({"branch": number} | _changed(branch.reported, current))
            branch.reported = current
        self._changed.clear()
        return changes


_decode: Final = msgspec.json.Decoder(LogLine).decode


def save_log(file: Path, lines: Iterable[bytes]) -> None:
    """Write a log, whole or not at all, readable by this user only."""
    write_file(file, (line + b"\n" for line in lines), mode=0o600)


def read_log(file: Path) -> Iterator[tuple[bytes, LogLine]]:
    """Every line up to the result, and what it holds. If the result is missing, the last one is an `error`."""
    with _opened(file) as (handle, raw, head):
        line: LogLine | None = head
        number = 1
        while raw and line is not None:
            yield raw.replace(b"\r", b"").rstrip(b"\n"), line  # a carriage return would end a server-sent event
            if "result" in line or "error" in line:
                return
            raw, number = handle.readline(LINE_BYTES), number + 1
            line = _parse(raw)
    end = _error(f"Line {number} of the log is damaged; the run is shown up to it." if raw else INCOMPLETE)
    yield encode(end), end


def read_ends(file: Path) -> tuple[LogLine, LogLine]:
    """The first line of a log, and its last one: an `error` if the result is missing. The rest is not read."""
    with _opened(file) as (handle, _, head):
        end = _parse(_last_line(handle)) or {}
    return head, end if "result" in end or "error" in end else _error(INCOMPLETE)


@contextmanager
def _opened(file: Path) -> Iterator[tuple[BinaryIO, bytes, LogLine]]:
    """A log, and its first line, as bytes and parsed; a file that does not begin with a head is refused."""
    try:
        with file.open("rb") as handle:
            raw = handle.readline(LINE_BYTES)
            head = _parse(raw) or {}
            if head.get("schema", SCHEMA) != SCHEMA:
                raise TraceError(f"{file} has schema {head['schema']}; this version reads {SCHEMA}")
            if "schema" not in head or "run" not in head:
                raise TraceError(f"{file} is not a run log")
            yield handle, raw, head
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror or error}") from None


def _parse(raw: bytes) -> LogLine | None:
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _last_line(handle: BinaryIO) -> bytes:
    size, reach = handle.seek(0, os.SEEK_END), 1 << 16
    while True:
        handle.seek(max(0, size - reach))
        lines = handle.read(reach).rstrip(b"\n").rsplit(b"\n", 1)
        if len(lines) == 2 or reach >= min(size, LINE_BYTES):
            return lines[-1]
        reach *= 16


def _error(message: str) -> LogLine:
    return {"error": {"message": message}}
