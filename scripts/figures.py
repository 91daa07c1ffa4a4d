"""The figures of README.md and docs/sure.md, drawn from recorded paths.

pip install '.[bench]'
python scripts/figures.py saving docs/saving.svg [POOL.parquet ...]
python scripts/figures.py value docs/value-of-going-on.svg
python scripts/figures.py order docs/order-of-counting.svg [POOL.parquet]
python scripts/figures.py width docs/width.svg [POOL.parquet ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from heapq import heapify, heappop, heappush
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

from sureenough.answers import classes
from sureenough.bench import compare
from sureenough.bench.judging import JudgedAnswers, judge_of, judge_question
from sureenough.bench.replay import in_order, summarise
from sureenough.core.options import LIVE_DEFAULTS, RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.poll import Poll
from sureenough.core.stop_rules import ExpectedGain
from sureenough.core.weights import Ballot, BySignals
from sureenough.data import BUILTIN_POOL
from sureenough.drivers import replay
from sureenough.pools import Pool, Question, RecordedPath
from sureenough.spec import parse

QUESTIONS: Final = {
    "easy": ("mmlu-stem-2507", "#1a7f37"),
    "contested": ("gsm8k-test-0523", "#0969da"),
    "hopeless": ("olympiadbench-0536", "#bc4c00"),
}
STRATEGIES: Final = {
    "sc": "#6e7781",
    "ac": "#0969da",
    "deepconf-low": "#8250df",
    "ddc": "#bc4c00",
    "sure": "#1a7f37",
    "sure:weigh=count": "#2f81f7",
}
LABELS: Final = {"sc": (12, 10), "ac": (8, 6), "ddc": (10, -26), "deepconf-low": (8, 6), "sure:weigh=count": (10, -26)}
"""Where labels stand that would else overlap, in points from their marks."""
WIDTHS: Final = (1, 2, 4, 8, 16, 32, 64)
HURRIES: Final = (0.0, 0.25, 0.5, 0.6, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, None)
NAMED_HURRIES: Final = (0.0, 0.25, 0.6, 1.0, 2.0, None)
REPEATS: Final = 5


def style() -> None:
    """Readable on light and on dark pages; text stays text; the same bytes every time."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "sureenough", "font.size": 10})
    mpl.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.facecolor": "white"})


DARK: Final = """<style>@media (prefers-color-scheme: dark) {
text:not([style*="fill"]) { fill: #d5dde6 }
[style*="stroke: #000000"] { stroke: #8a97a5 !important }
}</style>"""
"""Text and axes of a picture without a background, for pages that are dark."""


def saving(out: Path, pools: Sequence[Path]) -> None:
    """Accuracy against tokens, one panel per pool; bars are 95% intervals of the difference to sc on the same paths.

    As served. Strategies that prune are left out of pools without signals.
    """
    fig, axes = plt.subplots(1, len(pools), figsize=(3.9 * len(pools), 3.0), layout="constrained", squeeze=False)
    for ax, pool in zip(axes[0], pools, strict=True):
        known = (
            list(STRATEGIES)
            if pool.resolve() == BUILTIN_POOL.resolve()
            else [one for one in STRATEGIES if not parse(one).prunes]
        )
        compared = compare(pool, known, repeats=2, parallel=LIVE_DEFAULTS.parallel, hurry=LIVE_DEFAULTS.hurry)
        for row in compared.rows:
            x, y, colour = row.tokens / 1000, 100 * row.accuracy, STRATEGIES[row.strategy]
            lower, upper = (100 * abs(bound - row.difference) for bound in row.difference_interval)
            text, left = f"{row.strategy} {row.saving:.1f}x", row.strategy == "sc"
            bars = None if left else [[lower], [upper]]  # the difference of sc to itself says nothing
            ax.errorbar([x], [y], yerr=bars, fmt="o", color=colour, ms=7, elinewidth=1)
            at = LABELS.get(row.strategy, (8, 4))
            ax.annotate(text, (x, y), at, textcoords="offset points", ha="right" if left else "left", color=colour)
        ax.set(title=f"{pool.stem}: {sum(1 for _ in Pool(pool))} questions", xlabel="thousand tokens per question")
        ax.margins(0.22)
        ax.set_xlim(0, None)
    axes[0][0].set_ylabel("accuracy, %")
    fig.savefig(out, metadata={"Date": None}, transparent=True)
    text = out.read_text()
    out.write_text(text.replace("</defs>", f"{DARK}</defs>", 1))


