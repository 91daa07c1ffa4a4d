"""A run folder of version 0.1: its plan agrees, its pool, journal and live runs are used, its result is shown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from sureenough.bench.live import read_runs
from sureenough.bench.report import build, saved
from sureenough.bench.result import Cell, Measure, Table, read
from tests.bench.typed import MANNER, bench, on
from tests.engines.misbehaving import serving
from tests.in_thread import in_thread

OLD = Path(__file__).parent / "data" / "run-0.1"
COMMAND = ("--live", "--paths", "4", "--parallel", "2")


def test_a_run_folder_of_0_1_goes_on(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "old")
    folder = tmp_path / "old" / "run"
    (folder / "results" / "main.json").unlink()
    plan = json.loads((folder / "plan.json").read_text())
    with in_thread(serving(MANNER)) as server:
        command = (*on(server.url, tmp_path / "old" / "sums.jsonl", folder), *COMMAND)
        done = bench(*command)
        assert done.returncode == 0, done.stderr
        assert not server.requests, "paths and live runs of the old version are used"
        assert json.loads((folder / "plan.json").read_text()) == plan
        other = bench(*command, "--seed", "1")
        assert (other.returncode, "seed was 0, is 1" in other.stderr) == (2, True)
    old, new = read(OLD / "run" / "results" / "main.json"), read(folder / "results" / "main.json")
    now = {table.name: by_column(table) for table in new.tables}
    for table in old.tables:
        assert now[table.name] == by_column(table)


def by_column(table: Table) -> list[dict[str, Cell]]:
    """The rows of a table in any order of columns; 0.1 gave a first row an interval of its difference to itself."""
    titles = [column.title for column in table.columns]
    rows = [dict(zip(titles, row, strict=True)) for row in table.rows]
    for row in rows:
        if row.get("vs first") == Measure(0.0, 0.0, 0.0):
            row["vs first"] = Measure(0.0, None, None)
    return rows


def test_results_and_live_runs_of_0_1_are_read(tmp_path: Path) -> None:
    (result,) = saved(OLD / "run")
    assert result.tables[0].rows
    assert build([result], tmp_path, title="old").page.exists()
    runs = read_runs(OLD / "run" / "live" / "runs.jsonl")
    started = [(run.strategy, run.question, run.outcome["started"]) for run in runs[:2]]
    assert started == [("sc", "q0", 4), ("sc", "q1", 4)]
