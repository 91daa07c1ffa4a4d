"""Answers of real models from public logs, which may not be passed on: SUREENOUGH_REAL names a file of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sureenough as se
from tests.processes import printed

pytestmark = pytest.mark.filterwarnings("default")  # streams that the runs of Inspect before it left open
REAL = Path(os.environ.get("SUREENOUGH_REAL", "nowhere"))


@pytest.mark.skipif(not REAL.exists(), reason="answers of public logs are not here")
def test_126_runs_in_one_command_and_a_table_per_model(tmp_path: Path) -> None:
    table = pq.read_table(REAL)
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    printed("import", "runs.jsonl", "-o", "pools", cwd=tmp_path)
    pools = {pool.info.model: pool for pool in map(se.Pool, sorted((tmp_path / "pools").iterdir()))}
    assert set(pools) == set(table["model"].to_pylist())
    assert (len(pools), sum(pool.rows for pool in pools.values())) == (126, table.num_rows)
    counted = [pool.name for pool in pools.values() if pool.tokens > 100 * pool.rows]
    assert len(counted) > 20
    tables = printed("replay", *counted[:3], "-s", "sc ac sure", "--repeats", "1")
    assert tables.count("strategy  accuracy %") == 3
