"""Inspect with and without EarlyStopping: epochs run, and whether the voted answers are right and the same.

Every epoch is a recorded path and takes as long as its length at 10,000 tokens per second, so that epochs overlap as
they would live. Needs inspect_ai:

    sureenough record src/sureenough/data/arith.csv --limit 30 --paths 16 -o pool.parquet
    .ci/logs python benchmarks/inspect_stops.py pool.parquet
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from typing import Any

from inspect_ai import Epochs, Task
from inspect_ai import eval as run_inspect
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import pattern
from inspect_ai.solver import Generate, TaskState, solver

import sureenough as se
from sureenough.data import PROBLEMS_POOL
from sureenough.inspect import EarlyStopping, vote
from sureenough.pools import Question

EPOCHS = 16
PACE = 10_000.0  # tokens per second


@solver  # type: ignore[untyped-decorator]
def recorded(texts: dict[str, list[str]]) -> Any:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        text = texts[str(state.sample_id)][state.epoch - 1]
        await asyncio.sleep(len(text) / PACE)  # the built-in model's tokens are letters
        state.output = ModelOutput.from_content("recorded", text)
        return state

    return solve


def run(questions: list[Question], strategy: str | None, width: int, folder: Path) -> tuple[int, float, dict[str, str]]:
    """Epochs that ran, the accuracy of the vote in percent, and the voted answers."""
    task = Task(
        dataset=[Sample(id=one.id, input=one.id, target=one.gold or "") for one in questions],
        solver=recorded({one.id: [path.text or "" for path in one.paths] for one in questions}),
        scorer=pattern(r"\\boxed\{([^}]*)\}"),
        epochs=Epochs(EPOCHS, vote(strategy or "sc", epochs=EPOCHS)),
        early_stopping=EarlyStopping(strategy) if strategy else None,
    )
    [log] = run_inspect(task, model="mockllm/model", max_samples=width, display="none", log_dir=str(folder))
    if log.status != "success" or log.results is None or not log.reductions:
        raise SystemExit(f"inspect_ai: {log.status}: {log.error}")
    answers = {str(score.sample_id): str(score.answer) for score in log.reductions[0].samples}
    return len(log.samples or ()), 100 * log.results.scores[0].metrics["accuracy"].value, answers


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("pool", nargs="?", default=PROBLEMS_POOL, help="with texts and 16 paths per question")
chosen = list(se.Pool(parser.parse_args().pool))
print("strategy        at once  epochs run  voted accuracy  answers of one at a time")
with tempfile.TemporaryDirectory() as name:
    for strategy in (None, "ac", "sure"):
        sequential: dict[str, str] = {}
        for width in (1, 16):
            ran, accuracy, answers = run(chosen, strategy, width, Path(name))
            sequential = sequential or answers
            same = sum(answers[id] == answer for id, answer in sequential.items())
            print(f"{strategy or 'all epochs':14}  {width:7}  {ran:10}  {accuracy:14.1f}  {same:4} of {len(chosen)}")
            if same < len(chosen):
                raise SystemExit("the voted answers depend on the width")
