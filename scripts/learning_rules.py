"""Other rules by which `sure` could learn its weights, or use them, beside its own: none is built in.

    python scripts/learning_rules.py POOL.parquet [--window 128] [--rule two …] [--spec sure …]

| rule | what differs |
|---|---|
| built in | nothing |
| two | correlations over the votes for the leader and the runner-up alone |
| clear | learns only from questions whose leader has more than half of the votes |
| clear two | both |
| bounded | all weights are 1 once counts settle the vote (`ac`'s test) |
| half | beta is 0.4 instead of 0.8 |
| next vote | over votes for the leader or the runner-up of the votes before them: z among those before, times what the vote adds to the leader's share, in standard deviations; a mean over votes instead of questions, the prior is 80 votes of 0.06, and 0.06 is fully trusted |

One row for each: accuracy in %, the paired differences to `sc`, to the built-in rule and to `weigh=count` under the same
stop rule, with 95% intervals over questions, the tokens saved, and the weights at the end.
"""  # noqa: E501

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from signals import REPEATS, JudgedQuestion, Vote, agreement, columns, load, votes_of

from sureenough.bench.replay import in_order
from sureenough.bench.score import intervals
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.stop_rules import exceeds_share
from sureenough.core.strategy import Strategy
from sureenough.core.weights import (
    FEWEST_VOTES,
    PRIOR,
    PRIOR_QUESTIONS,
    SIGNALS,
    Ballot,
    BySignals,
    LearnerState,
    Weigh,
    correlation,
)
from sureenough.drivers import replay
from sureenough.spec import parse

Learn = Callable[[LearnerState, Outcome, Sequence[Vote]], LearnerState]
SPECS: Final = ("sure", "sure:delta=0.002", "sc:weigh=learned")
NEXT_PRIOR: Final = 0.06
NEXT_VOTES: Final = 80


class Rule(NamedTuple):
    """How a state is learned, and what becomes of the strategy that uses it."""

    learn: Learn
    change: Callable[[Strategy, dict[str, int]], Strategy] = lambda strategy, classes: strategy
    beta: float = 0.8


class Runs(NamedTuple):
    """All questions under one strategy, means over repeats."""

    right: npt.NDArray[np.float64]
    tokens: npt.NDArray[np.float64]
    betas: list[float]  # at the end


def built_in(state: LearnerState, outcome: Outcome, votes: Sequence[Vote]) -> LearnerState:
    return state.receive(outcome)


def from_some(two: bool, clear: bool) -> Learn:
    """Learns from the votes for two answers, from questions with a clear leader, or both."""

    def learn(state: LearnerState, outcome: Outcome, votes: Sequence[Vote]) -> LearnerState:
        ranked = Counter(vote.candidate for vote in votes).most_common()
        chosen = {name for name, _ in (ranked[:2] if two else ranked)}
        kept = [number for number, vote in enumerate(votes) if vote.candidate in chosen]
        if len(kept) < FEWEST_VOTES or (clear and 2 * ranked[0][1] <= len(votes)):
            return state.receive(replace(outcome, correlations={}))
        shares = agreement(votes)
        values = [correlation([column[i] for i in kept], [shares[i] for i in kept]) for column in columns([*votes])]
        known = {name: value for name, value in zip(SIGNALS, values, strict=True) if value is not None}
        return state.receive(replace(outcome, correlations=known))

    return learn


def next_vote(state: LearnerState, outcome: Outcome, votes: Sequence[Vote]) -> LearnerState:
    """Sums are scaled so that the state's own prior and full trust stand for those of this rule."""
    sums, count = np.zeros(len(SIGNALS)), 0
    for number in range(FEWEST_VOTES - 1, len(votes)):
        before = votes[:number]
        ranked = Counter(vote.candidate for vote in before).most_common(2)
        signals = np.array([vote.signals for vote in before])
        spread = signals.std(axis=0)
        if len(ranked) < 2 or votes[number].candidate not in dict(ranked) or spread.min() < 1e-9:
            continue
        (leader, first), (_, second) = ranked
        share = (first + 1) / (first + second + 2)
        z = np.clip((np.array(votes[number].signals) - signals.mean(axis=0)) / spread, -2.5, 2.5)
        sums += z * ((votes[number].candidate == leader) - share) / sqrt(share * (1 - share))
        count += 1
    scale = PRIOR_QUESTIONS / NEXT_VOTES
    totals = tuple(old + scale * PRIOR / NEXT_PRIOR * new for old, new in zip(state.sums, sums.tolist(), strict=True))
    counts = tuple(old + scale * count for old in state.counts)
    return LearnerState(state.questions + 1, totals, counts)  # type: ignore[arg-type]  # parts of a question


