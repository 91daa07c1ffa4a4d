"""The tables of searches on a GPU: what they count, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sureenough.bench.live import live_terms
from sureenough.core.options import RunOptions
from sureenough.pools.json_lines import write_lines
from tests.bench.making import live_rows

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu" / "search_vllm.py"


def make_runs(
    folder: Path,
    *,
    strategy: str = "sc",
    questions: int = 3,
    more_terms: dict[str, Any] | None = None,
    **options: Any,
) -> Path:
    """Runs of a strategy as `bench search` leaves them; its file."""
    file = folder / strategy / "live" / "runs.jsonl"
    file.parent.mkdir(parents=True)
    runs = [replace(run, strategy=strategy) for run in live_rows() if run.strategy == "ddc"][:questions]
    terms = live_terms(RunOptions(**{"paths": 4, **options})) | (more_terms or {})
    write_lines(file, terms, [run.to_json() for run in runs])
    return file


def tables(*folders: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "tables", *map(str, folders)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def refused(*folders: Path) -> str:
    done = tables(*folders)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_every_run_counts_once_and_only_kept_results_have_pages(tmp_path: Path) -> None:
    make_runs(tmp_path / "x", questions=2)
    make_runs(tmp_path / "y", more_terms={"seed": None, "eager": False, "total_tokens": None})
    done = tables(tmp_path / "x", tmp_path / "x", tmp_path / "y")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Qwen3-4B, sc: 3 questions, 3 right, 3,000 tokens")
    assert "sureenough report" not in done.stdout


def test_differences_are_those_to_sc(tmp_path: Path) -> None:
    make_runs(tmp_path, strategy="ac")
    make_runs(tmp_path)
    rows = [line.split()[0] for line in tables(tmp_path).stdout.splitlines() if line.startswith(("ac ", "sc "))]
    assert rows == ["sc", "ac"]


@pytest.mark.parametrize(("options", "reason"), [({"paths": 2}, "paths 2, not 4"), ({"hurry": 0}, "hurry 0, not 0.25")])
def test_one_strategy_under_different_terms_is_refused(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    first, second = make_runs(tmp_path / "x"), make_runs(tmp_path / "y", **options)
    assert f"{second} has sc with {reason} as in {first}" in refused(tmp_path / "x", tmp_path / "y")


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
