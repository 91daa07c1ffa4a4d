"""A run's results as files: one HTML page, every table in three forms, every figure in two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from sureenough.bench.report.cells import slug
from sureenough.bench.report.page import page
from sureenough.bench.report.plots import MATPLOTLIB_MISSING, can_draw, draw
from sureenough.bench.report.text_tables import comma_separated, latex, markdown
from sureenough.bench.result import ExperimentResult, Provenance, Table, read
from sureenough.errors import UsageError


class Built(NamedTuple):
    """The files of a report, and why those of figures are missing, if they are."""

    page: Path
    tables: list[Path]
    figures: list[Path]
    missing: str = ""

    def summary(self, results: Sequence[ExperimentResult]) -> str:
        """What was written, in one line."""
        tables = sum(len(one.tables) for one in results)
        figures = sum(len(one.figures) for one in results)
        counts = {"experiment": len(results), "table": tables, "figure": figures}
        return f"{self.page}: " + ", ".join(f"{n} {noun}{'s' * (n != 1)}" for noun, n in counts.items())


FORMS: dict[str, Callable[[Table, Provenance], str]] = {"md": markdown, "tex": latex, "csv": comma_separated}


def saved(run: Path) -> list[ExperimentResult]:
    """A run folder's results, in the order of the experiments."""
    from sureenough.bench.experiments import EXPERIMENTS

    folder = run / "results"
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not files:
        raise UsageError(f"{run} holds no results; make some with `sureenough bench EXPERIMENT --pool FILE -o {run}`")
    order = {name: i for i, name in enumerate(EXPERIMENTS)}
    return sorted((read(file) for file in files), key=lambda one: (order.get(one.name, len(order)), one.name))


def build(results: Sequence[ExperimentResult], out: Path, *, title: str, plots: bool = True) -> Built:
    """Write the report into a folder; without matplotlib, or without plots, figures are in the page only."""
    (out / "tables").mkdir(parents=True, exist_ok=True)
    tables = [
        _write(out / "tables" / f"{slug(result.name)}-{slug(table.name)}.{form}", render(table, result.provenance))
        for result in results
        for table in result.tables
        for form, render in FORMS.items()
    ]
    missing = MATPLOTLIB_MISSING if plots and not can_draw() else ""
    figures = _draw_all(results, out / "figures") if plots and not missing else []
    return Built(_write(out / "report.html", page(results, title)), tables, figures, missing)


def _draw_all(results: Sequence[ExperimentResult], folder: Path) -> list[Path]:
    folder.mkdir(exist_ok=True)
    return [
        file
        for result in results
        for figure in result.figures
        for file in draw(figure, result.provenance, folder, f"{slug(result.name)}-{slug(figure.name)}")
    ]


def _write(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file
