"""The report as one HTML file: no requests, no other files, everything from models and datasets escaped.

Tables are plain HTML and figures are SVG, so the page works without scripts; its own script only sorts the tables. A
content security policy names that script and the style by their hashes: nothing else on the page can run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from sureenough.bench.recommendation import sentences
from sureenough.bench.report.cells import interval, slug, value_of, value_text, without_constants
from sureenough.bench.report.questions import question_list
from sureenough.bench.report.svg import figure_svg
from sureenough.bench.result import Cell, ExperimentResult, Figure, Measure, ResultColumn, Table


def page(results: Sequence[ExperimentResult], title: str) -> str:
    here = files("sureenough.bench.report")
    style, script = ((here / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    own = f"style-src {_hash(style)}; script-src {_hash(script)}"
    policy = f"default-src 'none'; img-src data:; {own}; base-uri 'none'; form-action 'none'"
    links = "".join(f'<li><a href="#{slug(one.name)}">{escape(one.name)}</a></li>' for one in results)
    sections = "".join(map(_section, results))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f'<header><div class="top"><h1>{escape(title)}</h1><button type="button" id="theme">Light / dark</button></div>'
        f'<p class="muted">{_summary(results)}</p><nav aria-label="Experiments"><ul>{links}</ul></nav></header>'
        f"<main>{_verdict(results)}{sections}</main>"
        '<footer class="muted">Made by <code>sureenough report</code>. Replayed and live numbers are never mixed; '
        "columns marked “paper” are the paper's printed numbers.</footer>"
        f"<script>{script}</script></body></html>\n"
    )


def _summary(results: Sequence[ExperimentResult]) -> str:
    made = sorted({f"{k} {v}" for one in results for k, v in one.provenance.versions.items()})
    return escape(f"{len(results)} experiment{'s' * (len(results) != 1)}; {', '.join(made)}")


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


def _section(result: ExperimentResult) -> str:
    figures = "".join(map(_figure, result.figures))
    drawn = f'<div class="figures">{figures}</div>' if figures else ""
    tables = "".join(_table(result, table) for table in result.tables)
    return (
        f'<section id="{slug(result.name)}"><h2>{escape(result.title)}</h2>{drawn}{tables}'
        f"{''.join(map(question_list, result.questions))}{_notes(result.notes)}"
        f"<pre>{escape(result.provenance.command)}</pre>{_origin(result)}</section>"
    )


def _origin(result: ExperimentResult) -> str:
    made = result.provenance
    versions = ", ".join(f"{name} {version}" for name, version in made.versions.items())
    pools = "".join(
        f"<li>{escape(pool.dataset)}, {escape(pool.model)}: <code>{escape(pool.file)}</code>, "
        f"{pool.questions or 0:,} questions, {pool.paths or 0:,} paths, sha256 <code>{escape(pool.sha256)}</code></li>"
        for pool in made.pools
    )
    settings = escape(json.dumps(made.settings, ensure_ascii=False, default=str)) if made.settings else "defaults"
    return (
        f'<p class="muted">{escape(versions)}; {made.seconds:,.1f} s, {escape(made.date)}</p>'
        f"<details><summary>Pools and settings</summary><ul>{pools}</ul>"
        f'<p class="muted">Settings: <code>{settings}</code></p></details>'
    )


def _figure(figure: Figure) -> str:
    live = '<span class="badge">live</span>' if figure.live else ""
    caption = f"<figcaption>{escape(' '.join(figure.notes))}</figcaption>" if figure.notes else ""
    plot = f'<div class="plot">{figure_svg(figure)}</div>'
    return f"<figure><h3>{escape(figure.title)}{live}</h3>{plot}{caption}</figure>"


def _table(result: ExperimentResult, table: Table) -> str:
    live = '<span class="badge">live</span>' if table.live else ""
    table, constants = without_constants(table)
    caption = f'<p class="muted">{escape(constants)}</p>' if constants else ""
    head = "".join(_head(column) for column in table.columns)
    rows = "".join(
        f"<tr>{''.join(_cell(cell, column) for cell, column in zip(row, table.columns, strict=True))}</tr>"
        for row in table.rows
    )
    return (
        f"<h3>{escape(table.title)}{live}</h3>{caption}"
        f'<div class="scroll" tabindex="0"><table id="{slug(result.name)}-table-{slug(table.name)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{_notes(table.notes)}"
    )


def _head(column: ResultColumn) -> str:
    under = " · ".join(part for part in (column.unit, f"paper, {column.paper}" if column.paper else "") if part)
    small = f"<small>{escape(under)}</small>" if under else "<small>&nbsp;</small>"
    return f'<th scope="col" class="{_class(column)}"><button type="button">{escape(column.title)}{small}</button></th>'


def _cell(cell: Cell, column: ResultColumn) -> str:
    """The value for sorting in an attribute, its text, the interval in smaller type."""
    value = value_of(cell)
    if isinstance(value, str):
        return f'<td class="text" title="{escape(value)}">{escape(value)}</td>'
    bounds = interval(cell, column) if isinstance(cell, Measure) else ""
    small = f" <small>{escape(bounds)}</small>" if bounds else ""
    sort_value = "" if value is None else repr(value)
    return f'<td class="{_class(column)}" data-v="{sort_value}">{escape(value_text(cell, column))}{small}</td>'


def _class(column: ResultColumn) -> str:
    return ("text" if column.kind == "text" else "number") + (" paper" if column.paper else "")


def _notes(notes: Sequence[str]) -> str:
    return f'<ul class="notes">{"".join(f"<li>{escape(note)}</li>" for note in notes)}</ul>' if notes else ""
