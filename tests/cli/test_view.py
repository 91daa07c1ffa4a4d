"""`sureenough view` on a pool: the run that it shows is the replay that `replay -q` tells of."""

from __future__ import annotations

from pathlib import Path

import pytest

from sureenough.api import replay
from sureenough.cli.view import run_on_recorded
from sureenough.pools import Pool
from tests.bench.making import make_pool
from tests.processes import refused


@pytest.mark.parametrize("strategy", ["sc", "ddc:warmup=8", "ac"])
def test_it_shows_what_a_replay_decides(strategy: str, tmp_path: Path) -> None:
    make_pool(tmp_path, questions=1)
    pool = Pool(tmp_path / "small.parquet")
    (question,) = pool
    log = run_on_recorded(pool, question, strategy)
    out = replay(question.paths, strategy, window=8)
    assert log.view.result is not None
    assert log.view.result["answer"] == out.answer
    assert log.view.result["tokens"] == out.to_json()["tokens"]
    kept = [path for path in log.view.paths.values() if path["fate"] == "kept" and path["answer"]]
    assert kept
    whole = [path for path in kept if path["tokens"] == question.paths[path["path"]].tokens]
    for path in whole:
        assert "".join((log.text(path["path"]) or {"texts": []})["texts"]) == f"\\boxed{{{path['answer']}}}"


def test_what_recorded_paths_cannot_show_is_refused(tmp_path: Path) -> None:
    make_pool(tmp_path, questions=1)
    pool = str(tmp_path / "small.parquet")
    assert "run it live" in refused("view", pool, "-s", "mur+sc")
