"""The result of a run: the answer, why it ended, and every token accounted for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from math import isnan
from typing import Any, Final

from sureenough.core.events import Answer, Fate, Json, Reason, Stop
from sureenough.core.learning import LearnerState
from sureenough.core.options import RunOptions, choose_window
from sureenough.core.path import PathState
from sureenough.core.poll import Poll
from sureenough.core.pruning import Gate, Tier
from sureenough.core.snapshot import PathSnapshot
from sureenough.core.strategy import Strategy

BUCKETS: Final = ("init", "kept", "pruned", "discarded", "failed", "overrun", "search")
"""Every generated token is in exactly one of these."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens generated; each is in exactly one bucket."""

    init: int = 0  # warm-up paths
    kept: int = 0  # later paths that ran to their end and were counted
    pruned: int = 0  # up to the token at which a gate closed
    discarded: int = 0  # running, or ended out of turn, when the run ended
    failed: int = 0  # paths lost to the engine
    overrun: int = 0  # beyond the token at which its path was decided
    search: int = 0  # sampled by searches, and not part of a path
    overrun_known: bool = True  # whether `overrun` includes what the server generated after a cancel
    prompt: int = 0  # prompt tokens of paths, not part of the total
    prompt_known: bool = True  # False: no path was read to its end, and `prompt` is 0
    reread: int = 0  # prompt tokens of continuations, most of them read before; not part of the total
    cached: int = 0  # prompt tokens, those read again included, that the server says it had cached
    reread_cached: int = 0  # those of them that are part of `reread`

    @property
    def total(self) -> int:
        """All tokens generated."""
        return sum(getattr(self, name) for name in BUCKETS)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run."""

    answer: Answer | None
    reason: Reason
    votes: dict[Answer, float]  # weight by answer, heaviest first
    tokens: Spent
    started: int
    pruned: int
    steps: int  # the longest chain of tokens made one after another
    strategy: str
    paths: int  # the budget
    window: int
    parallel: int
    window_paths: int = 0  # paths whose lengths chose the window; 0: it was given
    seed: int = 0
    weight: str | None = None  # how votes were scaled, if the strategy weighs them
    hurry: float | None = None  # if width was planned: paths that might run at once per path that had ended
    measure: float | None = None  # what the stop rule measured last
    quantity: str | None = None  # what that is: one of stop_rules.QUANTITIES
    posterior: float | None = None  # probability that the leader leads, every path one vote; None if the rule has none
    why: str = ""  # the same in a sentence
    correlations: dict[str, float] = field(default_factory=dict)  # of signals with leave-one-out agreement
    learned: LearnerState | None = None  # what a strategy that learns knew at the start
    gate: Gate | None = None  # the thresholds of this question, if it was calibrated
    tiers: dict[Tier, int] = field(default_factory=dict)  # paths pruned by each test
    counted: int = 0  # paths whose end was counted, with a vote or without
    ended_uncounted: int = 0  # paths that had ended, but were not counted, when the run ended
    failed: int = 0
    abstained: int = 0  # counted paths that gave no answer
    classes: tuple[tuple[Answer, ...], ...] = ()  # answers that were counted as one: the judge's verdicts
    notes: tuple[str, ...] = ()  # what a reader of this result should know

    def explain(self) -> str:
        """The run in sentences: the answer, the votes, why it stopped, what it cost."""
        return "\n".join(_sentences(self))

    def to_json(self) -> Json:
        """As plain JSON values; thresholds that never close are null."""
        data = asdict(self)
        data["tokens"]["total"] = self.tokens.total
        data["tiers"] = {str(tier): n for tier, n in self.tiers.items()}
        data["notes"] = list(self.notes)
        data["classes"] = [list(group) for group in self.classes]
        data["learned"] = None if self.learned is None else self.learned.to_json()
        data["measure"] = None if self.measure is None or isnan(self.measure) else self.measure
        data["votes"] = {answer: None if isnan(weight) else weight for answer, weight in self.votes.items()}
        if self.gate is not None:
            data["gate"] = {k: v if abs(v) != float("inf") else None for k, v in data["gate"].items()}
        return data


_REASONS: Final[dict[Reason, str]] = {
    "settled": "The vote was settled",
    "budget": "The budget was spent",
    "max_tokens": "The cap on tokens was reached",
    "deadline": "The deadline passed",
    "interrupted": "The run was interrupted",
    "engine": "The engine was lost",
    "no_answer": "No path gave an answer",
}


def _sentences(out: Outcome) -> list[str]:
    total = sum(out.votes.values())
    answer_text = f"Answer: {out.answer}" if out.answer is not None else "No answer"
    lines = [f"{answer_text} ({out.strategy}, {out.started} of {out.paths} paths)."]
    shares = [f"{answer} {weight / total:.0%}" for answer, weight in list(out.votes.items())[:5] if total > 0]
    if shares:
        more = f", and {len(out.votes) - 5} more" if len(out.votes) > 5 else ""
        lines.append(
            f"Votes: {', '.join(shares)}{more}; {out.abstained} paths gave no answer, {out.pruned} were pruned."
        )
    uncounted = out.started - out.counted
    more_started = f"; {uncounted} more had been started" if uncounted else ""
    if out.ended_uncounted:
        more_started += f", and {out.ended_uncounted} of them had ended without being counted"
    counted = "1 path" if out.counted == 1 else f"{out.counted} paths"
    lines.append(f"{_REASONS[out.reason]} when {counted} had been counted{more_started}. {out.why}".rstrip())
    spent = out.tokens
    parts = ", ".join(f"{getattr(spent, name):,} {name}" for name in BUCKETS if getattr(spent, name))
    lines.append(f"It took {spent.total:,} tokens ({parts or 'none'}) in {out.steps:,} steps.")
    if spent.cached:
        lines.append(f"Of {spent.prompt + spent.reread:,} prompt tokens the server had {spent.cached:,} cached.")
    if out.window_paths:
        lines.append(f"Window: {out.window:,} tokens, chosen from the lengths of {out.window_paths} paths.")
    return [*lines, *(f"Note: {note}{'' if note.endswith(('.', '?')) else '.'}" for note in out.notes)]


def token_bill(paths: Iterable[PathState | PathSnapshot]) -> Spent:
    """Every token of every path, each in its bucket."""
    spent = dict.fromkeys(BUCKETS, 0)
    for path in paths:
        fate = path.fate or Fate.DISCARDED
        spent["init" if path.warmup and fate is Fate.KEPT else fate] += path.tokens
        spent["overrun"] += path.overrun
        spent["search"] += path.search_tokens
    return Spent(**spent)  # type: ignore[arg-type]  # all are ints


def _path_counts(paths: Sequence[PathState]) -> dict[str, Any]:
    """The fields of an outcome that count paths and tokens."""
    pruned = [path.tier for path in paths if path.fate is Fate.PRUNED]
    kept = [path for path in paths if path.fate is Fate.KEPT]  # each of them was counted
    return {
        "tokens": token_bill(paths),
        "started": len(paths),
        "pruned": len(pruned),
        "tiers": {tier: pruned.count(tier) for tier in Tier},
        "counted": sum([path.counted for path in paths]),
        "ended_uncounted": sum([path.ended_uncounted for path in paths]),
        "failed": sum([path.fate is Fate.FAILED for path in paths]),
        "abstained": sum([path.answer is None for path in kept]),
    }


def _notes(strategy: Strategy, options: RunOptions, paths: Sequence[PathState]) -> tuple[str, ...]:
    """What a reader of the outcome should know."""
    lengths = [path.tokens for path in paths]
    if not strategy.prunes or not lengths or max(lengths) >= (options.window or 1):
        return ()
    return (
        f"no path was watched: the longest has {max(lengths)} tokens, the window {options.window}; "
        f"try window={choose_window(lengths)}",
    )


def build_outcome(
    strategy: Strategy,
    options: RunOptions,
    paths: Sequence[PathState],
    poll: Poll,
    stop: Stop,
    steps: int,
    gate: Gate | None,
) -> Outcome:
    """The outcome of a run that has ended."""
    return Outcome(
        answer=stop.answer,
        reason=stop.reason,
        votes=poll.votes(),
        steps=steps,
        strategy=strategy.name,
        paths=options.paths or len(paths),
        window=options.window or 1,
        parallel=options.parallel,
        seed=options.seed,
        weight=getattr(strategy.weigh, "weight", None),
        hurry=options.hurry,
        measure=strategy.stop.measure(poll),
        quantity=strategy.stop.quantity,
        posterior=strategy.stop.posterior(poll),
        why=strategy.stop.why(poll),
        correlations=poll.correlations() if strategy.reads_confidence else {},
        learned=strategy.state,
        gate=gate,
        classes=poll.groups(),
        notes=_notes(strategy, options, paths),
        **_path_counts(paths),
    )
