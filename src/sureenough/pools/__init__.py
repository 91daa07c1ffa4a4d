"""Recorded paths: what they are, and how they are read from and written to Parquet."""

from __future__ import annotations

from sureenough.pools.durable import OutputLock
from sureenough.pools.journal import Journal, write_journal_pool
from sureenough.pools.path import Question, RecordedPath, Signals, scan_together
from sureenough.pools.read import Pool, is_address, is_pool
from sureenough.pools.schema import PoolInfo
from sureenough.pools.write import PoolWriter, write_pool

__all__ = [
    "Journal",
    "OutputLock",
    "Pool",
    "PoolInfo",
    "PoolWriter",
    "Question",
    "RecordedPath",
    "Signals",
    "is_address",
    "is_pool",
    "scan_together",
    "write_journal_pool",
    "write_pool",
]
