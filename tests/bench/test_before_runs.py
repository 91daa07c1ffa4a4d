"""`sureenough bench` before anything is paid: estimates, what is refused, and whose word counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench.typed import MANNER, SMALL, bench, on, questions
from tests.engines.misbehaving import serving
from tests.in_thread import in_thread
from tests.processes import configured


def test_an_estimate_samples_a_few_paths_and_keeps_nothing(tmp_path: Path) -> None:
    dataset, folder = questions(tmp_path / "sums.jsonl", 4), tmp_path / "run"
    money = configured(tmp_path, "price-in = 1000\nprice-out = 1000\n")
    with in_thread(serving(MANNER)) as server:
        command = on(server.url, dataset, folder)
        done = bench(*command, "--live", "--dry-run", **money)
        assert done.returncode == 0, done.stderr
        head = "sums on org/tiny: 4 questions, 32 paths; 8 live runs. Estimated from 4 sampled paths:\nat most "
        assert done.stdout.startswith(head + "1,440 tokens (15 per path) and ")
        assert " at the given prices." in done.stdout
        assert (len(server.requests), folder.exists()) == (4, False)
        assert bench(*command).returncode == 0
        done = bench(*command, "--dry-run")
        assert (
            done.stdout
            == "sums on org/tiny: 4 questions, 32 paths, all of them recorded: there is nothing to sample.\n"
        )
        dearer = bench(*command, "--dry-run", "--paths", "16")  # an estimate binds nobody
        assert "64 paths, of which 32 are missing. Estimated from 4" in dearer.stdout
        live = bench(*command, "--live", "--dry-run").stdout
        assert "32 paths, all of them recorded; 8 live runs. Estimated from 4" in live
        assert "\nabout " in live, "what live runs take is known from the paths"
        two = bench(*command, "--dataset", questions(tmp_path / "more.jsonl", 2), "--dry-run").stdout
        assert two.splitlines()[-1].startswith("In all about 240 tokens and ")


def test_an_estimate_needs_an_engine_that_responds(tmp_path: Path) -> None:
    done = bench(*on("http://127.0.0.1:9/v1", questions(tmp_path / "sums.jsonl", 4), tmp_path / "run"), "--dry-run")
    assert (done.returncode, done.stdout, (tmp_path / "run").exists()) == (3, "", False)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (("nope",), "unknown experiment 'nope'; known: main"),
        (("main", "--url", "http://127.0.0.1:9/v1", "--model", "m"), "which questions?"),
        (("main", "--live"), "--live needs questions to ask"),
        (("main", "-s", "sc phi+sc"), "phi+sc samples as it searches, and main replays recorded paths"),
        (("search",), "search samples as it goes: give --dataset"),
        (("main", "--pool", "none.parquet"), "no such file"),
        (("main", "--sweep", "8,16"), "main has no sweep of its own; to sweep an option of the strategies"),
        (("main", "--seed", "-5"), "--seed is -5"),
        (("main", "--paths", "0"), "--paths is 0"),
        (("main", "--sweep", "a,b"), "--sweep a,b: give numbers such as 8,16,32"),
        (("window", "-s", "sc"), "window has strategies of its own"),
        (("main", "--limit", "2", "--dataset", "arith", "--url", "http://127.0.0.1:9/v1", "--model", "m", "--paths",
          "8", "-s", "ddc"), "ddc warms up with 16 paths, the budget is 8"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_paid(said: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = bench(*said, "-o", tmp_path / "run")
    assert done.returncode == 2, done
    assert says in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = bench("main", "-o", tmp_path / "file" / "run")
    assert done.returncode == 2
    assert "cannot make the run folder" in done.stderr
    assert os.listdir(tmp_path) == ["file"]


def test_the_environment_names_a_server_only_where_questions_are_asked(tmp_path: Path) -> None:
    dataset = questions(tmp_path / "sums.jsonl", 1)
    with in_thread(serving(MANNER)) as server:
        said = {"SUREENOUGH_URL": server.url, "SUREENOUGH_MODEL": "named"}
        replayed = bench("main", "-s", "sc", "--repeats", "1", "-o", tmp_path / "replayed", "--jobs", "1", **said)
        assert replayed.returncode == 0, replayed.stderr
        assert not server.requests
        asked = bench("main", "--dataset", dataset, "-o", tmp_path / "asked", *SMALL, **said)
        assert asked.returncode == 0, asked.stderr
        assert {one["model"] for one in server.requests} == {"named"}
        config = tmp_path / "defaults.toml"
        config.write_text(f'url = "{server.url}"\nmodel = "written"\n[bench]\nstrategy = "sc"\n')
        small = ("--paths", "2", "--window", "8", "--jobs", "1")
        by_file = bench("main", "--dataset", dataset, "-o", tmp_path / "by-file", *small, SUREENOUGH_CONFIG=str(config))
        assert by_file.returncode == 0, by_file.stderr
        assert server.requests[-1]["model"] == "written"


def test_what_is_typed_wins_over_a_plans_engines(tmp_path: Path) -> None:
    dataset = questions(tmp_path / "sums.jsonl", 1)
    plan = tmp_path / "plan.toml"
    with in_thread(serving(MANNER)) as server:
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
    done = bench(*on("http://127.0.0.1:9/v1", one, tmp_path / "run"), "--dataset", same, "--dry-run")
    assert (done.returncode, "would be kept as sums--org-tiny" in done.stderr) == (2, True), done.stderr
    with in_thread(serving(MANNER)) as server:
        assert bench(*on(server.url, one, tmp_path / "run"), "--dataset", two, "--dry-run").returncode == 0
