"""The tables of searches on a GPU: what they count, and what they refuse."""

from __future__ import annotations

import io
import json
import runpy
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from sureenough.core.options import RunOptions
from sureenough.pools.journal import write_lines
from tests.bench.making import live_rows

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu" / "search_vllm.py"


def make_runs(
    folder: Path,
    *,
    strategy: str = "sc",
    questions: int = 3,
    repeat: int = 0,
    outcome: dict[str, Any] | None = None,
    more_terms: dict[str, Any] | None = None,
    **options: Any,
) -> Path:
    """Runs of a strategy as `bench search` leaves them; its file."""
    file = folder / strategy / "live" / "runs.jsonl"
    file.parent.mkdir(parents=True)
    rows = [run for run in live_rows() if run.strategy == "ddc"][:questions]
    changes: dict[str, Any] = {"strategy": strategy, "repeat": repeat}
    runs = [replace(run, **changes, outcome={**run.outcome, **(outcome or {})}) for run in rows]
    terms = asdict(RunOptions(**{"paths": 4, **options})) | (more_terms or {})
    write_lines(file, terms, [asdict(run) for run in runs])
    return file


def tables(*words: Path | str) -> subprocess.CompletedProcess[str]:
    """The script in this process, whose imports it shares; a test below starts one of its own."""
    code, out, err = 0, io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", [str(SCRIPT), "tables", *map(str, words)])
        patch.syspath_prepend(SCRIPT.parent)
        try:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(sys.argv, code, out.getvalue(), err.getvalue())


def refused(*folders: Path) -> str:
    done = tables(*folders)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_every_run_counts_once_and_only_kept_results_have_pages(tmp_path: Path) -> None:
    make_runs(tmp_path / "x", questions=2)
    make_runs(tmp_path / "y", more_terms={"seed": None})
    done = tables(tmp_path / "x", tmp_path / "x", tmp_path / "y")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Qwen3-4B, sc: 3 questions, 3 right, 3,000 tokens")
    assert "report.html" not in done.stdout


def test_repeats_are_runs_of_the_same_questions(tmp_path: Path) -> None:
    make_runs(tmp_path / "x")
    make_runs(tmp_path / "y", repeat=1)
    make_runs(tmp_path / "z", strategy="ac")
    lines = tables(tmp_path / "x", tmp_path / "y", tmp_path / "z").stdout.splitlines()
    assert lines[0] == "Qwen3-4B, sc: 6 runs of 3 questions, 6 right, 6,000 tokens (1,000 per question)"
    assert lines[1].startswith("Qwen3-4B, ac: 3 questions, 3 right, ")
    assert any("questions: 3;" in line for line in lines)
    assert any("repeats 1 to 2;" in line for line in lines)


def test_single_paths_are_graded_if_the_right_answers_are_given(tmp_path: Path) -> None:
    answer = r"\frac{1}{2}"
    votes = {"answer": answer, "votes": {answer: 2.0, "3": 1.0}, "abstained": 1, "counted": 4}
    make_runs(tmp_path, outcome=votes)
    make_runs(tmp_path, strategy="ddc", outcome={**votes, "votes": {"0.5": 1.7}})
    data = tmp_path / "aime25.jsonl"
    data.write_text("".join(f'{{"id": "q{n}", "question": "?", "gold": "0.5"}}\n' for n in range(3)))
    lines = tables(tmp_path, "--dataset", data).stdout.splitlines()
    assert ", 75% of paths with an answer, 50.0% of paths right, " in lines[0]
    assert "of paths right" not in lines[1].partition("; sc on")[0], "confidence decides how much a path's vote counts"
    assert "of paths right" not in tables(tmp_path).stdout
    data.write_text(data.read_text().replace("0.5", "7"))
    assert "of paths right" not in tables(tmp_path, "--dataset", data).stdout, "it is another dataset"