def worths(question: Question) -> list[float]:
    """What going on is worth after each path, to the end of the budget."""
    numbers = classes([path.answer for path in question.paths])
    poll, rule, out = Poll(BySignals(), len(question.paths)), ExpectedGain(), []
    for i, (path, number) in enumerate(zip(question.paths, numbers, strict=True)):
        tail = path.windows(64).tail
        poll.add(i, None if number is None else Ballot(i, str(number), 0.0, tail))
        out.append(100 * (rule.measure(poll) or 0.0))
    return out


def value(out: Path) -> None:
    """Three real questions: where `sure` and its lean setting stop."""
    known = {question.id: question for question in Pool(BUILTIN_POOL)}
    fig, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    for name, (question, colour) in QUESTIONS.items():
        worth = worths(known[question])
        stop = next((i for i, w in enumerate(worth, start=1) if i >= 3 and w <= 1.0), len(worth))
        ax.plot(range(1, len(worth) + 1), worth, color=colour, lw=1.6, label=f"{name}: stops after {stop}")
        ax.plot([stop], [worth[stop - 1]], "o", color=colour, ms=6)
    for delta, label in ((1.0, "sure: delta = 0.01"), (2.0, "lean: delta = 0.02")):
        ax.axhline(delta, color="#6e7781", lw=0.9, ls="--")
        ax.text(64, delta + 0.15, label, ha="right", fontsize=9, color="#57606a")
    ax.set(
        xlabel="paths counted, of 64", ylabel="worth of going on, points of vote share", ylim=(0, None), xlim=(1, 64)
    )
    ax.legend(frameon=False)
    fig.savefig(out, metadata={"Date": None})


def in_order_of_start(paths: Sequence[RecordedPath], width: int = 1) -> Sequence[RecordedPath]:
    """In which votes are counted, whatever the width."""
    return paths


def as_they_finish(paths: Sequence[RecordedPath], width: int) -> Sequence[RecordedPath]:
    """The order in which paths end if `width` of them run at once, one token of each at a time."""
    running = [(path.tokens or 1, number) for number, path in enumerate(paths[:width])]
    heapify(running)
    ended = []
    while running:
        time, number = heappop(running)
        ended.append(paths[number])
        following = width + len(ended) - 1
        if following < len(paths):
            heappush(running, (time + (paths[following].tokens or 1), following))
    return ended


class JudgedQuestion(NamedTuple):
    """A question whose paths have the values of one window only."""

    question: Question
    judged: JudgedAnswers
    window: int


def load(pool: Path) -> list[JudgedQuestion]:
    """The judged questions of a pool, in its order."""
    opened, window = Pool(pool), Pool(pool).window()
    judged = ((question, judge_question(question, "meaning", judge_of(question, None, opened))) for question in opened)
    return [JudgedQuestion(summarise(question, window), answers, window) for question, answers in judged]


Order = Callable[[Sequence[RecordedPath]], Sequence[RecordedPath]]


def runs(
    questions: Sequence[JudgedQuestion], name: str, options: RunOptions, order: Order = in_order_of_start
) -> Iterator[tuple[Outcome, bool]]:
    """Every question once per repeat, and whether its answer is right; a strategy learns from one to the next.

    Of a strategy that neither warms up nor prunes, counting paths in another order is running them in that order.
    """
    for repeat in range(REPEATS):
        strategy = parse(name)
        for question in questions:
            paths = order(in_order(question.question, repeat, 0, None))
            at_window = replace(options, window=question.window)
            outcome = replay(paths, strategy, at_window, classes=question.judged.classes)
            yield outcome, (question.judged.right or {}).get(outcome.answer or "", False)
            if strategy.state is not None:
                strategy = strategy.with_state(strategy.state.receive(outcome))


