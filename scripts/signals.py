"""What a path's confidence tells on a recorded pool: of being right, of agreement, and of what learning makes of it.

    python scripts/signals.py POOL.parquet [--window 128] [--id-parts 2]

The first table has one row for all questions, one for each group (the first parts of a question's id, split at "-"),
one for each range of the leader's share of the votes, and two by whether the plurality is right. Its columns are pairs,
of the tail and of the mean peak, within a question over the paths that answered and on average over questions: the area
under the ROC curve for being right, the correlation with leave-one-out agreement, and the areas for answers given more
than once against those given once, for the leader against the runner-up, and for the right answer against its rival,
the most frequent wrong one. The last column counts how often weights turn a right plurality into a wrong one and the
other way round, with the weights that all votes of the pool teach; a line below the table has the same for shuffled
signals, as means of 20 shuffles.

The second table shows how far learning is misled by where runs stop: the mean correlations that runs with the weights
of the prior report, with the signals as recorded and shuffled among the paths of each question.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from sureenough.bench.judging import JudgedAnswers, judge_of, judge_question
from sureenough.bench.replay import in_order, summarise
from sureenough.core.options import RunOptions
from sureenough.core.weights import FEWEST_VOTES, SIGNALS, Ballot, BySignals, LearnerState, correlation
from sureenough.drivers import replay
from sureenough.pools import Pool, Question, RecordedPath
from sureenough.spec import parse

SHARES: Final = (0.0, 0.2, 0.35, 0.5, 1.01)
HEADINGS: Final = (
    "questions", "number", "one path %", "majority %", "weighed %", "right", "agreement", "repeated",
    "leader, runner-up", "right, rival", "lost, won",
)  # fmt: skip
STOPS: Final = ("sure", "sure:delta=0.002", "sc:weigh=learned")
REPEATS: Final = 5


class Vote(NamedTuple):
    """A path that answered."""

    candidate: Hashable
    signals: tuple[float, ...]  # in the order of SIGNALS


class Facts(NamedTuple):
    """One question; pairs are of the tail and the mean peak, NaN if there is nothing to compare."""

    group: str
    one_right: float  # share of all paths
    leader_share: float
    right: tuple[float, ...]
    agreement: tuple[float, ...]
    repeated: tuple[float, ...]
    first_two: tuple[float, ...]
    rival: tuple[float, ...]
    plurality: bool  # whether it is right
    weighted: bool


class JudgedQuestion(NamedTuple):
    """A question whose paths have the values of one window only."""

    question: Question
    judged: JudgedAnswers
    window: int


def load(file: str, window: int | None) -> tuple[list[JudgedQuestion], int]:
    """The judged questions of a pool, in its order, and the window."""
    pool = Pool(file)
    window = window or pool.window()
    made = []
    for question in pool:
        judged = judge_question(question, "meaning", judge_of(question, None, pool))
        made.append(JudgedQuestion(summarise(question, window), judged, window))
    return made, window


def votes_of(paths: Iterable[RecordedPath], classes: dict[str, int]) -> list[Vote]:
    """The votes of these paths, in their order."""
    answered = [(path.answer, path.known[1]) for path in paths if path.answer is not None and path.known is not None]
    return [Vote(classes.get(answer, answer), (summary.tail, summary.mean_peak)) for answer, summary in answered]


def columns(votes: Sequence[Vote]) -> list[list[float]]:
    """The values of each signal."""
    return [[vote.signals[number] for vote in votes] for number in range(len(SIGNALS))]


def agreement(votes: Sequence[Vote]) -> list[float]:
    """The share of the other votes that give the same answer, for each vote."""
    counts = Counter(vote.candidate for vote in votes)
    return [(counts[vote.candidate] - 1) / (len(votes) - 1) for vote in votes]


def area(values: Sequence[float], positive: Sequence[bool]) -> float:
    """Under the ROC curve; NaN if all are of one kind."""
    chosen = np.array(positive, dtype=bool)
    many, few = int(chosen.sum()), int((~chosen).sum())
    if not many or not few:
        return float("nan")
    return float((rankdata(values)[chosen].sum() - many * (many + 1) / 2) / (many * few))


def against_rival(votes: Sequence[Vote], correct: set[Hashable]) -> list[Vote]:
    """The right votes and those for the most frequent wrong answer; none if there is one vote for either."""
    wrong = Counter(vote.candidate for vote in votes if vote.candidate not in correct).most_common(1)
    right = sum(vote.candidate in correct for vote in votes)
    if not wrong or min(right, wrong[0][1]) < 2:
        return []
    return [vote for vote in votes if vote.candidate in correct or vote.candidate == wrong[0][0]]


def facts(question: JudgedQuestion, parts: int, weigh: BySignals) -> Facts | None:
    """None if there are too few votes to learn from."""
    classes, right = question.judged.classes, question.judged.right or {}
    votes = votes_of(question.question.paths, classes)
    if len(votes) < FEWEST_VOTES:
        return None
    correct: set[Hashable] = {classes.get(answer, answer) for answer, graded in right.items() if graded}
    counts = Counter(vote.candidate for vote in votes)
    (leader, most), *others = counts.most_common(2)
    ballots = [Ballot(number, "", 0.0, *vote.signals) for number, vote in enumerate(votes)]
    weights: Counter[Hashable] = Counter()
    for vote, weight in zip(votes, weigh(ballots, ()), strict=True):
        weights[vote.candidate] += weight  # type: ignore[assignment]  # a Counter of floats
    first_two = [vote for vote in votes if vote.candidate in {leader, *(name for name, _ in others)}]

    def areas(of: Sequence[Vote], test: Callable[[Vote], bool]) -> tuple[float, ...]:
        return tuple(area(column, [test(vote) for vote in of]) for column in columns(of))

    known = [correlation(column, agreement(votes)) for column in columns(votes)]
    return Facts(
        group=" ".join(question.question.id.split("-")[:parts]),
        one_right=sum(vote.candidate in correct for vote in votes) / len(question.question.paths),
        leader_share=most / len(votes),
        right=areas(votes, lambda vote: vote.candidate in correct),
        agreement=tuple(float("nan") if value is None else value for value in known),
        repeated=areas(votes, lambda vote: counts[vote.candidate] > 1),
        first_two=areas(first_two, lambda vote: vote.candidate == leader),
        rival=areas(against_rival(votes, correct), lambda vote: vote.candidate in correct),
        plurality=leader in correct,
        weighted=max(weights, key=weights.__getitem__) in correct,
    )


def row(label: str, group: Sequence[Facts]) -> str:
    """One row of the first table, in Markdown."""

    def pair(values: npt.ArrayLike, form: str) -> str:
        known = np.ma.masked_invalid(np.array(values))
        return ", ".join("-" if np.ma.is_masked(mean) else format(float(mean), form) for mean in known.mean(axis=0))

    lost, won = flips(group)
    shares = np.array([(one.one_right, one.plurality, one.weighted) for one in group], dtype=float)
    cells = [label, str(len(group)), *(f"{100 * share:.0f}" for share in shares.mean(axis=0))]
    cells += [pair([one.right for one in group], ".2f"), pair([one.agreement for one in group], "+.2f")]
    for areas in zip(*((one.repeated, one.first_two, one.rival) for one in group), strict=True):
        cells.append(pair(areas, ".2f"))
    return f"| {' | '.join(cells)} | {lost}, {won} |"


def taught(questions: Sequence[JudgedQuestion]) -> LearnerState:
    """The state after all votes of a pool."""
    state, strategy = LearnerState(), parse("sc:weigh=learned")
    for question in questions:
        run, classes = RunOptions(window=question.window), question.judged.classes
        state = state.receive(replay(question.question.paths, strategy, run, classes=classes))
    return state


def shuffled(paths: Sequence[RecordedPath], rng: np.random.Generator) -> list[RecordedPath]:
    """The same answers, each with the signals of another path."""
    order = rng.permutation(len(paths))
    return [replace(path, known=paths[other].known) for path, other in zip(paths, order, strict=True)]


def flips(known: Sequence[Facts]) -> tuple[int, int]:
    """Questions that weights make wrong, and right."""
    lost = sum(one.plurality and not one.weighted for one in known)
    return lost, sum(one.weighted and not one.plurality for one in known)


def flips_by_chance(questions: Sequence[JudgedQuestion], weigh: BySignals) -> list[tuple[int, int]]:
    """The same with shuffled signals, for each of 20 shuffles."""
    made = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        moved = [
            one._replace(question=replace(one.question, paths=shuffled(one.question.paths, rng))) for one in questions
        ]
        made.append(flips([one for question in moved if (one := facts(question, 0, weigh)) is not None]))
    return made


def at_the_stop(questions: Sequence[JudgedQuestion], spec: str, shuffle: bool) -> list[float]:
    """The mean correlations with agreement that runs with the weights of the prior report."""
    values: dict[str, list[float]] = {name: [] for name in SIGNALS}
    for repeat in range(REPEATS):
        rng = np.random.default_rng(repeat)
        for question in questions:
            paths = in_order(question.question, repeat, 0, None)
            paths = shuffled(paths, rng) if shuffle else paths
            strategy = parse(spec).with_state(LearnerState())
            outcome = replay(paths, strategy, RunOptions(window=question.window), classes=question.judged.classes)
            for name, value in outcome.correlations.items():
                values[name].append(value)
    return [float(np.mean(values[name])) for name in SIGNALS]


def print_groups(known: Sequence[Facts]) -> None:
    """The first table."""
    print(f"| {' | '.join(HEADINGS)} |")
    print("|---" * len(HEADINGS) + "|")
    groups = {"all": list(known)}
    for name in sorted({one.group for one in known} - {""}):
        groups[name] = [one for one in known if one.group == name]
    for low, high in pairwise(SHARES):
        name = f"leader has {100 * low:.0f} to {min(100, 100 * high):.0f}%"
        groups[name] = [one for one in known if low <= one.leader_share < high]
    for name, right in (("plurality right", True), ("plurality wrong", False)):
        groups[name] = [one for one in known if one.plurality is right]
    for name, group in groups.items():
        if group:
            print(row(name, group))


def main() -> None:
    """Both tables, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool")
    parser.add_argument("--window", type=int)
    parser.add_argument("--id-parts", type=int, default=0, help="how many parts of an id name its group")
    options = parser.parse_args()
    questions, _ = load(options.pool, options.window)
    state = taught(questions)
    weigh = BySignals(state=state)
    print_groups([one for question in questions if (one := facts(question, options.id_parts, weigh)) is not None])
    print("\nweights:", ", ".join(f"{name} {beta:.2f}" for name, beta in weigh.betas.items()))
    lost, won = zip(*flips_by_chance(questions, weigh), strict=True)
    print(f"shuffled: lost {np.mean(lost):.1f} ({max(lost)} at most), won {np.mean(won):.1f} ({max(won)} at most)")
    print("\n| run | as recorded | shuffled |\n|---|---|---|")
    for spec in STOPS:
        pairs = [at_the_stop(questions, spec, shuffle) for shuffle in (False, True)]
        print(f"| {spec} | " + " | ".join(", ".join(f"{value:+.2f}" for value in pair) for pair in pairs) + " |")


if __name__ == "__main__":
    main()
