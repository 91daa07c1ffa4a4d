"""Reports and recommendations, as `bench` and `replay` write them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bench.making import hostile_result, make_pool
from tests.processes import printed, refused, sureenough


def test_bench_writes_a_report_and_writes_it_again(tmp_path: Path) -> None:
    run, page = tmp_path / "run", tmp_path / "run" / "report" / "report.html"
    pool = make_pool(tmp_path).pool
    done = sureenough("bench", "main", "--pool", str(pool), "-s", "sc ac", "--repeats", "1", "-o", str(run))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{page}: 2 tables, 2 figures\n\naime25, Qwen3-4B (main):\n" in done.stdout
    assert "<title>sureenough: run</title>" in page.read_text()
    hostile_result("width").save(run / "results" / "width.json")
    again = sureenough("bench", "--report", str(run))
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.startswith(f"{page}: 4 tables, 6 figures\n\naime25, Qwen3-4B (main):\n")
    assert done.stdout.splitlines()[-3:] == again.stdout.splitlines()[-3:], "both end with the recommendation"
    assert page.read_text().count("<figure>") == 6
    (tmp_path / "file").touch()
    assert "holds no results" in refused("bench", "--report", str(tmp_path / "file"))


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    without = refused("bench", "--report", str(tmp_path))
    assert "holds no results" in without
    assert "sureenough bench EXPERIMENT" in without
    assert "leave the experiment and --plan out" in refused("bench", "main", "--report", str(tmp_path))
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "main.json").write_text("{}")
    assert "run the experiment again" in refused("bench", "--report", str(tmp_path))


def test_replay_ends_with_the_recommendation_and_fits_its_list(tmp_path: Path) -> None:
    source = make_pool(tmp_path, paths=8)
    text = printed("replay", str(source.pool), "--repeats", "1")
    assert "ddc:warmup=4" in text
    assert "of 8 answers changed; at 95% at most" in text
    data = json.loads(sureenough("replay", str(source.pool), "--repeats", "1", "--json").stdout)
    assert data["pools"][0]["recommendation"]["reference"] == "sc"
    assert "warms up with 16 paths" in refused("replay", str(source.pool), "-s", "ddc", "--repeats", "1")
