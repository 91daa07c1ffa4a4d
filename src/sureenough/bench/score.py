"""From single runs to a row of the table: means, and intervals by resampling questions.

A question's repeats stay together: they share its difficulty, so they are one unit of evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite, nan
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.result import finite
from sureenough.core.confidence import Floats
from sureenough.core.events import Json
from sureenough.core.outcome import BUCKETS, Outcome
from sureenough.core.pruning import Tier
from sureenough.core.stop_rules import exceeds_share
from sureenough.core.strategy import Strategy
from sureenough.core.weights import SIGNALS, BySignals, LearnerState

RESAMPLES: Final = 2000
CONFIDENT: Final = 0.95
"""The paper's tau: a wrong answer is confident if its posterior is above this."""


class Interval(NamedTuple):
    """A 95% interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy over a whole pool."""

    strategy: str
    accuracy: float  # 0..1; NaN if no question has a gold answer
    interval: Interval
    difference: float  # to the first strategy
    difference_interval: Interval
    tokens: float  # mean per question and repeat
    saving: float  # tokens of plain voting on the same paths, divided by ours
    steps: float
    width: float  # paths started
    pruned: float  # paths per question
    tiers: dict[str, float]  # pruned paths by tier
    buckets: dict[str, float]  # tokens by fate
    reasons: dict[str, float]  # share of runs by reason
    questions: int
    graded: int  # questions with a gold answer
    repeats: int
    weight: str | None = None  # how votes were scaled
    learned: Json | None = None  # by signal: r, beta and questions, if the strategy learns
    agreement: float = nan  # share of answers that are those of plain voting with the whole budget, else of the first
    agreement_low: float = nan  # its lower limit
    notes: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """As plain JSON values, NaN as null."""
        plain: Json = finite(asdict(self))
        return plain


@dataclass(slots=True)
class StrategyRuns:
    """Sums over all runs of one strategy; of single questions, only a few numbers are kept."""

    right: list[float] = field(default_factory=list)  # by question, mean over repeats; NaN if ungraded
    answers: list[list[int | None]] = field(default_factory=list)  # by question and repeat, the class of the answer
    tokens: list[float] = field(default_factory=list)  # by question, mean over repeats
    sums: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)  # by their first words
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        return self.reasons.total()

    def add(self, outcomes: Sequence[Outcome], all_tokens: int, judged: JudgedAnswers) -> None:
        """Add all repeats of one question; `all_tokens` is what plain voting spends on the same paths."""
        grades = [
            None if judged.right is None else one.answer is not None and judged.right[one.answer] for one in outcomes
        ]
        self.right.append(nan if judged.right is None else fmean(map(bool, grades)))
        self.answers.append([judged.classes.get(one.answer or "") for one in outcomes])
        self.tokens.append(fmean(one.tokens.total for one in outcomes))
        self.sums["all tokens"] += all_tokens
        for outcome, right in zip(outcomes, grades, strict=True):
            self._count(outcome, right)

    def _count(self, outcome: Outcome, right: bool | None) -> None:
        self.reasons[outcome.reason] += 1
        for note in outcome.notes:
            self.notes[note.split(":")[0]] += 1
            self.examples[note.split(":")[0]] = note
        spent = outcome.tokens
        sums = {"tokens": spent.total, "steps": outcome.steps, "width": outcome.started, "pruned": outcome.pruned}
        sums |= {f"tokens {name}": getattr(spent, name) for name in BUCKETS}
        self.sums.update(sums | {f"tier {tier}": n for tier, n in outcome.tiers.items()})
        if right is False:
            self.sums["wrong"] += 1
            if posterior(outcome) > CONFIDENT:
                self.sums.update({"confident wrong": 1, "tokens confident wrong": spent.total})

    def join(self, more: StrategyRuns) -> None:
        """Add the runs of further questions."""
        self.right += more.right
        self.answers += more.answers
        self.tokens += more.tokens
        for counter, other in ((self.sums, more.sums), (self.reasons, more.reasons), (self.notes, more.notes)):
            counter.update(other)
        self.examples |= more.examples

    def mean(self, name: str) -> float:
        """Mean per run."""
        return self.sums[name] / self.runs


def agreement(runs: StrategyRuns, reference: StrategyRuns) -> Floats:
    """By question, the share of repeats in which both strategies give the same answer."""
    pairs = zip(runs.answers, reference.answers, strict=True)
    return np.array([np.mean([a == b for a, b in zip(*pair, strict=True)]) for pair in pairs])


