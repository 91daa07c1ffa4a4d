"""The run log: the lines of its format, and the view that they add up to.

The terminal, the page, kept runs and live benchmarks read this one format; docs/serving.md#the-run-log describes it.
The types check the lines of files, which may hold anything.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Required, TypedDict

from msgspec import Meta

SCHEMA: Final = 2

PathNumber = Annotated[int, Meta(ge=0, lt=1 << 20)]
BranchNumber = Annotated[int, Meta(ge=0, lt=1 << 16)]


class RunHead(TypedDict, total=False):
    """What the run is."""

    id: str
    question: str
    model: str
    strategy: str
    begun: float  # seconds since 1970
    notes: list[str]  # what is known before its first path


class BranchChange(TypedDict, total=False):
    """The fields of a branch of a search that have changed."""

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
    """The fields of the run that have changed."""

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
    """A path's text, token by token."""

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
        """The answer of a path, as votes name it."""
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
    """A path before its first change."""
    return {"path": number, "warmup": False, "tokens": 0, "fate": None, "tier": None, "answer": None,
            "counted": False, "vote": None, "points": []}  # fmt: skip
