"""Any number of processes gives the same bits, in the file's order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sureenough as se
from sureenough.bench.experiment import over_pools
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.paper import experiment
from sureenough.bench.pipeline import OpenPool, Source
from sureenough.errors import TraceError, UsageError
from sureenough.pools import Question
from tests.bench.making import inputs, make_pool


def names(question: Question, judged: JudgedAnswers) -> tuple[str, int, bool]:
    """A task that a worker can import."""
    return question.id, len(question.paths), judged.right is not None and judged.right.get("7", False)


def fails(question: Question, judged: JudgedAnswers) -> str:
    if question.id == "q5":
        raise UsageError(f"{question.id} will not do")
    return question.id


def by_name(opened: OpenPool) -> Callable[[Question, JudgedAnswers], tuple[str, int, bool]]:
    return names


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> list[Source]:
    folder = tmp_path_factory.mktemp("pools")
    return [
        make_pool(folder, questions=40, name="large.parquet", dataset="aime24"),
        make_pool(folder, questions=3, name="small.parquet"),
    ]


@pytest.mark.usefixtures("preloaded_workers")
def test_values_come_in_the_files_order_from_any_number_of_processes(pools: list[Source]) -> None:
    one, two = (over_pools(inputs(*pools, jobs=jobs), by_name) for jobs in (1, 2))
    assert [[value[0] for value in result.values] for result in one] == [
        [f"q{i}" for i in range(40)],
        [f"q{i}" for i in range(3)],
    ]
    assert [result.values for result in one] == [result.values for result in two]
    assert all(value[2] for result in two for value in result.values)
    assert [result.opened.judged for result in two] == [40, 3]


@pytest.mark.parametrize("name", ["main", "calibration"])
@pytest.mark.usefixtures("preloaded_workers")
def test_an_experiment_is_the_same_to_the_last_bit(pools: list[Source], name: str) -> None:
    results = [experiment(name).run(inputs(*pools, jobs=jobs, repeats=2, paths=24)) for jobs in (1, 2)]
    assert results[0].tables == results[1].tables
    assert results[0].figures == results[1].figures
    assert results[0].notes == results[1].notes


@pytest.mark.usefixtures("preloaded_workers")
def test_an_error_in_a_worker_is_the_callers_error(pools: list[Source]) -> None:
    for jobs in (1, 2):
        with pytest.raises(UsageError, match="q5 will not do"):
            over_pools(inputs(pools[0], jobs=jobs), lambda opened: fails)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.usefixtures("preloaded_workers")
def test_progress_counts_every_path_once(pools: list[Source], jobs: int) -> None:
    told: list[tuple[int, int]] = []
    over_pools(replace(inputs(*pools, jobs=jobs), progress=lambda done, total: told.append((done, total))), by_name)
    assert told[-1] == (43 * 24, 43 * 24)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


@pytest.mark.usefixtures("preloaded_workers")
def test_a_damaged_pool_is_read_to_its_end_where_asked(pools: list[Source], tmp_path: Path) -> None:
    table = pq.read_table(pools[1].pool)
    confs = table.column("conf").to_pylist()
    confs[0] = confs[0][:-1]
    field = table.schema.field("conf")
    broken = table.set_column(table.schema.get_field_index("conf"), field, pa.array(confs, field.type))
    pq.write_table(broken, tmp_path / "broken.parquet")
    source = Source.of(tmp_path / "broken.parquet")
    with pytest.raises(TraceError, match="row 0"):
        over_pools(inputs(source, jobs=2), by_name)
    (result,) = over_pools(inputs(source, jobs=2, skip_damaged=True), by_name)
    assert (result.opened.damaged, [value[1] for value in result.values]) == (1, [23, 24, 24])


@pytest.mark.parametrize("strategies", [["sc", "ddc", "sure"], ["sure", "sure:delta=0.02"]])
@pytest.mark.usefixtures("preloaded_workers")
def test_a_comparison_is_the_same_to_the_last_bit(pools: list[Source], strategies: list[str]) -> None:
    """`sure` learns from question to question, so one process must run it on all of them in order."""
    one, two = (se.compare(pools[0].pool, strategies, repeats=3, jobs=jobs) for jobs in (1, 2))
    assert any("sure learned" in note for note in one.notes)
    assert (one.rows, one.notes, one.recorded) == (two.rows, two.notes, two.recorded)
