"""Accuracy and tokens of every method, paths started, and the cost of confident errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sureenough.bench.paper import shared as s
from sureenough.bench.paper.experiment import (
    Experiment,
    Found,
    Inputs,
    Results,
    notes_and_pools,
    replay_experiment,
    replay_inputs,
    strategy_cells,
)
from sureenough.bench.paper.live_tables import live_tables
from sureenough.bench.paper.published import AVERAGE
from sureenough.bench.recommendation import MARGIN, recommend
from sureenough.bench.replay import CellResult, Line, reference_cell
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


def _measure(inputs: Inputs) -> Iterator[Found]:
    """Methods × datasets × models, on identical samples; live runs in a table of their own."""
    live = live_tables(inputs.live_runs, "main")
    if inputs.sources or not live:
        results = replay_inputs(inputs, strategy_cells(METHODS))
        yield from (TABLE(results), POOLED(results))
        yield from (_paper_layout(f"paper-layout-{i}", group) for i, group in enumerate(s.by_model(results), 1))
        advised = [one for one in map(recommend, results) if one is not None]
        yield from advised
        yield from (_differences(f"differences-{i}", one) for i, one in enumerate(advised, 1))
        yield from (_tradeoff(f"tradeoff-{i}", lines) for i, lines in enumerate(results, 1))
        yield from map(_questions, results)
        yield from notes_and_pools(inputs, results)
    yield from live


def _paper_layout(name: str, results: Results) -> Table:
    """One row per method, two columns per dataset and for the plain average over datasets, as the paper prints it."""
    shown = columns("text", "method")
    for dataset in [*(lines[0].source.dataset for lines in results), AVERAGE]:
        shown += [*columns("percent", f"{dataset} acc."), *columns("tokens7", f"{dataset} tokens")]
    rows: list[list[Cell]] = []
    for same in zip(*results, strict=True):
        pairs = [(known(line.row.accuracy), line.row.tokens * line.row.questions) for line in same]
        average = s.mean(a for a, _ in pairs if a is not None), s.mean(tokens for _, tokens in pairs)
        rows.append([same[0].cell.label, *(cell for pair in (*pairs, average) for cell in pair)])
    note = "tokens of all questions of a dataset, mean of the repeats; Avg. is the plain mean of the datasets"
    notes = [note, s.settings_of([line for lines in results for line in lines])]
    return Table(name, f"{results[0][0].source.model}, in the paper's layout", shown, rows, notes)


def _differences(name: str, recommendation: Recommendation) -> Figure:
    """How much each strategy differs from the reference on the same questions, the cheapest first."""
    every = recommendation.candidates
    labels = [f"{one.strategy}, {recommendation.tokens / one.tokens if one.tokens else 1.0:.1f}x" for one in every]
    measures = [one.difference for one in every]
    noun, reference = recommendation.basis, recommendation.reference
    values, lows, highs = ([getattr(one, name) for one in measures] for name in ("value", "low", "high"))
    marked = [(low or 0.0) >= -MARGIN for low in lows]
    return Figure(
        name,
        f"{recommendation.dataset}, {recommendation.model}: {noun} compared with {reference}",
        "intervals",
        s.CATEGORIES,
        Axis(f"difference of {noun}, points", percent=True),
        [Series("difference", [*labels], values, lows, highs, marked)],
        ["cautious 95% intervals; behind each name how many times fewer tokens it spends; dashed: a loss of "
         f"{100 * MARGIN:g} points, which coloured intervals exclude"],
        limits=[0.0, -MARGIN],
    )  # fmt: skip


def _tradeoff(name: str, lines: Sequence[CellResult]) -> Figure:
    return Figure(
        name,
        f"{lines[0].source.label}: accuracy against tokens",
        "points",
        s.axis(s.TOKENS, "log"),
        s.axis(s.ACCURACY),
        [s.series(line.cell.label, [line], [line.row.tokens], s.ACCURACY) for line in lines],
        ["bars are 95% intervals over questions; methods are paired, so differences are more certain"],
    )


MOST_QUESTIONS: Final = 100
"""Single questions that a result keeps per pool."""


def _questions(lines: Sequence[CellResult]) -> PoolQuestions:
    """Single questions, those on which the strategies differ most first."""
    reference = lines[reference_cell([line.cell for line in lines])].runs
    agreed = [agreement(line.runs, reference) for line in lines]
    done = [
        [
            StrategyOnQuestion(known(line.runs.right[k]), float(share[k]), line.runs.tokens[k])
            for line, share in zip(lines, agreed, strict=True)
        ]
        for k in range(len(lines[0].opened.questions))
    ]

    def spread(k: int) -> float:
        values = [one.agreed if one.right is None else one.right for one in done[k]]
        return min(values) - max(values)

    kept = sorted(range(len(done)), key=spread)[:MOST_QUESTIONS]
    source, names = lines[0].source, [line.row.strategy for line in lines]
    questions = [(lines[0].opened.questions[k], done[k]) for k in kept]
    return PoolQuestions(source.dataset, source.model, source.pool.name, names, len(done), questions)


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
