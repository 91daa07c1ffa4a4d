"""Reports: a run's results as one HTML page, every table in three forms, every figure as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from sureenough.bench.paper import EXPERIMENTS
from sureenough.bench.report.figures import MISSING, can_draw, draw
from sureenough.bench.report.page import page, slug
from sureenough.bench.result import ExperimentResult, read
from sureenough.bench.tables import Table, comma_separated, latex, markdown
from sureenough.errors import UsageError

FORMS: Final[dict[str, Callable[[Table, str], str]]] = {"md": markdown, "tex": latex, "csv": comma_separated}


class Report(NamedTuple):
    """The files of a report."""

    page: Path
    tables: list[Path]
    figures: list[Path]
    missing: str  # why there are no figures, if they are missing

    def summary(self) -> str:
        """What was written, in one line."""
        counts = {"table": len(self.tables) // len(FORMS), "figure": len(self.figures)}
        return f"{self.page}: " + ", ".join(f"{n} {noun}{'s' * (n != 1)}" for noun, n in counts.items())


def saved(run: Path) -> list[ExperimentResult]:
    """A run folder's results, in the order of the experiments."""
    folder = run / "results"
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not files:
        raise UsageError(f"{run} holds no results; make some with `sureenough bench EXPERIMENT --pool FILE -o {run}`")
    order = {name: i for i, name in enumerate(EXPERIMENTS)}
    return sorted((read(file) for file in files), key=lambda one: (order.get(one.name, len(order)), one.name))


def build(results: Sequence[ExperimentResult], out: Path, *, title: str) -> Report:
    """Write the report into a folder; without matplotlib it has no figures, and says so."""
    missing = "" if can_draw() or not any(result.figures for result in results) else MISSING
    tables = {
        out / "tables" / f"{slug(result.name)}-{slug(table.name)}.{form}": render(table, result.provenance.origin)
        for result in results
        for table in result.tables
        for form, render in FORMS.items()
    }
    drawn = [[] if missing else [draw(one, result.provenance.origin) for one in result.figures] for result in results]
    figures = {
        out / "figures" / f"{slug(result.name)}-{slug(figure.name)}.svg": svg
        for result, own in zip(results, drawn, strict=True)
        for figure, svg in zip(result.figures, own, strict=not missing)
    }
    report = out / "report.html"
    for file, text in {**tables, **figures, report: page(results, drawn, title, missing)}.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Report(report, [*tables], [*figures], missing)
