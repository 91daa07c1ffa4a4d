"""Reports: a run's results as a page, as tables for papers and spreadsheets, as figures."""

from __future__ import annotations

from sureenough.bench.report.files import Built, build, saved

__all__ = ["Built", "build", "saved"]
