"""`sureenough bench` on live servers: what it leaves in its folder, and what happens when things break."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sureenough.bench.result import read
from sureenough.bench.run import RunFolder
from sureenough.errors import UsageError
from sureenough.pools import Pool
from tests.bench.test_datasets import gpqa
from tests.bench.typed import MANNER, SMALL, bench, live_runs, on, questions, result, start_bench
from tests.cli.recording import lines
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread, until
from tests.processes import CLEAN, configured, sureenough


@contextmanager
def process(*manner: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server that can be killed."""
    command = [sys.executable, "-m", "tests.engines.serve", *manner]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip(), server
        finally:
            server.kill()


def test_record_once_compare_all_and_live_beside_it(tmp_path: Path) -> None:
    dataset, folder = questions(tmp_path / "sums.jsonl", 4), tmp_path / "run"
    with in_thread(serving(MANNER)) as server:
        plan = tmp_path / "plan.toml"
        plan.write_text("live-repeats = 2\n")
        done = bench(*on(server.url, dataset, folder), "--plan", plan, "--live", "--parallel", "2")
        assert done.returncode == 0, done.stderr
        # Every path is sampled once for all replays; live runs are paid apart.
        sampled = {(json.dumps(one["messages"]), one["seed"]) for one in server.requests[: 4 * 8]}
        assert len(sampled) == 4 * 8
    pool = Pool(folder / "pools" / "sums--org-tiny.parquet")
    assert (pool.info.dataset, pool.info.model, pool.rows) == ("sums", "org/tiny", 32)
    assert not list(folder.glob("pools/*.journal"))
    found = result(folder)
    assert {table["live"] for table in found["tables"]} == {True, False}
    runs = live_runs(folder)
    keys = [(run["strategy"], run["question"], run["repeat"]) for run in runs]
    assert len(set(keys)) == len(keys) == 2 * 4 * 2
    for run in runs:
        assert run["outcome"]["reason"] in ("settled", "budget")
        assert run["init_seconds"] >= 0 <= run["final_seconds"]
        assert (run["init_seconds"] > 0) == run["strategy"].startswith("ddc")
        assert isinstance(run["right"], bool)
    assert "cell 1 of 3, recording sums on org/tiny: 0 of 32 paths, 0 of 4 questions" in done.stderr
    assert "cell 3 of 3, ddc:warmup=4 live, sums on org/tiny: 0 of 8 runs" in done.stderr


def test_two_datasets_two_engines_two_servers_each(tmp_path: Path) -> None:
    one, two = questions(tmp_path / "one.jsonl", 2), questions(tmp_path / "two.jsonl", 3)
    with in_thread(serving(MANNER)) as a, in_thread(serving(MANNER)) as b:
        plan = tmp_path / "plan.toml"
        plan.write_text(
            f"experiment = 'main'\ndatasets = ['{one}', '{two}']\nstrategies = ['sc', 'ac']\npaths = 4\nwindow = 8\n"
            f"[[engines]]\nmodel = 'm'\nurl = ['{a.url}', '{b.url}']\n"
            f"[[engines]]\nmodel = 'm'\nname = 'hot'\nurl = '{a.url}'\ntemperature = 1.5\n"
        )
        done = bench("--plan", plan, "-o", tmp_path / "run", "--jobs", "1")
        assert done.returncode == 0, done.stderr
        assert min(len(a.requests) - 20, len(b.requests)) > 0
        assert len(a.requests) + len(b.requests) == 2 * 4 * 5
        assert {request["temperature"] for request in b.requests} == {0.6}
    assert sorted(file.name for file in (tmp_path / "run" / "pools").iterdir()) == [
        "one--hot.parquet", "one--m.parquet", "two--hot.parquet", "two--m.parquet",
    ]  # fmt: skip


def test_another_plan_in_the_same_folder_is_refused_with_what_changed(tmp_path: Path) -> None:
    dataset, folder = questions(tmp_path / "sums.jsonl", 2), tmp_path / "run"
    with in_thread(serving(MANNER)) as server:
        command = on(server.url, dataset, folder)
        assert bench(*command).returncode == 0
        for more, says in {
            ("--paths", "6"): "paths was 8, is 6",
            ("--seed", "3"): "seed was 0, is 3",
            ("-s", "sc"): "strategies was sc ddc:warmup=4, is sc ddc:warmup=4",
            ("--temperature", "0.9"): "temperature was 0.6, is 0.9",
            ("--repeats", "2"): "repeats was 5, is 2",
            ("--live",): "live was not given, is 1 repeat, 16 paths at once",
        }.items():
            done = bench(*command, *more)
            if more == ("-s", "sc"):  # the same strategies, said twice, are the same plan
                assert done.returncode == 0
                continue
            assert done.returncode == 2, (more, done.stderr)
            assert f"{folder} was begun with another plan. What changed: " in done.stderr
            assert says in done.stderr
        dataset.write_text(dataset.read_text().replace("0 + 1?", "0 + 2?"))
        done = bench(*command)
        assert (done.returncode, "sums--org-tiny: content was " in done.stderr) == (2, True)


def test_one_at_a_time_in_a_folder(tmp_path: Path) -> None:
    dataset, folder = questions(tmp_path / "sums.jsonl", 4), tmp_path / "run"
    with in_thread(serving(Manner(tokens=500, delay=0.05))) as server:
        with start_bench(*on(server.url, dataset, folder)) as one:
            until(lambda: server.running)
            done = bench(*on(server.url, dataset, folder))
            one.kill()
        assert done.returncode == 2
        assert f"{folder} is being written by process {one.pid} on " in done.stderr


