"""What a run has come to: snapshots while it runs, and its outcome, with every token accounted for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from html import escape
from math import isnan
from typing import Final, NamedTuple

from sureenough.core.events import Answer, Fate, Json, Reason, Stop
from sureenough.core.options import SMALLEST_WINDOW, RunOptions, choose_window
from sureenough.core.path import PathState
from sureenough.core.poll import Poll, Standing
from sureenough.core.pruning import Gate, Tier
from sureenough.core.stop_rules import CERTIFIED, PlainStopRule, StopRule, Verdict, certificate, votes_to_certify
from sureenough.core.strategy import Strategy
from sureenough.core.weights import LearnerState

BUCKETS: Final = ("init", "kept", "pruned", "discarded", "failed", "overrun", "search")
"""Every generated token is in exactly one of these."""


_REASONS: Final[dict[Reason, str]] = {
    "settled": "The vote was settled",
    "budget": "The budget was spent",
    "max_tokens": "The cap on tokens was reached",
    "deadline": "The deadline passed",
    "interrupted": "The run was interrupted",
    "engine": "The engine was lost",
    "no_answer": "No path gave an answer",
}


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
    reasoning: int = 0  # tokens that the server counts as reasoning, of paths that were read to their end

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
    steps: int  # the longest chain of tokens made one after another
    strategy: str
    options: RunOptions  # with the window that was used
    verdict: Verdict  # what the stop rule made of the votes
    started: int
    counted: int = 0  # paths whose end was counted, with a vote or without
    voting: int = 0  # counted paths with a vote
    agreeing: int = 0  # those of them whose vote is for the answer
    standing: Standing | None = None  # of the answer by counts; None if votes are not draws from one distribution
    full_budget_tokens: float | None = None  # about what all paths to their end would have taken, if any ran to it
    abstained: int = 0  # counted paths that gave no answer
    ended_uncounted: int = 0  # paths that had ended, but were not counted, when the run ended
    failed: int = 0
    tiers: dict[Tier, int] = field(default_factory=dict)  # paths pruned by each test
    gate: Gate | None = None  # the thresholds of this question, if it was calibrated
    window_paths: int = 0  # paths whose lengths chose the window; 0: it was given
    classes: tuple[tuple[Answer, ...], ...] = ()  # answers that were counted as one: the judge's verdicts
    correlations: dict[str, float] = field(default_factory=dict)  # of signals with votes for the leader
    learned: LearnerState | None = None  # what a strategy that learns knew at the start
    notes: tuple[str, ...] = ()  # what a reader of this result should know

    @property
    def window(self) -> int:
        """Tokens per window, given or chosen."""
        return self.options.window or 1

    @property
    def pruned(self) -> int:
        """Paths that a gate closed on."""
        return sum(self.tiers.values())

    @property
    def certificate(self) -> float | None:
        """The level at which the answer is the model's most frequent one, valid whenever the run stopped.

        None with pruning or a search.
        """
        return None if self.standing is None else certificate(self.standing)

    @property
    def votes_to_certify(self) -> int | None:
        """The fewest further votes for the answer that bring the certificate to 0.05."""
        return None if self.standing is None else votes_to_certify(self.standing)

    @property
    def agreement(self) -> str:
        """The answer's share of the votes."""
        if not self.voting:
            return "no votes"
        share = self.agreeing / self.voting
        word = ", weak" if share <= 0.5 else ", settled" if self._settled else ""
        votes = "1 vote" if self.voting == 1 else f"{self.voting} votes"
        return f"{self.agreeing} of {votes} ({share:.0%}{word})"

    @property
    def _settled(self) -> bool:
        """`sure` also stops because more paths would change little; it settles a vote if two thirds agree."""
        gave_up = self.verdict.quantity == "expected_gain" and 3 * self.agreeing < 2 * self.voting
        return self.reason == "settled" and not gave_up

    def brief(self) -> str:
        """The run in one line: the answer, how many paths agree, and tokens beside those of the whole budget."""
        result = f"{self.answer}, {self.agreement}" if self.answer is not None else "no answer"
        if self.reason != "settled":
            result += f"; {_REASONS[self.reason][0].lower()}{_REASONS[self.reason][1:]}"
        elif not self._settled:
            result += "; more paths would hardly help"
        cost, full = f"{self.tokens.total:,} tokens", self.full_budget_tokens
        if full is not None and self.started < (self.options.paths or 0) and full > self.tokens.total:
            cost += f", {self.options.paths} paths would take about {roughly(full)}"
        return f"{result}; {cost}"

    def noted(self) -> list[str]:
        """The notes as sentences."""
        return [f"Note: {note}{'' if note.endswith(('.', '?')) else '.'}" for note in self.notes]

    def explain(self) -> str:
        """The run in sentences: the answer, the votes, why it stopped, what it cost."""
        total, spent = sum(self.votes.values()), self.tokens
        answer = f"Answer: {self.answer}" if self.answer is not None else "No answer"
        lines = [f"{answer} ({self.strategy}, {self.started} of {self.options.paths} paths)."]
        shares = [f"{answer} {weight / total:.0%}" for answer, weight in list(self.votes.items())[:5] if total > 0]
        if shares:
            more = f", and {len(self.votes) - 5} more" if len(self.votes) > 5 else ""
            others = f"{self.abstained} paths gave no answer, {self.pruned} were pruned"
            lines.append(f"Votes: {', '.join(shares)}{more}; {others}.")
        if self.certificate is not None and self.answer is not None:
            more = f"; {n} more votes for it would reach {CERTIFIED}" if (n := self.votes_to_certify) else ""
            lines.append(f"Certificate that this is the model's most frequent answer: {self.certificate:.2g}{more}.")
        lines += [self._stopped(), f"It took {self._cost()}"]
        if spent.cached:
            lines.append(f"Of {spent.prompt + spent.reread:,} prompt tokens the server had {spent.cached:,} cached.")
        if self.window_paths:
            lines.append(f"Window: {self.window:,} tokens, chosen from the lengths of {self.window_paths} paths.")
        return "\n".join([*lines, *self.noted()])

    __str__ = explain

    def _repr_html_(self) -> str:
        """The same, for notebooks."""
        return f"<pre>{escape(self.explain())}</pre>"

    def _stopped(self) -> str:
        uncounted = self.started - self.counted
        more_started = f"; {uncounted} more had been started" if uncounted else ""
        if self.ended_uncounted:
            more_started += f", and {self.ended_uncounted} of them had ended without being counted"
        counted = "1 path" if self.counted == 1 else f"{self.counted} paths"
        return f"{_REASONS[self.reason]} when {counted} had been counted{more_started}. {self.verdict.why}".rstrip()

    def _cost(self) -> str:
        parts = [f"{tokens:,} {name}" for name in BUCKETS if (tokens := getattr(self.tokens, name))]
        return f"{self.tokens.total:,} tokens ({', '.join(parts) or 'none'}) in {self.steps:,} steps."

    def to_json(self) -> Json:
        """As plain JSON values, the options and the verdict among them; thresholds that never close are null."""
        data = asdict(self)
        data |= data.pop("options") | self.verdict._asdict()
        del data["verdict"], data["standing"]
        data["certificate"], data["votes_to_certify"] = self.certificate, self.votes_to_certify
        data["pruned"], data["tokens"]["total"] = self.pruned, self.tokens.total
        data["agreement"] = self.agreement
        data["tiers"] = {str(tier): n for tier, n in self.tiers.items()}
        data["notes"] = list(self.notes)
        data["classes"] = [list(group) for group in self.classes]
        data["learned"] = None if self.learned is None else self.learned.to_json()
        data["measure"] = None if data["measure"] is None or isnan(data["measure"]) else data["measure"]
        data["votes"] = {answer: None if isnan(weight) else weight for answer, weight in self.votes.items()}
        if self.gate is not None:
            data["gate"] = {k: v if abs(v) != float("inf") else None for k, v in data["gate"].items()}
        return data