@dataclass(frozen=True, slots=True)
class Bounded:
    """Weights that do not touch a vote which counts settle."""

    weigh: Weigh
    classes: dict[str, int]
    settled: bool = False
    reads: bool = True

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        counts: Counter[Hashable] = Counter(self.classes.get(str(one.answer), one.answer) for one in ballots)
        first, second = [*(count for _, count in counts.most_common(2)), 0, 0][:2]
        if exceeds_share(first + 1.0, second + 1.0, 0.5) >= 0.95:
            return [1.0] * len(ballots)
        return self.weigh(ballots, warmup)


def with_beta(strategy: Strategy, beta: float) -> Strategy:
    """The strategy with this beta, if it has weights."""
    return (
        replace(strategy, weigh=replace(strategy.weigh, beta=beta))
        if isinstance(strategy.weigh, BySignals)
        else strategy
    )


RULES: Final = {
    "built in": Rule(built_in),
    "two": Rule(from_some(two=True, clear=False)),
    "clear": Rule(from_some(two=False, clear=True)),
    "clear two": Rule(from_some(two=True, clear=True)),
    "bounded": Rule(built_in, lambda strategy, classes: replace(strategy, weigh=Bounded(strategy.weigh, classes))),
    "half": Rule(built_in, beta=0.4),
    "next vote": Rule(next_vote),
}


def run(questions: Sequence[JudgedQuestion], spec: str, rule: Rule = RULES["built in"]) -> Runs:
    """One pass over the questions per repeat, as `replay` does it; the orders are its own."""
    shape = REPEATS, len(questions)
    right, tokens, betas = np.zeros(shape), np.zeros(shape), []
    for repeat in range(REPEATS):
        state = LearnerState()
        for number, question in enumerate(questions):
            paths, classes = in_order(question.question, repeat, 0, None), question.judged.classes
            strategy = rule.change(with_beta(parse(spec).with_state(state), rule.beta), classes)
            outcome = replay(paths, strategy, RunOptions(window=question.window), classes=classes)
            state = rule.learn(state, outcome, votes_of(paths[: outcome.counted], classes))
            right[repeat, number] = (question.judged.right or {}).get(outcome.answer or "", False)
            tokens[repeat, number] = outcome.tokens.total
        betas.append(list(state.betas(rule.beta).values()))
    return Runs(right.mean(axis=0), tokens.mean(axis=0), np.mean(betas, axis=0).tolist())


def difference(runs: Runs, other: Runs) -> str:
    """In points, with its interval."""
    gained = 100 * (runs.right - other.right)
    if not gained.any():
        return "no question changed"
    (interval,) = intervals(gained[:, None], 0)
    return f"{gained.mean():+.1f} [{interval.low:+.1f}, {interval.high:+.1f}]"


def without_weights(spec: str) -> str:
    """The same stop rule with votes that all weigh the same."""
    return "sc" if spec.startswith("sc") else spec.replace("sure", "sure:weigh=count").replace("count:", "count,")


def main() -> None:
    """One table, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool")
    parser.add_argument("--window", type=int)
    parser.add_argument("--rule", choices=RULES, action="append")
    parser.add_argument("--spec", choices=SPECS, action="append")
    options = parser.parse_args()
    questions, _ = load(options.pool, options.window)
    plain = run(questions, "sc")
    print("| strategy | rule | accuracy % | to sc | to built in | to weigh=count | saving | weights |")
    print("|---|---|---|---|---|---|---|---|")
    for spec in options.spec or SPECS:
        counted, own = run(questions, without_weights(spec)), run(questions, spec)
        for name in options.rule or RULES:
            runs = own if name == "built in" else run(questions, spec, RULES[name])
            cells = [f"{100 * runs.right.mean():.1f}", *(difference(runs, other) for other in (plain, own, counted))]
            cells += [f"{plain.tokens.mean() / runs.tokens.mean():.1f}x", ", ".join(f"{b:.2f}" for b in runs.betas)]
            print(f"| {spec} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
