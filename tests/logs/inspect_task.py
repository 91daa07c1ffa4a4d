"""A task of Inspect on problems for the built-in model; every epoch has the seed of a path that we record."""

from __future__ import annotations

from typing import Any

from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import Sample, csv_dataset
from inspect_ai.scorer import pattern
from inspect_ai.solver import Generate, TaskState, solver

from sureenough.core.events import path_seed
from sureenough.inspect import EarlyStopping, vote


@solver  # type: ignore[untyped-decorator]
def sampled_as_recorded() -> Any:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return await generate(state, seed=path_seed(0, state.epoch - 1))

    return solve


@task  # type: ignore[untyped-decorator]
def sums(questions: str, epochs: int = 6, stop: bool = False) -> Task:
    samples = csv_dataset(questions, lambda row: Sample(id=row["id"], input=row["question"], target=row["gold"]))
    return Task(
        dataset=samples,
        solver=sampled_as_recorded(),
        scorer=pattern(r"\\boxed\{([^}]*)\}"),
        epochs=Epochs(epochs, vote("sure" if stop else "sc", epochs=epochs)),
        early_stopping=EarlyStopping("sure") if stop else None,
    )
