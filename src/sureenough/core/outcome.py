"""What a run came to: the answer, why it ended, and every token accounted for."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import isnan
from typing import Final

from sureenough.core.events import Answer, Json, Reason, Tier
from sureenough.core.pruning import Gate

BUCKETS: Final = ("init", "kept", "pruned", "spared", "failed", "overrun")
"""Where tokens go."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens generated; each is in exactly one bucket."""

    init: int = 0  # warm-up paths
    kept: int = 0  # later paths that ran to their end and were counted
    pruned: int = 0  # up to the token at which a gate closed
    spared: int = 0  # running, or ended out of turn, when the run was over
    failed: int = 0  # paths lost to the engine
    overrun: int = 0  # beyond the token at which the decision on the path fell
    overrun_known: bool = True  # whether what the server made after a cancel is in `overrun`
    prompt: int = 0  # prompt tokens, not part of the total

    @property
    def total(self) -> int:
        """All tokens generated."""
        return self.init + self.kept + self.pruned + self.spared + self.failed + self.overrun


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
    seed: int = 0
    count: str = "start"  # the order in which votes were counted
    weight: str | None = None  # how votes were scaled, where the strategy weighs them
    planned: bool = False  # whether the stop rule's need limited how many ran at once
    measure: float | None = None  # what the stop rule measured last
    why: str = ""  # the same in a sentence
    agreement: float | None = None  # correlation of confidence with leave-one-out agreement, from six votes on
    gate: Gate | None = None  # the thresholds of this question, where it was calibrated
    tiers: dict[Tier, int] = field(default_factory=dict)  # paths pruned by each test
    counted: int = 0  # paths whose end was counted, with a vote or without
    failed: int = 0
    abstained: int = 0  # counted paths that gave no answer
    notes: tuple[str, ...] = ()  # what a reader of this result should know

    def explain(self) -> str:
        """The run in sentences: the answer, the votes, why it stopped, what it cost."""
        return "\n".join(explained(self))

    def to_json(self) -> Json:
        """As plain JSON values; thresholds that never close are null."""
        data = asdict(self)
        data["tokens"]["total"] = self.tokens.total
        data["tiers"] = {str(tier): n for tier, n in self.tiers.items()}
        data["notes"] = list(self.notes)
        data["measure"] = None if self.measure is None or isnan(self.measure) else self.measure
        data["votes"] = {answer: None if isnan(weight) else weight for answer, weight in self.votes.items()}
        if self.gate is not None:
            data["gate"] = {k: v if abs(v) != float("inf") else None for k, v in data["gate"].items()}
        return data


_ENDS: Final[dict[Reason, str]] = {
    "settled": "The vote was settled",
    "budget": "The budget was spent",
    "max_tokens": "The cap on tokens was reached",
    "deadline": "The deadline passed",
    "interrupted": "The run was interrupted",
    "engine": "The engine was lost",
}


def explained(out: Outcome) -> list[str]:
    """A few lines for people."""
    total = sum(out.votes.values())
    named = f"Answer: {out.answer}" if out.answer is not None else "No answer"
    lines = [f"{named} ({out.strategy}, {out.started} of {out.paths} paths)."]
    shares = [f"{answer} {weight / total:.0%}" for answer, weight in list(out.votes.items())[:5] if total > 0]
    if shares:
        more = f", and {len(out.votes) - 5} more" if len(out.votes) > 5 else ""
        lines.append(
            f"Votes: {', '.join(shares)}{more}; {out.abstained} paths gave no answer, {out.pruned} were pruned."
        )
    rest = out.started - out.counted
    over = f"; {rest} more had been started" if rest else ""
    lines.append(f"{_ENDS[out.reason]} when {out.counted} paths had been counted{over}. {out.why}".rstrip())
    spent = out.tokens
    parts = ", ".join(f"{getattr(spent, name):,} {name}" for name in BUCKETS if getattr(spent, name))
    lines.append(f"It took {spent.total:,} tokens ({parts or 'none'}) in {out.steps:,} steps.")
    return [*lines, *(f"Note: {note}." for note in out.notes)]
