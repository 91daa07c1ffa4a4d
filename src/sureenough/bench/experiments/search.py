"""The paper's table 2: methods that search for their paths, beside ddc and sure. All of it is measured live."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Final

from sureenough.bench import paper
from sureenough.bench.experiments.experiment import Experiment, Findings, Inputs
from sureenough.bench.experiments.live_tables import COMPARED, compared_lines, live_settings
from sureenough.bench.experiments.table_settings import settings_note
from sureenough.bench.live import LiveRun
from sureenough.bench.result import Cell, ResultColumn, Table
from sureenough.errors import UsageError

NAMES: Final = ("ddc", "sure", "predictive+sc", "phi+sc")
NO_QUESTIONS: Final = "search samples as it goes: give --dataset, and --url and --model for a server"
COLUMNS: Final = [
    *COMPARED,
    ResultColumn("budget", "count", "paths"),
    ResultColumn("width", "number", "paths", 1),
    ResultColumn("tokens", "tokens", "per question"),
    ResultColumn("of these, search", "tokens", "per question"),
    ResultColumn("prompt tokens", "tokens", "per question"),
    ResultColumn("seconds", "seconds", "s"),
]
NOTES: Final = (
    "each strategy sampled its own paths on a live engine; tokens are all that were sampled, rollouts included",
    "a search is one path of its strategy; prompt tokens of all requests, cached or not, are not part of tokens",
)
THEIRS: Final = [
    *map(ResultColumn, ("model", "dataset", "strategy")),
    ResultColumn("accuracy in the paper", "percent", "%", paper="table 2"),
    ResultColumn("tokens in the paper", "tokens7", "10^7", paper="table 2"),
]


def _measure(inputs: Inputs) -> Findings:
    if not inputs.live_runs:
        raise UsageError(NO_QUESTIONS)
    return Findings([_live_table(inputs.live_runs), _paper_table()])


def _live_table(runs: Sequence[LiveRun]) -> Table:
    lines: list[list[Cell]] = []
    for compared, row, own in compared_lines(runs):
        prompts = fmean(run.tokens.get("prompt", 0) + run.tokens.get("reread", 0) for run in own)
        searched = fmean(run.tokens.get("search", 0) for run in own)
        budget, seconds = int(own[0].outcome.get("paths", 0)), fmean(run.total_seconds for run in own)
        lines.append([*compared, budget, row.width, row.tokens, searched, prompts, seconds])
    return Table(
        "search", "Searching for paths, measured live", COLUMNS, lines, [*NOTES, live_settings(runs)], live=True
    )


def _paper_table() -> Table:
    """The paper's own numbers, whatever was measured here."""
    printed: dict[tuple[str, str, str], dict[str, float]] = {}
    for one in paper.printed():
        if one.table == 2:
            printed.setdefault((one.model, one.dataset, one.setting), {})[one.measure] = one.value
    lines: list[list[Cell]] = [
        [*names, values["accuracy"] * 0.01, values["tokens"] * 1e7] for names, values in sorted(printed.items())
    ]
    note = "the paper's own numbers, over all questions of a dataset; it does not say how many searches voted"
    settings = settings_note(window="2048", budget="not given", repeats="not given", weights="not given")
    return Table("paper", "Table 2 as the paper prints it", THEIRS, lines, [note, settings])


EXPERIMENT: Final = Experiment(
    "search",
    "predictive and φ-decoding beside ddc and sure, live (table 2)",
    "Searching for paths",
    _measure,
    "needed",
    reads=("strategies",),
    compared=NAMES,
)
