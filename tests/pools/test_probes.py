"""Probes in pools: written, read, refused; and paths as their probes end them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sureenough.core.probing import ProbeReply, ProbeRule
from sureenough.errors import TraceError
from sureenough.pools import Journal, Pool, PoolInfo, Question, RecordedPath, RecordedProbe, write_pool

PROBES = (
    RecordedProbe(4, ProbeReply("a", 3)),
    RecordedProbe(8, ProbeReply(None, 24)),
    RecordedProbe(12, ProbeReply("b", 2, True)),
    RecordedProbe(16, ProbeReply("b", 2)),
    RecordedProbe(20, ProbeReply("b", 2)),
)


def path(probes: tuple[RecordedProbe, ...] | None = PROBES, tokens: int = 22, **more: Any) -> RecordedPath:
    return RecordedPath("c", [0.5] * tokens, [float(n) for n in range(tokens)], probes=probes, **more)


def test_a_pool_keeps_them(tmp_path: Path) -> None:
    file = tmp_path / "pool.parquet"
    write_pool(file, [Question("q", "c", 1, [path(), path(())])], PoolInfo(), optional=["probes"])
    assert [one.probes for question in Pool(file) for one in question.paths] == [PROBES, ()]
    write_pool(file, [Question("q", "c", 1, [path(), path()])], PoolInfo())
    assert [one.probes for question in Pool(file) for one in question.paths] == [None, None]


def test_a_journal_keeps_them(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal", {}) as journal:
        journal.add("q", path(number=0))
        journal.add("q", path(None, number=1))
    with Journal(tmp_path / "journal", {}) as journal:
        assert [journal.paths["q", n].probes for n in (0, 1)] == [PROBES, None]


@pytest.mark.parametrize("entry", [{"at": 0}, {"tokens": -1}, {"at": None}, {"hedged": None}])
def test_a_damaged_probe_costs_its_row(tmp_path: Path, entry: dict[str, Any]) -> None:
    file = tmp_path / "pool.parquet"
    write_pool(file, [Question("q", "c", 1, [path(), path()])], PoolInfo(), optional=["probes"])
    table = pq.read_table(file)
    columns = table.to_pydict()
    columns["probes"][0][2] |= entry
    pq.write_table(pa.table(columns, schema=table.schema), file)
    with pytest.raises(TraceError, match="row 0: its probes cannot be read"):
        list(Pool(file))
    assert [len(question.paths) for question in Pool(file, skip_damaged=True)] == [1]


def test_a_column_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pool.parquet"
    write_pool(file, [Question("q", "c", 1, [path()])], PoolInfo(), optional=["probes"])
    table = pq.read_table(file).drop_columns("probes").append_column("probes", pa.array(["x"]))
    pq.write_table(table, file)
    with pytest.raises(TraceError, match="its probes cannot be read"):
        list(Pool(file))


def test_a_path_as_its_probes_end_it() -> None:
    assert path().ended_by(ProbeRule(4, 3)).tokens == 22  # one hedges
    ended = path().ended_by(ProbeRule(4, 2))
    assert (ended.answer, ended.tokens, list(ended.conf)) == ("b", 20, [float(n) for n in range(20)])
    assert path().ended_by(ProbeRule(8, 1)).tokens == 16


@pytest.mark.parametrize(
    ("recorded", "every", "problem"),
    [(None, 4, "without probes"), (PROBES, 5, "without a probe after 5 tokens"), ((), 8, "without a probe after 8")],
)
def test_what_was_not_recorded_is_refused(recorded: tuple[RecordedProbe, ...] | None, every: int, problem: str) -> None:
    with pytest.raises(TraceError, match=rf"{problem}.*--probes every={every}`, or use the strategy without"):
        path(recorded).replies(every)