def roughly(estimate: float) -> str:
    """An estimate with two digits that mean something: `23,000`."""
    return f"{float(f'{estimate:.2g}'):,.0f}"


def token_bill(paths: Iterable[PathState | PathSnapshot]) -> Spent:
    """Every token of every path, each in its bucket."""
    spent = dict.fromkeys(BUCKETS, 0)
    for path in paths:
        fate = path.fate or Fate.DISCARDED
        spent["init" if path.warmup and fate is Fate.KEPT else fate] += path.tokens
        spent["overrun"] += path.overrun
        spent["search"] += path.search_tokens
    return Spent(**spent)  # type: ignore[arg-type]  # all are ints


def full_budget_tokens(budget: int, paths: Iterable[PathState | PathSnapshot]) -> float | None:
    """About what so many paths would take, from those that ran to their end; None before the first."""
    whole = [path.tokens for path in paths if path.fate is Fate.KEPT]
    return budget * sum(whole) / len(whole) if whole else None


def warnings(strategy: Strategy, options: RunOptions, paths: Sequence[PathState]) -> tuple[str, ...]:
    """Notes if a strategy could not do what it is for: watch a path, or say how many votes it needs."""
    notes, lengths, budget = [], [path.tokens for path in paths], options.paths or 1
    if strategy.prunes and lengths and max(lengths) < (options.window or 1):
        notes.append(
            f"no path was watched: the longest has {max(lengths)} tokens, the window {options.window}; "
            f"try window={choose_window(lengths)}"
        )
    planned = options.hurry is not None and isinstance(strategy.stop, PlainStopRule)
    if planned and strategy.stop.votes_to_settle(Poll(strategy.weigh, budget), budget) is None:
        notes.append(
            f"its stop rule does not say how many votes would settle the run, so up to {options.parallel} paths ran at "
            f"once: called with {budget} votes for one answer it failed, or did not stop"
        )
    return tuple(notes)


