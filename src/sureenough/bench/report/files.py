"""A run's results as files: one HTML page, every table in three forms, every figure in two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from sureenough.bench.report.cells import slug
from sureenough.bench.report.inline_svg import inline_svg
from sureenough.bench.report.page import FigureKey, page
from sureenough.bench.report.plots import MATPLOTLIB_MISSING, can_draw, draw, hover_texts
from sureenough.bench.report.text_tables import comma_separated, latex, markdown
from sureenough.bench.result import ExperimentResult, Provenance, Table, read
from sureenough.errors import UsageError


class Built(NamedTuple):
    """The files of a report, and why figures are missing, if they are."""

    page: Path
    tables: list[Path]
    figures: list[Path]
    missing: str = ""


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
    """Write the report into a folder; without matplotlib, or without plots, the page has tables only."""
    (out / "tables").mkdir(parents=True, exist_ok=True)
    tables = [
        _write(out / "tables" / f"{slug(result.name)}-{slug(table.name)}.{form}", render(table, result.provenance))
        for result in results
        for table in result.tables
        for form, render in FORMS.items()
    ]
    missing = ""
    if not plots:
        missing = "Figures were switched off: `sureenough report RUN --plots` draws them."
    elif not can_draw():
        missing = MATPLOTLIB_MISSING
    files, svgs = ([], None) if missing else _draw_all(results, out / "figures")
    return Built(_write(out / "report.html", page(results, title, svgs, missing)), tables, files, missing)


def _draw_all(results: Sequence[ExperimentResult], folder: Path) -> tuple[list[Path], dict[FigureKey, str]]:
    folder.mkdir(exist_ok=True)
    files: list[Path] = []
    svgs: dict[FigureKey, str] = {}
    for result in results:
        for figure in result.figures:
            name = f"{slug(result.name)}-{slug(figure.name)}"
            png, svg = draw(figure, result.provenance, folder, name)
            files += [png, svg]
            text = svg.read_text(encoding="utf-8")
            svgs[result.name, figure.name] = inline_svg(text, figure.title, f"{name}-", hover_texts(figure))
    return files, svgs


def _write(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file
