"""Accuracy and tokens of every method, paths started, and the cost of confident errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from sureenough.bench.experiment import Experiment, Found, Inputs, Results, replay_experiment, strategy_cells
from sureenough.bench.paper import shared as s
from sureenough.bench.paper.live_tables import live_tables
from sureenough.bench.paper.published import AVERAGE
from sureenough.bench.recommendation import MARGIN, recommend
from sureenough.bench.replay import Line, reference_cell
from sureenough.bench.result import Axis, Figure, PoolQuestions, Recommendation, Series, StrategyOnQuestion
from sureenough.bench.score import CONFIDENT, agreement
from sureenough.bench.tables import Cell, Table, columns, known
from sureenough.strategies import COMPARED

METHODS: Final = (
    "sc", "ac", "esc", "deepconf-low", "deepconf-high", "ddc", "ddc:weight=mean", "ddc:weight=unit", "sure",
    "sure:delta=0.02",
)  # fmt: skip
READING: Final = (
    "accuracy with its 95% interval, resampling questions; differences are paired, to the first method of the dataset",
    "won: questions right in most repeats, and wrong in most with the first method; lost: the reverse; a question that "
    "is right in exactly half of its repeats is on neither side",
    "saving: tokens of plain voting on the same paths, divided by these",
)
TABLE: Final = s.cell_table("main", "Accuracy and cost of every method", s.everything(1), READING)
POOLED: Final = s.compared_table("Accuracy compared with the first method, and what each sample could detect")


def _paper_layouts(results: Results) -> Iterator[Table]:
    """One row per method, two columns per dataset and for the plain average over datasets, as the paper prints it."""
    for number, group in enumerate(s.by_model(results), 1):
        shown = columns("text", "method")
        for dataset in [*(lines[0].source.dataset for lines in group), AVERAGE]:
            shown += [*columns("percent", f"{dataset} acc."), *columns("tokens7", f"{dataset} tokens")]
        rows: list[list[Cell]] = []
        for same in zip(*group, strict=True):
            pairs = [(known(line.row.accuracy), line.row.tokens * line.row.questions) for line in same]
            average = s.mean(a for a, _ in pairs if a is not None), s.mean(tokens for _, tokens in pairs)
            rows.append([same[0].cell.label, *(cell for pair in (*pairs, average) for cell in pair)])
        note = "tokens of all questions of a dataset, mean of the repeats; Avg. is the plain mean of the datasets"
        notes = [note, s.settings_of([line for lines in group for line in lines])]
        title = f"{group[0][0].source.model}, in the paper's layout"
        yield Table(f"paper-layout-{number}", title, shown, rows, notes)


def _recommendations(results: Results) -> Iterator[Recommendation | Figure]:
    """Which strategy to use, and how much each differs from the reference on the same questions, the cheapest first."""
    advised = [one for one in map(recommend, results) if one is not None]
    yield from advised
    for number, one in enumerate(advised, 1):
        labels = [f"{own.strategy}, {one.tokens / own.tokens if own.tokens else 1.0:.1f}x" for own in one.candidates]
        values, lows, highs = zip(*(msgspec.structs.astuple(own.difference) for own in one.candidates), strict=True)
        marked = [(low or 0.0) >= -MARGIN for low in lows]
        yield Figure(
            f"differences-{number}",
            f"{one.dataset}, {one.model}: {one.basis} compared with {one.reference}",
            "intervals",
            s.CATEGORIES,
            Axis(f"difference of {one.basis}, points", percent=True),
            [Series("difference", [*labels], [*values], [*lows], [*highs], marked)],
            ["cautious 95% intervals; behind each name how many times fewer tokens it spends; dashed: a loss of "
             f"{100 * MARGIN:g} points, which coloured intervals exclude"],
            limits=[0.0, -MARGIN],
        )  # fmt: skip


def _tradeoffs(results: Results) -> Iterator[Figure]:
    for number, lines in enumerate(results, 1):
        title = f"{lines[0].source.label}: accuracy against tokens"
        points = [s.series(line.cell.label, [line], [line.row.tokens], s.ACCURACY) for line in lines]
        note = "bars are 95% intervals over questions; methods are paired, so differences are more certain"
        yield Figure(f"tradeoff-{number}", title, "points", s.axis(s.TOKENS, "log"), s.axis(s.ACCURACY), points, [note])


MOST_QUESTIONS: Final = 100
"""Single questions that a result keeps per pool."""


def _questions(results: Results) -> Iterator[PoolQuestions]:
    """Single questions, those on which the strategies differ most first."""
    for lines in results:
        source, questions = lines[0].source, lines[0].opened.questions
        reference = lines[reference_cell([line.cell for line in lines])].runs
        agreed = [agreement(line.runs, reference) for line in lines]
        done = [
            [
                StrategyOnQuestion(known(line.runs.right[k]), float(share[k]), line.runs.tokens[k])
                for line, share in zip(lines, agreed, strict=True)
            ]
            for k in range(len(questions))
        ]
        pairs = sorted(zip(questions, done, strict=True), key=lambda pair: _spread(pair[1]))
        names = [line.row.strategy for line in lines]
        yield PoolQuestions(
            source.dataset, source.model, source.pool.name, names, len(questions), pairs[:MOST_QUESTIONS]
        )


def _spread(done: Sequence[StrategyOnQuestion]) -> float:
    values = [one.agreed if one.right is None else one.right for one in done]
    return min(values) - max(values)


REPLAYED: Final = replay_experiment(
    strategy_cells(METHODS), TABLE, POOLED, _paper_layouts, _recommendations, _tradeoffs, _questions
)


def _measure(inputs: Inputs) -> Iterator[Found]:
    """Methods × datasets × models, on identical samples; live runs in a table of their own."""
    live = live_tables(inputs.live_runs, "main")
    if inputs.sources or not live:
        yield from REPLAYED(inputs)
    yield from live


EXPERIMENT: Final = Experiment(
    "main",
    "accuracy and tokens: methods × datasets × models (table 1)",
    "Accuracy and tokens: methods × datasets × models",
    _measure,
    "optional",
    reads=("strategies",),
)

# -- width

SPENT: Final = "tokens confident wrong"


def _per_error(line: Line) -> Cell:
    errors = line.runs.sums["confident wrong"]
    return line.runs.sums[SPENT] / errors if errors else None


CONFIDENTLY_WRONG: Final = (
    s.of_line("wrong", lambda line: line.runs.mean("wrong"), "percent", "% of runs"),
    s.of_line("confidently wrong", lambda line: line.runs.mean("confident wrong"), "percent", "% of runs"),
    s.of_line("tokens per confident error", _per_error, "tokens", ""),
    s.of_line("tokens of all confident errors", lambda line: line.runs.sums[SPENT] / line.row.repeats, "tokens7"),
    s.of_line(
        "share of all tokens", lambda line: line.runs.sums[SPENT] / (line.row.tokens * line.runs.runs or 1.0), "percent"
    ),
)
MEANING: Final = (
    f"a wrong answer is confident if its posterior is above {CONFIDENT:g}: the chance, by the votes and weights of its "
    "own method, that it holds more than half (the paper states neither how it chose them nor the unit of its tokens)"
)

WIDTH: Final = Experiment(
    "width",
    "average paths, and tokens spent on confident wrong answers (table 4)",
    "Width, and the cost of confident errors",
    replay_experiment(
        strategy_cells(COMPARED),
        s.cell_table(
            "width",
            "Paths started, and tokens spent on confident wrong answers",
            [*s.NAMES, s.QUESTIONS, s.ACCURACY, s.WIDTH, s.in_paper(4, "width", "number", "paths"), *CONFIDENTLY_WRONG,
             s.in_paper(4, "confident wrong", "scientific", title="tokens in the paper (unit not given)"), s.TOKENS],
            [MEANING],
        ),
        s.cell_figure("width", "Paths started",
                      s.of_line("paths", lambda line: line.row.width, "number", "per question")),
        s.cell_figure("confident-wrong", "Tokens spent on confident wrong answers",
                      s.of_line("tokens", lambda line: line.runs.mean(SPENT), "tokens")),
    ),
    reads=("strategies",),
)  # fmt: skip
