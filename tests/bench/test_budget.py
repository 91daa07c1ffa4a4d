"""One budget of tokens for a whole dataset, replayed and live."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sureenough.bench.experiments import experiment
from sureenough.bench.result import ExperimentResult
from sureenough.errors import UsageError
from tests.bench.making import inputs, make_pool
from tests.bench.typed import MANNER, bench, live_runs, questions, result
from tests.engines.misbehaving import serving
from tests.in_thread import in_thread

WAYS = ["sc, evenly", "sure:delta=0, evenly", "sure with a fixed delta", "allocated"]


def rows_of(found: ExperimentResult) -> list[dict[str, Any]]:
    (table,) = found.tables
    return [dict(zip([column.title for column in table.columns], row, strict=True)) for row in table.rows]


def test_every_way_to_spend_a_budget_stays_within_it(tmp_path: Path) -> None:
    source = make_pool(tmp_path, paths=64)
    found = experiment("budget").run(inputs(source, repeats=2))
    first, *rest = rows_of(found)
    assert (first["spent"], first["budget"], first["vs sc"]) == ("sc", "none", None)
    assert first["tokens"] == first["tokens allowed"]
    assert [row["budget"] for row in rest] == ["1/4"] * 4 + ["1/8"] * 4 + ["1/16"] * 4
    for part in (rest[:4], rest[4:8], rest[8:]):
        assert [row["spent"].rpartition(", 0.")[0] or row["spent"] for row in part] == WAYS
        for row in part:
            assert 0.8 * row["tokens allowed"] < row["tokens"] <= row["tokens allowed"] + 1
        assert part[-1]["allocated minus this"] is None
        for row in part[:-1]:
            gained = part[-1]["accuracy"].value - row["accuracy"].value
            assert row["allocated minus this"].value == pytest.approx(gained)
    (figure,) = found.figures
    assert [len(series.x) for series in figure.series] == [1, 3, 3, 3, 3]


def test_a_total_of_tokens_or_other_parts_may_be_given(tmp_path: Path) -> None:
    source = make_pool(tmp_path)
    halves = rows_of(experiment("budget").run(inputs(source, repeats=1, sweep=(2.0,))))
    assert {row["budget"] for row in halves[1:]} == {"1/2"}
    total = rows_of(experiment("budget").run(inputs(source, repeats=1, total_tokens=1_000)))
    assert [(row["budget"], row["tokens allowed"]) for row in total[1:]] == [("1,000", 1_000)] * 4
    with pytest.raises(UsageError, match="ablation has no budget for all questions together; `bench budget` has"):
        experiment("ablation").run(inputs(source, repeats=1, total_tokens=1_000))


def test_a_line_that_cannot_keep_a_tiny_budget_says_so(tmp_path: Path) -> None:
    lines = rows_of(experiment("budget").run(inputs(make_pool(tmp_path), repeats=1, total_tokens=30)))[1:]
    for line in lines:
        assert line["spent"].endswith(", over the budget") == (line["tokens"] > 30 + 1), line
    assert lines[2]["spent"] == "sure with a fixed delta, 0.5, over the budget"


def test_live_questions_share_the_tokens_and_a_second_command_pays_for_none(tmp_path: Path) -> None:
    dataset, folder = questions(tmp_path / "sums.jsonl", 5), tmp_path / "run"
    command = ("--dataset", dataset, "-o", folder, "--live", "--total-tokens", "300", "--paths", "8", "--window", "8",
               "--parallel", "2", "--jobs", "1", "--model", "org/tiny")  # fmt: skip
    with in_thread(serving(MANNER)) as server:
        done = bench(*command, "--url", server.url)
        assert done.returncode == 0, done.stderr
        paid = len(server.requests)
        runs = live_runs(folder)
        assert [run["question"] for run in runs] == [f"q{n}" for n in range(5)]
        assert {run["strategy"] for run in runs} == {"allocated"}
        spent = sum(run["outcome"]["tokens"]["total"] for run in runs)
        assert 200 < spent < 300 + 2 * 12
        assert sum(run["outcome"]["started"] for run in runs) == paid
        (table,) = result(folder, "budget")["tables"]
        assert table["live"]
        (folder / "results" / "budget.json").unlink()
        assert bench(*command, "--url", server.url).returncode == 0
        (folder / "results" / "budget.json").unlink()
        (folder / "live" / "runs.jsonl").unlink()
        assert bench(*command, "--url", server.url).returncode == 0
        assert len(server.requests) <= paid + 2  # only paths that were cut are sampled again
    assert not list(folder.glob("pools/*.parquet"))


def test_what_a_live_budget_needs(tmp_path: Path) -> None:
    dataset = questions(tmp_path / "sums.jsonl", 2)
    done = bench("budget", "--dataset", dataset, "--live", "-o", tmp_path / "run")
    assert (done.returncode, "give --total-tokens" in done.stderr) == (2, True)
    assert bench("--total-tokens", "0").returncode == 2
    done = bench("main", "--total-tokens", "500", "--json")
    assert (done.returncode, "bench budget" in done.stderr) == (2, True)


def test_the_result_is_plain_json(tmp_path: Path) -> None:
    found = experiment("budget").run(inputs(make_pool(tmp_path), repeats=1))
    assert json.loads(found.to_json())["name"] == "budget"
