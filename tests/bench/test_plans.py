"""Plans: from a file, from flags, from both; what they do not know they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from sureenough.bench.paper import EXPERIMENTS
from sureenough.bench.pipeline import ReplaySettings
from sureenough.bench.plan import BenchPlan, DatasetChoice, EngineChoice, read_plan
from sureenough.bench.run import prepare
from sureenough.core.options import RunOptions
from sureenough.errors import UsageError

TOML = """
experiment = "main"
datasets = ["math500", {dataset = "mine.csv", limit = 5, columns = {question = "text"}}]
strategies = ["sc", "ddc"]
paths = 64
replay-parallel = 4
live = true

[sweeps]
warmup = [8, 16]
tau = [0.9, 0.95]

[[engines]]
model = "Qwen/Qwen3-4B"
url = ["http://a:8000/v1", "http://b:8000/v1"]

[[engines]]
name = "hot"
model = "Qwen/Qwen3-4B"
url = "http://a:8000/v1"
temperature = 1.0
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "plan.toml"
    file.write_text(text)
    return file


def test_sampling_options_hold_for_the_built_in_model() -> None:
    typed = {"datasets": ["math500"]}
    assert read_plan(None, typed, sampling={"temperature": 1.9}).engines == (EngineChoice(temperature=1.9),)
    assert read_plan(None, typed, sampling={}).engines == ()
    assert read_plan(None, {"pools": ["a.parquet"]}, sampling={"temperature": 1.9}).engines == ()
    with pytest.raises(UsageError):
        read_plan(None, {**typed, "engines": 0}, sampling={"temperature": 1.9})


def test_a_file(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, TOML), {"paths": None})
    assert plan.datasets == (DatasetChoice("math500"), DatasetChoice("mine.csv", 5, {"question": "text"}))
    assert (plan.options.paths, plan.budget, plan.replay_parallel, plan.settings.repeats, plan.live) == (
        64,
        64,
        4,
        5,
        True,
    )
    assert plan.options.parallel == 16
    assert plan.engines[0].urls == ("http://a:8000/v1", "http://b:8000/v1")
    assert (plan.engines[1].urls, plan.engines[1].temperature) == (("http://a:8000/v1",), 1.0)
    assert plan.specs() == (
        "sc", "ddc:warmup=8,tau=0.9", "ddc:warmup=8,tau=0.95", "ddc:warmup=16,tau=0.9", "ddc:warmup=16,tau=0.95",
    )  # fmt: skip


def test_what_is_typed_wins(tmp_path: Path) -> None:
    typed = {"paths": 8, "datasets": ["aime24"], "limit": 3, "sweeps": {"warmup": ["4"]}, "repeats": None}
    plan = read_plan(written(tmp_path, TOML), typed)
    assert (plan.options.paths, plan.datasets, plan.settings.repeats) == (8, (DatasetChoice("aime24", 3),), 5)
    assert plan.specs() == ("sc", "ddc:warmup=4")


@pytest.mark.parametrize(("typed", "limits"), [({}, [9, 5]), ({"limit": 2}, [2, 2])])
def test_a_typed_limit_wins_over_a_datasets_own_which_wins_over_that_of_all(
    tmp_path: Path, typed: dict[str, int], limits: list[int]
) -> None:
    plan = read_plan(written(tmp_path, "limit = 9\n" + TOML), typed)
    assert [one.limit for one in plan.datasets] == limits


def test_without_a_word_it_is_the_papers_budget() -> None:
    assert (BenchPlan().budget, BenchPlan().specs()) == (512, None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pahts = 3", r"unknown key 'pahts'; known: 'experiment', 'datasets', 'engines'"),
        ("[[engines]]\nmodle = 'x'", r"engines: unknown key 'modle'; known: 'model', 'url'"),
        ("datasets = [{name = 'x'}]", r"datasets: unknown key 'name'; known: 'dataset', 'limit'"),
        ("datasets = [3]", r"3 is not a table of dataset"),
        ("paths = 'many'", r"Expected `int \| null`, got `str`"),
        ("paths = 0", r"paths is 0; it must be a whole number of at least 1"),
        ("repeats = 0", "repeats is 0"),
        ("jobs = 0", "jobs is 0"),
        ("hurry = 'size'", r"Expected `float \| null`, got `str`"),
        ("live_repeats = 0", "live_repeats is 0"),
        ("equal = 'sound'", r"Invalid enum value 'sound'"),
        ("strategies = ['ddx']", r"unknown strategy 'ddx' \(did you mean 'ddc'\?\)"),
        ("strategies = ['sc']\nsweeps = {warmup = [8]}", r"none of sc has an option 'warmup' to sweep"),
        ("sweeps = {warmup = [8]}", r"a sweep needs strategies"),
        ("strategies = ['ddc']\nsweeps = {warmup = [0]}", r"warmup=0 will not do"),
        ("engines = [{model = 'a'}, {model = 'a'}]", r"two engines are called 'a'"),
        ("paths = ", r"cannot be used"),
        (None, "No such file"),
    ],
)
def test_what_no_plan_says(tmp_path: Path, text: str | None, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_plan(tmp_path / "none.toml" if text is None else written(tmp_path, text), {})


def test_every_option_of_a_run_and_of_the_replay_is_a_key(tmp_path: Path) -> None:
    text = "max_tokens = 9\ndeadline = 1.5\nhurry = 1.5\nseed = 3\njobs = 2\n"
    plan = read_plan(written(tmp_path, text + "skip-damaged = true\n"), {})
    assert plan.options == RunOptions(parallel=16, max_tokens=9, deadline=1.5, hurry=1.5, seed=3)
    assert plan.settings == ReplaySettings(jobs=2, skip_damaged=True)


@pytest.mark.parametrize(
    ("text", "live", "replayed"), [("", 0.6, None), ("hurry = 1", 1, 1), ("hurry = inf", None, None)]
)
def test_live_runs_have_a_hurry_by_default_and_recorded_paths_one_that_is_given(
    tmp_path: Path, text: str, live: float | None, replayed: float | None
) -> None:
    prepared = prepare(read_plan(written(tmp_path, text), {}), EXPERIMENTS["main"], [])
    inputs = prepared.inputs([], [], lambda done, total: None, "")
    assert (prepared.plan.options.hurry, inputs.options.hurry) == (live, replayed)
