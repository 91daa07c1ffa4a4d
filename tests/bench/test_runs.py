"""`sureenough bench` on live servers: what it leaves in its folder, and what happens when things break."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sureenough.traces import Pool
from tests.bench.serving import in_a_thread
from tests.bench.test_datasets import gpqa
from tests.bench.typed import bench, environ, live_runs, questions, result, until, words
from tests.engines.misbehaving import Manner

MANNER = Manner(tokens=12, by_prompt=True)
SMALL = ("--paths", "8", "--window", "8", "-s", "sc ddc:warmup=4", "--jobs", "1")


def on(url: str, dataset: str | Path, folder: Path) -> tuple[str | Path, ...]:
    return ("main", "--dataset", dataset, "--url", url, "--model", "org/tiny", "-o", folder, *SMALL)


def lines_of(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


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
    with in_a_thread(MANNER) as server:
        done = bench(*on(server.url, dataset, folder), "--live", "--live-repeats", "2", "--parallel", "2")
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
    with in_a_thread(MANNER) as a, in_a_thread(MANNER) as b:
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
    with in_a_thread(MANNER) as server:
        command = on(server.url, dataset, folder)
        assert bench(*command).returncode == 0
        for more, says in {
            ("--paths", "6"): "paths was 8, is 6",
            ("--seed", "3"): "seed was 0, is 3",
            ("-s", "sc"): "strategies was sc ddc:warmup=4, is sc ddc:warmup=4",
            ("--temperature", "0.9"): "temperature was 0.6, is 0.9",
            ("--template", "{question}!"): "template was {question}",
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
    with in_a_thread(Manner(tokens=500, delay=0.05)) as server:
        with subprocess.Popen(words(*on(server.url, dataset, folder)), env=environ(), stderr=subprocess.DEVNULL) as one:
            until(lambda: server.running)
            done = bench(*on(server.url, dataset, folder))
            one.kill()
        assert done.returncode == 2
        assert f"another `sureenough bench` is at work in {folder}" in done.stderr


@pytest.mark.parametrize("live", [(), ("--live",)], ids=["recording", "live"])
def test_an_engine_that_dies_in_the_middle_of_a_cell(live: tuple[str, ...], tmp_path: Path) -> None:
    dataset, folder = questions(tmp_path / "sums.jsonl", 4), tmp_path / "run"
    watched = folder / ("live/runs.jsonl" if live else "pools/sums--org-tiny.parquet.journal")
    with process("tokens=20", "delay=0.001", "by_prompt=True") as (url, server):
        command = [*on(url, dataset, folder), "--parallel", "2", "--first-token", "5", *live]
        with subprocess.Popen(words(*command), env=environ(), stderr=subprocess.PIPE, text=True) as running:
            until(lambda: running.poll() is not None or lines_of(watched) > 2)
            server.send_signal(signal.SIGKILL)
            _, said = running.communicate(timeout=100)
    assert running.returncode == 3, said
    assert "the same command goes on" in said
    assert "Traceback" not in said
    kept = watched.read_text().splitlines()
    assert len(kept) > 2
    with process("tokens=20", "by_prompt=True") as (url, _):  # at another address: where it is served is no part of it
        done = bench(*on(url, dataset, folder), "--parallel", "2", "--first-token", "5", *live)
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
    "runs.jsonl": (6_500, 1, ("--paths", "4", "--live", "--live-repeats", "8")),
    "main.json": (8_000, 1, MANY),
}


@pytest.mark.parametrize("place", FULL)
def test_a_full_disk_loses_nothing(place: str, tmp_path: Path) -> None:
    room, number, more = FULL[place]
    dataset, folder = questions(tmp_path / "sums.jsonl", number), tmp_path / "run"
    with in_a_thread(MANNER) as server:
        command = [*on(server.url, dataset, folder), "--parallel", "2", *more]
        full = subprocess.run(
            words(*command), capture_output=True, text=True, timeout=60, check=False, env=environ(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
        )  # fmt: skip
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
    with in_a_thread(Manner(tokens=20, delay=0.002)) as server:
        command = words(*on(server.url, dataset, folder), "--parallel", "2")
        with subprocess.Popen(command, env=environ(), stderr=subprocess.PIPE, text=True) as running:
            until(lambda: lines_of(journal) > 2)
            running.send_signal(signal.SIGINT)
            _, said = running.communicate(timeout=30)
    assert running.returncode == 130, said
    assert f"Interrupted. What was done is kept in {folder}; the same command goes on." in said
    assert "Traceback" not in said


def test_text_that_its_authors_keep_unpublished_is_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with in_a_thread(Manner(tokens=4, answer="B")) as server:
        done = bench(*on(server.url, f"gpqa-diamond={gpqa(tmp_path / 'gpqa.csv')}", folder), "--limit", "2", "--live")
        assert done.returncode == 0, done.stderr
        assert "Which is 0?" in json.dumps(server.requests[0])
    for file in (file for file in folder.rglob("*") if file.is_file()):
        assert b"Which is" not in file.read_bytes(), file
    pool = Pool(folder / "pools" / "gpqa-diamond--org-tiny.parquet")
    assert [path.text for question in pool for path in question.paths] == [None] * 16


def test_an_estimate_of_nothing_known_is_a_bound(tmp_path: Path) -> None:
    dataset = questions(tmp_path / "sums.jsonl", 4)
    done = bench(*on("http://127.0.0.1:9/v1", dataset, tmp_path / "run"), "--dry-run", "--max-path-tokens", "1000")
    assert done.returncode == 0, done.stderr
    assert "4 questions, 32 paths to record (0 are there), at most 32,000 tokens (no path is known" in done.stdout
    assert "How long it takes is not known yet" in done.stdout
    assert not (tmp_path / "run").exists()


def test_sampled_paths_make_an_estimate_and_are_not_sampled_again(tmp_path: Path) -> None:
    dataset, folder = questions(tmp_path / "sums.jsonl", 4), tmp_path / "run"
    money = ("--price-in", "1000", "--price-out", "1000")
    with in_a_thread(MANNER) as server:
        command = (*on(server.url, dataset, folder), "--live")
        done = bench(*command, "--dry-run", "--sample", "3", *money)
        assert done.returncode == 0, done.stderr
        assert "29 paths to record (3 are there), about 435 tokens (by its own paths)" in done.stdout
        assert "8 live runs, at most 960 tokens" in done.stdout
        assert "In all at most 1,395 tokens" in done.stdout
        assert "At the prices given it costs at most " in done.stdout
        assert len(server.requests) == 3
        dearer = bench(*command, "--dry-run", "--paths", "16")  # an estimate binds nobody
        assert "61 paths to record (3 are there)" in dearer.stdout
        assert bench(*command).returncode == 0
        recorded = [(json.dumps(one["messages"]), one["seed"]) for one in server.requests[:32]]
        assert len(set(recorded)) == 32
        done = bench(*command, "--dry-run")
        assert "0 paths to record (32 are there), about 0 tokens" in done.stdout


def test_lengths_borrowed_from_a_pool(tmp_path: Path) -> None:
    from sureenough.data import BUILTIN_POOL

    dataset = questions(tmp_path / "sums.jsonl", 4)
    said = (*on("http://127.0.0.1:9/v1", dataset, tmp_path / "run"), "--dry-run", "--like", BUILTIN_POOL)
    done = bench(*said)
    assert done.returncode == 0, done.stderr
    assert "about 13,347 tokens (by the paths of builtin.parquet)" in done.stdout


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (("nope",), "unknown experiment 'nope'; known: main"),
        (("main", "--url", "http://127.0.0.1:9/v1", "--model", "m"), "which questions?"),
        (("main", "--live"), "--live needs questions to ask"),
        (("main", "--pool", "none.parquet"), "no such file"),
        (("main", "--map", "question=x"), "--map, --kind and --template are of a --dataset"),
        (("main", "--sweep", "a,b"), "--sweep a,b: give numbers such as 8,16,32"),
        (("main", "--limit", "2", "--dataset", "arith", "--url", "http://127.0.0.1:9/v1", "--model", "m", "--paths",
          "8", "-s", "ddc"), "ddc warms up with 16 paths, the plan records 8"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_paid(said: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = bench(*said, "-o", tmp_path / "run")
    assert done.returncode == 2, done
    assert says in done.stderr
    assert not (tmp_path / "run").exists()


def test_names_are_listed() -> None:
    done = bench()
    assert done.returncode == 0
    assert "  main " in done.stdout
    assert "  math500          500  MATH-500" in done.stdout


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = bench("main", "-o", tmp_path / "file" / "run")
    assert done.returncode == 2
    assert "cannot make the run folder" in done.stderr
    assert os.listdir(tmp_path) == ["file"]


def test_the_environment_names_a_server_only_where_questions_are_asked(tmp_path: Path) -> None:
    dataset = questions(tmp_path / "sums.jsonl", 1)
    with in_a_thread(MANNER) as server:
        said = {"SUREENOUGH_URL": server.url, "SUREENOUGH_MODEL": "named", "SUREENOUGH_TEMPERATURE": "0.3"}
        replayed = bench("main", "-s", "sc", "--repeats", "1", "-o", tmp_path / "replayed", "--jobs", "1", **said)
        assert replayed.returncode == 0, replayed.stderr
        assert not server.requests
        asked = bench("main", "--dataset", dataset, "-o", tmp_path / "asked", *SMALL, **said)
        assert asked.returncode == 0, asked.stderr
        assert {(one["model"], one["temperature"]) for one in server.requests} == {("named", 0.3)}
        config = tmp_path / "defaults.toml"
        config.write_text(f'url = "{server.url}"\nmodel = "written"\n[bench]\nstrategy = "sc"\n')
        small = ("--paths", "2", "--window", "8", "--jobs", "1")
        by_file = bench("main", "--dataset", dataset, "-o", tmp_path / "by-file", *small, SUREENOUGH_CONFIG=str(config))
        assert by_file.returncode == 0, by_file.stderr
        assert server.requests[-1]["model"] == "written"


def test_what_is_typed_wins_over_a_plans_engines(tmp_path: Path) -> None:
    dataset = questions(tmp_path / "sums.jsonl", 1)
    plan = tmp_path / "plan.toml"
    with in_a_thread(MANNER) as server:
        plan.write_text(f"datasets = ['{dataset}']\n[[engines]]\nmodel = 'planned'\nurl = '{server.url}'\n")
        said = {"SUREENOUGH_URL": "http://127.0.0.1:9/v1", "SUREENOUGH_MODEL": "elsewhere"}
        one = bench("--plan", plan, *SMALL, "--temperature", "0.9", "-o", tmp_path / "one", **said)
        assert one.returncode == 0, one.stderr
        assert {(r["model"], r["temperature"]) for r in server.requests} == {("planned", 0.9)}
        typed = ("--url", server.url, "--model", "typed")
        assert bench("--plan", plan, *SMALL, *typed, "-o", tmp_path / "two").returncode == 0
        assert server.requests[-1]["model"] == "typed"


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    one, two = questions(tmp_path / "sums.jsonl", 1), questions(tmp_path / "more" / "sums.csv.jsonl", 1)
    same = questions(tmp_path / "more" / "sums.jsonl", 1)
    url = "http://127.0.0.1:9/v1"
    done = bench(*on(url, one, tmp_path / "run"), "--dataset", same, "--dry-run")
    assert (done.returncode, "would be kept as sums--org-tiny" in done.stderr) == (2, True), done.stderr
    assert bench(*on(url, one, tmp_path / "run"), "--dataset", two, "--dry-run").returncode == 0