def mean_state(strategy: Strategy, states: Sequence[LearnerState]) -> Json | None:
    """What a strategy learned, by signal and on average over repeats; None if it does not learn."""
    if not states or not isinstance(strategy.weigh, BySignals) or not strategy.weigh.reads:
        return None
    most = strategy.weigh.beta
    return {
        name: {
            "r": fmean(state.correlations[name] for state in states),
            "beta": fmean(state.betas(most)[name] for state in states),
            "questions": fmean(state.counts[number] for state in states),
        }
        for number, name in enumerate(SIGNALS)
    }


def posterior(outcome: Outcome) -> float:
    """The chance that the winner holds most of the votes, by the weights of its own strategy (the paper's test)."""
    weights = list(outcome.votes.values())
    return exceeds_share(1.0 + weights[0], 1.0 + sum(weights[1:]), 0.5) if weights else 0.0


def lowest_agreement(agreed: Floats) -> float:
    """The exact lower limit at 95% of the share of answers that stay the same, questions as units (Clopper-Pearson)."""
    from scipy.special import betaincinv  # importing it takes a fifth of a second, also for --help

    changed = len(agreed) - float(agreed.sum())
    return 1.0 - float(betaincinv(changed + 1.0, len(agreed) - changed, 0.95)) if changed < len(agreed) else 0.0


RIGHT: Final = (1.0, 0.0)
WON: Final = (1.0, -1.0)
"""Questions that are added to the measured ones before they are resampled: one right and one wrong, or one won and one
lost. Without them, questions that never changed would give an interval of no width."""


def rows(names: Sequence[str], totals: Sequence[StrategyRuns], seed: int, reference: int = 0) -> list[Row]:
    """The table; differences are to the first strategy, on the same resampled questions; agreement is with another."""
    shares = [np.array(total.right) for total in totals]
    graded = np.isfinite(shares[0])
    shares = [share[graded] for share in shares]
    columns = [*shares, *(share - shares[0] for share in shares)]
    n = len(totals)
    bounds = intervals(np.stack(columns, axis=1), seed, np.repeat([RIGHT, WON], n, axis=0).T)
    means = [float(column.mean()) if graded.any() else nan for column in columns]
    pairs = zip(names, totals, strict=True)
    made = [_row(name, total, means[i::n], bounds[i::n]) for i, (name, total) in enumerate(pairs)]
    if not totals[0].answers:  # live runs keep no classes of answers
        return made
    agreed = [agreement(total, totals[reference]) for total in totals]
    return [
        replace(row, agreement=float(own.mean()), agreement_low=lowest_agreement(own))
        for row, own in zip(made, agreed, strict=True)
    ]


def _row(name: str, total: StrategyRuns, means: Sequence[float], bounds: Sequence[Interval]) -> Row:
    """`means` and `bounds` are of the accuracy and of its difference."""
    tokens = total.mean("tokens")
    return Row(
        strategy=name,
        accuracy=means[0],
        interval=bounds[0],
        difference=means[1],
        difference_interval=bounds[1],
        tokens=tokens,
        saving=total.mean("all tokens") / tokens if tokens else nan,
        steps=total.mean("steps"),
        width=total.mean("width"),
        pruned=total.mean("pruned"),
        tiers={str(tier): total.mean("tier " + tier) for tier in Tier},
        buckets={bucket: total.mean("tokens " + bucket) for bucket in BUCKETS},
        reasons={reason: n / total.runs for reason, n in total.reasons.most_common()},
        questions=len(total.right),
        graded=sum(map(isfinite, total.right)),
        repeats=total.runs // len(total.right),
        notes=tuple(f"{total.examples[note]} ({n} of {total.runs} runs)" for note, n in total.notes.most_common()),
    )


def intervals(values: Floats, seed: int, imagined: Floats | None = None) -> list[Interval]:
    """95% intervals of the means of the columns; every column uses the same resampled questions."""
    if len(values) == 0:
        return [Interval(nan, nan)] * values.shape[1]
    if imagined is not None:
        values = np.concatenate([values, imagined])
    questions = len(values)
    rng = np.random.default_rng(seed)
    even = np.full(questions, 1.0 / questions)
    means = np.concatenate([rng.multinomial(questions, even, size=100) @ values for _ in range(RESAMPLES // 100)])
    low, high = np.percentile(means / questions, (2.5, 97.5), axis=0)
    return [Interval(*pair) for pair in zip(low.tolist(), high.tolist(), strict=True)]