class Phase(Enum):
    """The phases of a session; `session.TRANSITIONS` lists what may follow what."""

    NEW = "new"
    WARMUP = "warm-up"  # the first paths run to their end; nothing is counted or pruned
    SAMPLING = "sampling"  # paths are watched, votes are counted, the stop rule is tested
    STOPPED = "stopped"


class PathSnapshot(NamedTuple):
    """One path."""

    number: int
    warmup: bool
    tokens: int
    overrun: int
    fate: Fate | None  # None while it runs
    tier: Tier | None
    answer: Answer | None
    counted: bool
    search_tokens: int = 0
    ended_uncounted: bool = False  # discarded, but not cancelled

    @classmethod
    def of(cls, path: PathState) -> PathSnapshot:
        return cls(*(getattr(path, name) for name in cls._fields))


@dataclass(frozen=True, slots=True)
class VoteSnapshot:
    """The votes counted so far, and what the stop rule makes of them."""

    weights: Mapping[Answer, float]  # weight by answer, heaviest first
    candidates: Mapping[int, Answer]  # the answer that each voting path's candidate is named by
    counted: int  # paths counted, with a vote or without
    verdict: Verdict  # of the stop rule

    @classmethod
    def of(cls, poll: Poll, stop: StopRule) -> VoteSnapshot:
        verdict = stop.verdict(poll) if poll.counted else Verdict(stop.quantity)
        return cls(poll.votes(), poll.candidates(), poll.counted, verdict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A session at one moment."""

    strategy: Strategy
    options: RunOptions
    phase: Phase
    paths: tuple[PathSnapshot, ...]
    votes: VoteSnapshot
    gate: Gate
    steps: int  # the longest chain of tokens generated one after another
    stop: Stop | None  # once the run has ended

    @property
    def budget(self) -> int:
        """The most paths that may be started."""
        return self.options.paths or len(self.paths)

    @property
    def window(self) -> int:
        """Tokens per window; before it is chosen, the smallest that may be."""
        return self.options.window or SMALLEST_WINDOW

    @property
    def generated(self) -> int:
        """All tokens so far."""
        return sum(path.tokens + path.overrun + path.search_tokens for path in self.paths)

    def full_budget_tokens(self) -> float | None:
        """About what the whole budget would take, from the paths that ran to their end; None before the first."""
        return full_budget_tokens(self.budget, self.paths)