def order(out: Path, pool: Path) -> None:
    """Accuracy against width: votes counted in order of start, and as paths finish."""
    questions = load(pool)
    fig, axes = plt.subplots(1, 2, figsize=(6.5, 3.2), sharey=True, layout="constrained")
    for ax, name in zip(axes, ("ac", "sure"), strict=True):
        for count, colour in ((in_order_of_start, "#1a7f37"), (as_they_finish, "#cf222e")):
            orders, alone = [partial(count, width=width) for width in WIDTHS], RunOptions()
            shares = [100 * fmean(right for _, right in runs(questions, name, alone, order)) for order in orders]
            ax.plot(WIDTHS, shares, "o-", color=colour, ms=4, label=count.__name__.replace("_", " "))
        ax.set_xscale("log", base=2)
        ax.set_xticks(WIDTHS, [str(w) for w in WIDTHS])
        ax.set(title=name, xlabel="paths at once")
    axes[0].set_ylabel("accuracy, %")
    axes[-1].legend(frameon=False, loc="lower left")
    fig.savefig(out, metadata={"Date": None})


def width(out: Path, pools: Sequence[Path]) -> None:
    """Tokens against steps per question, for plain voting and for `ac` and `sure` with every hurry."""
    loaded = [load(pool) for pool in pools]

    def cost(name: str, hurry: float | None) -> tuple[float, float]:
        options = replace(LIVE_DEFAULTS, paths=None, hurry=hurry)
        outcomes = [out for questions in loaded for out, _ in runs(questions, name, options)]
        return fmean(out.steps for out in outcomes), fmean(out.tokens.total for out in outcomes) / 1000

    fig, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
    plain = cost("sc", None)
    ax.plot(*plain, "o", color=STRATEGIES["sc"])
    ax.axvline(plain[0], color=STRATEGIES["sc"], lw=0.9, ls="--")
    ax.annotate("sc", plain, (8, -3), textcoords="offset points", color=STRATEGIES["sc"])
    for name in ("ac", "sure"):
        costs = {hurry: cost(name, hurry) for hurry in HURRIES}
        ax.plot(*zip(*costs.values(), strict=True), color=STRATEGIES[name], lw=1.4)
        for hurry in NAMED_HURRIES:
            steps, tokens = costs[hurry]
            default = hurry == LIVE_DEFAULTS.hurry
            ax.plot(steps, tokens, "o", color=STRATEGIES[name], ms=9 if default else 4)
            text = f"{name}, all at once" if hurry is None else f"{'' if hurry else 'hurry '}{hurry:g}"
            ax.annotate(text, (steps, tokens), (2, 7), textcoords="offset points", color=STRATEGIES[name])
            print(
                f"{name} hurry {hurry}: {plain[1] / tokens:.2f}x tokens saved, {steps:,.0f} steps; sc {plain[0]:,.0f}"
            )
    ax.set(xlabel="steps per question (tokens made one after another)", ylabel="thousand tokens per question")
    ax.set_ylim(0, None)
    fig.savefig(out, metadata={"Date": None})


def main(what: str, out: str, pool: str = str(BUILTIN_POOL), *more: str) -> None:
    """Draw one."""
    style()
    if what == "saving":
        saving(Path(out), [Path(name) for name in (pool, *more)])
    elif what == "value":
        value(Path(out))
    elif what == "width":
        width(Path(out), [Path(name) for name in (pool, *more)])
    else:
        order(Path(out), Path(pool))


if __name__ == "__main__":
    main(*sys.argv[1:])
