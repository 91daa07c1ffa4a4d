"""`sureenough report` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bench.making import hostile_result, make_pool
from tests.processes import refused, sureenough


def test_a_run_folder_becomes_a_report(tmp_path: Path) -> None:
    hostile_result().save(tmp_path / "results" / "main.json")
    done = sureenough("report", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 tables, 4 figures" in " ".join(done.stdout.split())
    assert (tmp_path / "report" / "report.html").exists()
    done = sureenough("report", str(tmp_path), "-o", str(tmp_path / "elsewhere"), "--title", "Mine")
    assert "4 figures" in " ".join(done.stdout.split())
    assert len(list((tmp_path / "elsewhere" / "figures").iterdir())) == 4
    assert "<title>Mine</title>" in (tmp_path / "elsewhere" / "report.html").read_text()
    (tmp_path / "file").touch()
    assert f"cannot write {tmp_path / 'file'}" in refused("report", str(tmp_path), "-o", str(tmp_path / "file"))


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    assert "holds no results" in refused("report", str(tmp_path))
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "main.json").write_text("{}")
    assert "run the experiment again" in refused("report", str(tmp_path))


def test_recommend_reads_pools_and_runs(tmp_path: Path) -> None:
    source = make_pool(tmp_path)
    done = sureenough("recommend", str(source.pool), "--repeats", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("aime25, Qwen3-4B:\n")
    assert "record about" in done.stdout
    run = tmp_path / "run"
    assert sureenough("bench", "main", "--pool", str(source.pool), "--repeats", "1", "-o", str(run)).returncode == 0
    wide = json.loads(sureenough("recommend", str(run), "--margin", "90", "--json").stdout)["recommendations"][0]
    assert (wide["verdict"]["kind"], wide["margin"], wide["basis"]) == ("shown", 0.9, "accuracy")
    assert wide["text"][0].startswith("Use ")
    shown = sureenough("report", str(run)).stdout
    assert shown.count("record about") == 1


def test_recommend_refuses_what_it_cannot_compare(tmp_path: Path) -> None:
    assert "--margin 0 is not possible" in refused("recommend", "--margin", "0", "--repeats", "1", "-s", "sc ac")
    assert "one strategy alone cannot be compared" in refused("recommend", "-s", "sc", "--repeats", "1")
    hostile_result().save(tmp_path / "results" / "main.json")
    assert "compares strategies" in refused("recommend", str(tmp_path))
    assert "no such file" in refused("recommend", str(tmp_path / "none.parquet"))


def test_replay_ends_with_the_recommendation_and_fits_its_list(tmp_path: Path) -> None:
    source = make_pool(tmp_path, paths=8)
    done = sureenough("replay", str(source.pool), "--repeats", "1")
    assert done.returncode == 0, done.stderr
    assert "ddc:warmup=4" in done.stdout
    assert "8 questions cannot tell 2 points apart" in done.stdout.splitlines()[-1]
    data = json.loads(sureenough("replay", str(source.pool), "--repeats", "1", "--json").stdout)
    assert data["pools"][0]["recommendation"]["reference"] == "sc"
    assert "warms up with 16 paths" in refused("replay", str(source.pool), "-s", "ddc", "--repeats", "1")
