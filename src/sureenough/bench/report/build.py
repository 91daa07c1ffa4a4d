"""A run's results as files: one page of HTML, every table in three forms, every figure in two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from sureenough.bench.report.cells import slug
from sureenough.bench.report.page import page
from sureenough.bench.report.plots import draw
from sureenough.bench.report.text_tables import comma_separated, latex, markdown
from sureenough.bench.result import ExperimentResult, Provenance, Table, read
from sureenough.errors import UsageError


class Built(NamedTuple):
    """What was written."""

    page: Path
    tables: list[Path]
    figures: list[Path]


FORMS: dict[str, Callable[[Table, Provenance], str]] = {"md": markdown, "tex": latex, "csv": comma_separated}


def saved(run: Path) -> list[ExperimentResult]:
    """A run folder's results, in the order of the experiments."""
    from sureenough.bench.experiments import EXPERIMENTS

    folder = run / "results"
    found = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not found:
        raise UsageError(f"{run} holds no results; make some with `sureenough bench EXPERIMENT --pool FILE -o {run}`")
    order = {name: i for i, name in enumerate(EXPERIMENTS)}
    return sorted((read(file) for file in found), key=lambda one: (order.get(one.name, len(order)), one.name))


def build(results: Sequence[ExperimentResult], out: Path, *, title: str, plots: bool = True) -> Built:
    """Write the whole report under `out`."""
    built = Built(out / "report.html", [], [])
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for result in results:
        for table in result.tables:
            for form, write in FORMS.items():
                file = out / "tables" / f"{slug(result.name)}-{slug(table.name)}.{form}"
                file.write_text(write(table, result.provenance), encoding="utf-8")
                built.tables.append(file)
    if plots:
        (out / "figures").mkdir(exist_ok=True)
        for result in results:
            for figure in result.figures:
                name = f"{slug(result.name)}-{slug(figure.name)}"
                built.figures.extend(draw(figure, result.provenance, out / "figures", name))
    built.page.write_text(page(results, title), encoding="utf-8")
    return built