@pytest.mark.parametrize(
    ("votes", "right", "printed"),
    [
        ({"0.5": 3.0, "3": 1.0}, 1.0, "+0.0 points [+0.0, +0.0] to votes over 3 plain paths, which"),
        ({"0.5": 2.0, "3": 1.0}, 0.75, ""),  # with one path without an answer, half of the draws are ties or worse
        ({"0.5": 1.0}, 0.75, ""),
    ],
)
def test_searches_are_set_beside_votes_over_as_many_plain_paths(
    tmp_path: Path, votes: dict[str, float], right: float, printed: str
) -> None:
    plain = {"answer": "0.5", "votes": votes, "abstained": 4 - int(sum(votes.values())), "counted": 4}
    make_runs(tmp_path, outcome=plain)
    make_runs(tmp_path, strategy="mur+sc:runs=3", outcome={"answer": "0.5", "paths": 3})
    data = tmp_path / "aime25.jsonl"
    data.write_text("".join(f'{{"id": "q{n}", "question": "?", "gold": "0.5"}}\n' for n in range(3)))
    line = tables(tmp_path, "--dataset", data).stdout.splitlines()[2]
    assert line.startswith(f"    {printed}")
    assert line.endswith("% and take 750 tokens per question")
    share = float(line.partition(" plain paths, which are right in ")[2].partition("%")[0])
    assert share == pytest.approx(100 * right, abs=5)
    assert float(line.split()[0]) == pytest.approx(100 - share, abs=0.2), "the search is always right"
    assert " plain paths" not in tables(tmp_path).stdout


def test_differences_are_those_to_sc(tmp_path: Path) -> None:
    make_runs(tmp_path, strategy="ac")
    make_runs(tmp_path)
    rows = [line.split()[0] for line in tables(tmp_path).stdout.splitlines() if line.startswith(("ac ", "sc "))]
    assert rows == ["sc", "ac"]


@pytest.mark.parametrize(("options", "reason"), [({"paths": 2}, "paths 2, not 4"), ({"hurry": 0}, "hurry 0, not None")])
def test_one_strategy_under_different_terms_is_refused(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    first, second = make_runs(tmp_path / "x"), make_runs(tmp_path / "y", **options)
    assert f"{second} has sc with {reason} as in {first}" in refused(tmp_path / "x", tmp_path / "y")


def test_paths_of_one_table_are_sampled_alike(tmp_path: Path) -> None:
    for folder, strategy, most in (("x", "sc", 800), ("y", "mur+sc", 900)):
        file = make_runs(tmp_path / folder, strategy=strategy)
        cells = {"aime25--Qwen3-4B": {"temperature": 0.6, "max_path_tokens": most}}
        (file.parents[1] / "plan.json").write_text(json.dumps({"cells": cells}))
    said = refused(tmp_path / "x", tmp_path / "y")
    assert "plan.json has max_path_tokens 900, and " in said
    assert said.endswith(
        "plan.json 800: these runs do not belong in one table; name their folders in commands of their own\n"
    )
    assert tables(tmp_path / "y").returncode == 0
    (tmp_path / "y" / "mur+sc" / "plan.json").write_text('{"cells": 7}')
    assert "plan.json is not the plan of a benchmark; leave its folder out" in refused(tmp_path / "y")


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    damaged = make_runs(tmp_path / "damaged")
    damaged.write_bytes(damaged.read_bytes().replace(b"settled", b"unknown"))
    (tmp_path / "folder" / "sc" / "live" / "runs.jsonl").mkdir(parents=True)
    make_runs(tmp_path / "empty", questions=0)
    make_runs(tmp_path / "good")
    assert f"{damaged}, line 2: the line is damaged" in refused(tmp_path / "damaged")
    assert "runs.jsonl: Is a directory" in refused(tmp_path / "folder")
    assert f"no runs in {tmp_path / 'empty'};" in refused(tmp_path / "empty")
    assert f"no runs in {tmp_path / 'missing'};" in refused(tmp_path / "good", tmp_path / "missing")


def test_a_reader_may_leave(tmp_path: Path) -> None:
    make_runs(tmp_path / "x")
    command = [sys.executable, str(SCRIPT), "tables", str(tmp_path / "x")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0
