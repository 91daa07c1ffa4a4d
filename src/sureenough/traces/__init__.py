"""Recorded paths: what they are, and how they are read from and written to Parquet."""

from __future__ import annotations

from sureenough.traces.path import RecordedPath, scan_together
from sureenough.traces.read import Pool, Question
from sureenough.traces.schema import PoolInfo
from sureenough.traces.write import PoolWriter, write_pool

__all__ = ["Pool", "PoolInfo", "PoolWriter", "Question", "RecordedPath", "scan_together", "write_pool"]
