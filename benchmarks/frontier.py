"""Counting rules on public logs of many models: samples in a Parquet file with a row each, replayed by our own code.

    python benchmarks/frontier.py epoch-aime.parquet

Columns: model, question, sample, answer, gold, tokens. Runs of a model whose answers and tokens are known for nine of
ten samples take part; their first eight samples are the budget.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import pyarrow.parquet as pq

import sureenough as se
from sureenough.bench.judging import judge_question
from sureenough.bench.score import StrategyRuns, rows
from sureenough.pools import Question, RecordedPath

STRATEGIES: Final = ("sc", "ac", "sure:weigh=count", "certified")
BUDGET: Final = 8
KNOWN: Final = 0.9


def questions(file: str) -> Iterator[Question]:
    """A question per model and question of the file, with its first samples."""
    table = pq.read_table(file).sort_by([("model", "ascending"), ("question", "ascending"), ("sample", "ascending")])
    for model, of_model in groupby(table.to_pylist(), key=lambda row: row["model"]):
        samples: list[dict[str, Any]] = list(of_model)
        known = sum(row["answer"] is not None and row["tokens"] is not None for row in samples)
        if known < KNOWN * len(samples):
            continue
        for name, own in groupby(samples, key=lambda row: row["question"]):
            paths = [(row["answer"], row["tokens"] or 0, row["gold"]) for row in own][:BUDGET]
            if len(paths) == BUDGET:
                made = [RecordedPath(answer, tokens=tokens) for answer, tokens, _ in paths]
                yield Question(f"{model}\t{name}", paths[0][2], None, made)


def main(file: str) -> None:
    """Print a Markdown table."""
    totals, models = [StrategyRuns() for _ in STRATEGIES], set()
    for question in questions(file):
        models.add(question.id.split("\t")[0])
        judged, tokens = judge_question(question, "meaning"), sum(path.tokens for path in question.paths)
        for total, name in zip(totals, STRATEGIES, strict=True):
            total.add([se.replay(question.paths, name)], tokens, judged)
    print(f"{len(models)} runs of models, {len(totals[0].right)} questions x runs, {BUDGET} samples each\n")
    print("| strategy | accuracy % | vs `sc`, points | same answer as `sc` % | tokens, of all |\n|---|---|---|---|---|")
    for row in rows(STRATEGIES, totals, 0):
        low, high = row.difference_interval
        difference = f"{100 * row.difference:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
        same = f"{100 * row.agreement:.1f} [≥ {100 * row.agreement_low:.1f}]"
        print(f"| `{row.strategy}` | {100 * row.accuracy:.1f} | {difference} | {same} | {100 / row.saving:.0f}% |")


if __name__ == "__main__":
    main(sys.argv[1])
