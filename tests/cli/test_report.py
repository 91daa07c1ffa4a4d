"""`sureenough report` as a user types it."""

from __future__ import annotations

from pathlib import Path

from tests.bench.making import hostile_result
from tests.cli.test_replay import refused, sureenough


def test_a_run_folder_becomes_a_report(tmp_path: Path) -> None:
    hostile_result().save(tmp_path / "results" / "main.json")
    done = sureenough("report", str(tmp_path), "--no-plots")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 experiments, 6 tables, 0 figures" in " ".join(done.stdout.split())
    assert (tmp_path / "report" / "report.html").exists()
    done = sureenough("report", str(tmp_path), "-o", str(tmp_path / "elsewhere"), "--title", "Mine")
    assert "8 figures" in " ".join(done.stdout.split())
    assert "<title>Mine</title>" in (tmp_path / "elsewhere" / "report.html").read_text()


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    assert "holds no results" in refused("report", str(tmp_path))
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "main.json").write_text("{}")
    assert "run the experiment again" in refused("report", str(tmp_path))