@pytest.mark.parametrize("live", [(), ("--live",)], ids=["recording", "live"])
def test_an_engine_that_dies_in_the_middle_of_a_cell(live: tuple[str, ...], tmp_path: Path) -> None:
    dataset, folder = questions(tmp_path / "sums.jsonl", 4), tmp_path / "run"
    watched = folder / ("live/runs.jsonl" if live else "pools/sums--org-tiny.parquet.journal")
    with process("tokens=20", "delay=0.001", "by_prompt=True") as (url, server):
        command = [*on(url, dataset, folder), "--parallel", "2", *live]
        patience = configured(tmp_path, "first-token = 5\n")
        with start_bench(*command, **patience) as running:
            until(lambda: running.poll() is not None or lines(watched) > 2)
            server.send_signal(signal.SIGKILL)
            _, said = running.communicate(timeout=100)
    assert running.returncode == 3, said
    assert "the same command goes on" in said
    assert "Traceback" not in said
    kept = watched.read_text().splitlines()
    assert len(kept) > 2
    with process("tokens=20", "by_prompt=True") as (url, _):  # at another address: where it is served is no part of it
        done = bench(*on(url, dataset, folder), "--parallel", "2", *live, **patience)
    assert done.returncode == 0, done.stderr
    assert Pool(folder / "pools" / "sums--org-tiny.parquet").rows == 32
    if live:
        assert watched.read_text().splitlines()[: len(kept)] == kept
        runs = live_runs(folder)
        assert len(runs) == 2 * 4
        assert {run["outcome"]["reason"] for run in runs} <= {"settled", "budget"}  # half a question is no measurement


MANY = ("-s", "sc ac esc deepconf-low:warmup=4 deepconf-high:warmup=4 ddc:warmup=4 sure ddc-no-trend:warmup=4")
FULL = {
    "plan.json": (400, 2, ()),
    "sums--org-tiny.parquet.journal": (3_000, 2, ()),
    "sums--org-tiny.parquet": (3_000, 1, ("--paths", "4")),
    "runs.jsonl": (6_500, 1, ("--paths", "4", "--live")),
    "main.json": (8_000, 1, MANY),
}


@pytest.mark.parametrize("place", FULL)
def test_a_full_disk_loses_nothing(place: str, tmp_path: Path) -> None:
    room, number, more = FULL[place]
    dataset, folder = questions(tmp_path / "sums.jsonl", number), tmp_path / "run"
    (tmp_path / "plan.toml").write_text("live-repeats = 8\n")
    with in_thread(serving(MANNER)) as server:
        command = [*on(server.url, dataset, folder), "--plan", tmp_path / "plan.toml", "--parallel", "2", *more]
        full = sureenough("bench", *command, env=CLEAN, largest_file=room)
        assert full.returncode == 2, full
        assert f"/{place}: " in full.stderr
        assert "File too large" in full.stderr
        assert "make room and give the same command again" in full.stderr
        assert "Traceback" not in full.stderr
        safe = len(list(folder.glob("pools/*.parquet"))), len(server.requests)
        done = bench(*command)
        assert done.returncode == 0, done.stderr
        if place == "main.json":  # all that was sampled was there
            assert safe == (1, len(server.requests))
    assert Pool(folder / "pools" / "sums--org-tiny.parquet").rows == number * (4 if "4" in more else 8)


def test_ctrl_c_keeps_what_there_is(tmp_path: Path) -> None:
    dataset, folder = questions(tmp_path / "sums.jsonl", 4), tmp_path / "run"
    journal = folder / "pools" / "sums--org-tiny.parquet.journal"
    with (
        in_thread(serving(Manner(tokens=20, delay=0.002))) as server,
        start_bench(*on(server.url, dataset, folder), "--parallel", "2") as running,
    ):
        until(lambda: lines(journal) > 2)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    assert running.returncode == 130, said
    assert f"Interrupted. The results so far are in {folder}; the same command continues." in said
    assert "Traceback" not in said


def test_text_that_its_authors_keep_unpublished_is_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with in_thread(serving(Manner(tokens=4, answer="B"))) as server:
        done = bench(*on(server.url, f"gpqa-diamond={gpqa(tmp_path / 'gpqa.csv')}", folder), "--limit", "2", "--live")
        assert done.returncode == 0, done.stderr
        assert "Which is 0?" in json.dumps(server.requests[0])
    for file in (file for file in folder.rglob("*") if file.is_file()):
        assert b"Which is" not in file.read_bytes(), file
    pool = Pool(folder / "pools" / "gpqa-diamond--org-tiny.parquet")
    assert [path.text for question in pool for path in question.paths] == [None] * 16


def test_a_file_named_lock_of_somebody_else_stays(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("my notes")
    with pytest.raises(UsageError, match="is not the lock of a run, and would be removed; give another folder"):
        RunFolder(tmp_path)
    assert (tmp_path / "lock").read_text() == "my notes"
    assert [file.name for file in tmp_path.iterdir()] == ["lock"]
    for blank in ("", "\0" * 50):
        (tmp_path / "lock").write_text(blank)
        with RunFolder(tmp_path):
            pass
        assert not (tmp_path / "lock").exists()


def test_live_seconds_reach_the_report(tmp_path: Path) -> None:
    dataset, folder = questions(tmp_path / "sums.jsonl", 3), tmp_path / "run"
    with in_thread(serving(MANNER)) as server:
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
