"""From questions to a report as a user types it: a live server, a recording, an experiment, a page."""

from __future__ import annotations

import csv
from pathlib import Path

from sureenough.bench.result import read
from tests.bench.making import make_pool
from tests.bench.typed import bench, questions
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread

SMALL = ("--paths", "8", "--window", "8", "-s", "sc ddc:warmup=4", "--jobs", "1")


def test_live_seconds_reach_the_report(tmp_path: Path) -> None:
    dataset, folder = questions(tmp_path / "sums.jsonl", 3), tmp_path / "run"
    with in_thread(serving(Manner(tokens=12, by_prompt=True))) as server:
        words = ("latency", "--dataset", dataset, "--url", server.url, "--model", "org/tiny", "-o", folder, *SMALL)
        done = bench(*words, "--live", "--parallel", "2")
        assert done.returncode == 0, done.stderr
    found = read(folder / "results" / "latency.json")
    assert [(table.name, table.live) for table in found.tables] == [("latency-live", True)]
    with (folder / "report" / "tables" / "latency-latency-live.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["strategy"] for row in rows] == ["sc", "ddc:warmup=4"]
    for row in rows:
        parts = float(row["init, s"]) + float(row["final, s"])
        assert abs(parts - float(row["total, s"])) < 1e-6
        assert "sureenough bench latency" in row["made by"]


def test_two_experiments_on_pools_make_one_report(tmp_path: Path) -> None:
    source, folder = make_pool(tmp_path), tmp_path / "run"
    for name, jobs in (("window", "1"), ("ablation", "2")):
        done = bench(name, "--pool", source.pool, "--repeats", "1", "--jobs", jobs, "-o", folder)
        assert done.returncode == 0, done.stderr
    drawn = {file.name for file in (folder / "report" / "figures").iterdir()}
    names = [f"{name}-{measure}" for name in ("window", "ablation") for measure in ("accuracy", "tokens")]
    assert drawn == {f"{name}.svg" for name in names}
