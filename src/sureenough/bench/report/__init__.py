"""Reports: a run's results as one HTML page, every table as LaTeX and CSV, every figure as SVG.

The page makes no requests, needs no other files, and escapes everything from models and datasets. Tables are plain HTML
and figures are SVG, so it works without scripts; its own script only sorts the tables. A content security policy names
that script and the style by their hashes: nothing else on the page can run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from sureenough.bench.paper import EXPERIMENTS
from sureenough.bench.recommendation import sentences
from sureenough.bench.report.figures import MISSING, can_draw, draw, embedded
from sureenough.bench.result import (
    ExperimentResult,
    Figure,
    read,
)
from sureenough.bench.tables import (
    Table,
    comma_separated,
    html,
    latex,
    without_constants,
)
from sureenough.errors import UsageError

FORMS: Final[dict[str, Callable[[Table, str], str]]] = {"tex": latex, "csv": comma_separated}


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


# -- the page


def page(results: Sequence[ExperimentResult], drawn: Sequence[Sequence[str]], title: str, missing: str) -> str:
    """The whole page; `drawn` are the SVG files of each result's figures, and `missing` says why there are none."""
    here = files("sureenough.bench.report")
    style, script = ((here / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    own = f"style-src {_hash(style)}; script-src {_hash(script)}"
    policy = f"default-src 'none'; img-src data:; {own}; base-uri 'none'; form-action 'none'"
    links = "".join(f'<li><a href="#{slug(one.name)}">{escape(one.name)}</a></li>' for one in results)
    sections = "".join(map(_section, results, drawn))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f'<header><div class="top"><h1>{escape(title)}</h1><button type="button" id="theme">Light / dark</button></div>'
        f'<p class="muted">{_summary(results, missing)}</p>'
        f'<nav aria-label="Experiments"><ul>{links}</ul></nav></header>'
        f"<main>{_verdict(results)}{sections}</main>"
        '<footer class="muted">Made by <code>sureenough bench</code>. Replayed and live numbers are never mixed; '
        "columns marked “paper” are the paper's printed numbers.</footer>"
        f"<script>{script}</script></body></html>\n"
    )


def _summary(results: Sequence[ExperimentResult], missing: str) -> str:
    made = sorted({f"{k} {v}" for one in results for k, v in one.provenance.versions.items()})
    more = f". {missing}" if missing else ""
    return escape(f"{len(results)} experiment{'s' * (len(results) != 1)}; {', '.join(made)}{more}")


def _verdict(results: Sequence[ExperimentResult]) -> str:
    """Which strategy to use, by every result that compares some."""
    parts = []
    for result in results:
        for one in result.recommendations:
            first, *more = map(escape, sentences(one))
            name = escape(f"{one.dataset}, {one.model}")
            link = f'<a href="#{slug(result.name)}">{escape(result.name)}</a>'
            parts.append(f'<p class="muted">{name} ({link})</p><p><strong>{first}</strong> {" ".join(more)}</p>')
    head = '<section class="verdict" id="verdict"><h2>Which strategy to use</h2>'
    return f"{head}{''.join(parts)}</section>" if parts else ""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _section(result: ExperimentResult, drawn: Sequence[str]) -> str:
    figures = "".join(map(_figure, result.figures, drawn))
    grid = f'<div class="figures">{figures}</div>' if figures else ""
    tables = "".join(_table(result, one) for one in result.tables)
    return (
        f'<section id="{slug(result.name)}"><h2>{escape(result.title)}</h2>{grid}{tables}'
        f"{_notes(result.notes)}"
        f"<pre>{escape(result.provenance.command)}</pre>{_origin(result)}</section>"
    )


def _origin(result: ExperimentResult) -> str:
    made = result.provenance
    pools = "".join(
        f"<li>{escape(pool.dataset)}, {escape(pool.model)}: <code>{escape(pool.file)}</code>, "
        f"{pool.questions or 0:,} questions, {pool.paths or 0:,} paths, sha256 <code>{escape(pool.sha256)}</code></li>"
        for pool in made.pools
    )
    settings = escape(json.dumps(made.settings, ensure_ascii=False, default=str)) if made.settings else "defaults"
    return (
        f'<p class="muted">{escape(made.made_with)}; {made.seconds:,.1f} s, {escape(made.date)}</p>'
        f"<details><summary>Pools and settings</summary><ul>{pools}</ul>"
        f'<p class="muted">Settings: <code>{settings}</code></p></details>'
    )


def _figure(figure: Figure, svg: str) -> str:
    live = '<span class="badge">live</span>' if figure.live else ""
    caption = f"<figcaption>{escape(' '.join(figure.notes))}</figcaption>" if figure.notes else ""
    plot = f'<div class="plot">{embedded(svg, figure.title)}</div>'
    return f"<figure><h3>{escape(figure.title)}{live}</h3>{plot}{caption}</figure>"


def _table(result: ExperimentResult, full: Table) -> str:
    live = '<span class="badge">live</span>' if full.live else ""
    shown, constants = without_constants(full)
    caption = f'<p class="muted">{escape(constants)}</p>' if constants else ""
    name = f"{slug(result.name)}-table-{slug(full.name)}"
    return (
        f"<h3>{escape(full.title)}{live}</h3>{caption}"
        f'<div class="scroll" tabindex="0">{html(shown, name)}</div>{_notes(full.notes)}'
    )


def _notes(notes: Sequence[str]) -> str:
    return f'<ul class="notes">{"".join(f"<li>{escape(note)}</li>" for note in notes)}</ul>' if notes else ""


def slug(text: str) -> str:
    """For file names and links: letters, digits and hyphens, nothing else."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:80] or "unnamed"
