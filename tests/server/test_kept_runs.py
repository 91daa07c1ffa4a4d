"""Runs that version 0.1 kept are listed and shown."""

from __future__ import annotations

import shutil
from pathlib import Path

from sureenough.core.events import Fate
from sureenough.server.kept_runs import KeptRuns

KEPT = Path(__file__).parent / "data" / "kept-run-0.1.json"


def test_a_run_that_version_0_1_kept_is_listed_and_found(tmp_path: Path) -> None:
    shutil.copy(KEPT, tmp_path / "old-run.json")
    runs = KeptRuns(tmp_path)
    (head,) = runs.heads()
    assert (head["id"], head["question"], head["strategy"]) == ("old-run", "What is 17 * 7 + 33?", "ac")
    run = runs.find("old-run")
    assert run["over"]["answer"] == "152"
    fates = [Fate(path["fate"]) for path in run["paths"]]
    assert fates.count(Fate.DISCARDED) == 4, "they were called spared"
