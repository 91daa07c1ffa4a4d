"""The report as one HTML file: no requests, no other files, everything from models and datasets escaped.

Tables are plain HTML, so they read without scripts; the page's own script sorts them and draws the figures. A content
security policy names that script and style by their hashes: nothing else on the page can run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from sureenough.bench.report.cells import interval, plain, slug, value_of
from sureenough.bench.result import Cell, ExperimentResult, Figure, Measure, ResultColumn, Table, finite


def page(results: Sequence[ExperimentResult], title: str) -> str:
    """The whole document."""
    here = files("sureenough.bench.report")
    style, script = ((here / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    own = f"style-src {_hash(style)}; script-src {_hash(script)}"
    policy = f"default-src 'none'; img-src data:; {own}; base-uri 'none'; form-action 'none'"
    links = "".join(f'<li><a href="#{slug(one.name)}">{escape(one.name)}</a></li>' for one in results)
    sections = "".join(_section(i, one) for i, one in enumerate(results))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f'<header><div class="top"><h1>{escape(title)}</h1><button type="button" id="theme">Light / dark</button></div>'
        f'<p class="muted">{_said(results)}</p><nav aria-label="Experiments"><ul>{links}</ul></nav></header>'
        f"<main>{sections}</main>"
        '<footer class="muted">Made by <code>sureenough report</code>. Replayed and live numbers stand apart; '
        "columns marked “paper” are the paper's printed numbers.</footer>"
        f'<script type="application/json" id="data">{_data(results)}</script><script>{script}</script></body></html>\n'
    )


def _said(results: Sequence[ExperimentResult]) -> str:
    made = sorted({f"{k} {v}" for one in results for k, v in one.provenance.versions.items()})
    return escape(f"{len(results)} experiments; {', '.join(made)}")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(results: Sequence[ExperimentResult]) -> str:
    """The figures' data; a `<` could end the script element, so none is left."""
    figures = [
        {"name": one.name, "figures": [msgspec.to_builtins(figure) for figure in one.figures]} for one in results
    ]
    told: Any = finite(figures)
    text = json.dumps(told, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _section(number: int, result: ExperimentResult) -> str:
    figures = "".join(_figure(number, i, one) for i, one in enumerate(result.figures))
    tables = "".join(_table(result, table) for table in result.tables)
    notes = _notes(result.notes)
    drawn = f'<div class="figures">{figures}</div>' if figures else ""
    return (
        f'<section id="{slug(result.name)}"><h2>{escape(result.title)}</h2>'
        f"<pre>{escape(result.provenance.command)}</pre>{_origin(result)}{drawn}{tables}{notes}</section>"
    )


def _origin(result: ExperimentResult) -> str:
    made = result.provenance
    versions = ", ".join(f"{name} {version}" for name, version in made.versions.items())
    pools = "".join(
        f"<li>{escape(pool.dataset)}, {escape(pool.model)}: <code>{escape(pool.file)}</code>, "
        f"{pool.questions or 0:,} questions, {pool.paths or 0:,} paths, sha256 <code>{escape(pool.sha256)}</code></li>"
        for pool in made.pools
    )
    settings = escape(json.dumps(made.settings, ensure_ascii=False, default=str)) if made.settings else "as they come"
    return (
        f'<p class="muted">{escape(versions)}; {made.seconds:,.1f} s, {escape(made.date)}</p>'
        f"<details><summary>Pools and settings</summary><ul>{pools}</ul>"
        f'<p class="muted">Settings: <code>{settings}</code></p></details>'
    )


def _figure(result: int, number: int, figure: Figure) -> str:
    live = '<span class="badge">live</span>' if figure.live else ""
    caption = f"<figcaption>{escape(' '.join(figure.notes))}</figcaption>" if figure.notes else ""
    return (
        f'<figure data-figure="{result}:{number}"><h3>{escape(figure.title)}{live}</h3>'
        f'<div class="plot"></div><div class="legend"></div>{caption}</figure>'
    )


def _table(result: ExperimentResult, table: Table) -> str:
    live = '<span class="badge">live</span>' if table.live else ""
    head = "".join(_head(column) for column in table.columns)
    rows = "".join(
        f"<tr>{''.join(_cell(cell, column) for cell, column in zip(row, table.columns, strict=True))}</tr>"
        for row in table.rows
    )
    return (
        f"<h3>{escape(table.title)}{live}</h3>"
        f'<div class="scroll" tabindex="0"><table id="{slug(result.name)}-table-{slug(table.name)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{_notes(table.notes)}"
    )


def _head(column: ResultColumn) -> str:
    under = " · ".join(part for part in (column.unit, f"paper, {column.theirs}" if column.theirs else "") if part)
    small = f"<small>{escape(under)}</small>" if under else "<small>&nbsp;</small>"
    return f'<th scope="col" class="{_class(column)}"><button type="button">{escape(column.title)}{small}</button></th>'


def _cell(cell: Cell, column: ResultColumn) -> str:
    """The value for sorting in an attribute, its form as text, the interval smaller."""
    value = value_of(cell)
    if isinstance(value, str):
        return f'<td class="text" title="{escape(value)}">{escape(value)}</td>'
    bounds = interval(cell, column) if isinstance(cell, Measure) else ""
    small = f" <small>{escape(bounds)}</small>" if bounds else ""
    known = "" if value is None else repr(value)
    return f'<td class="{_class(column)}" data-v="{known}">{escape(plain(cell, column))}{small}</td>'


def _class(column: ResultColumn) -> str:
    return ("text" if column.kind == "text" else "number") + (" theirs" if column.theirs else "")


def _notes(notes: Sequence[str]) -> str:
    return f'<ul class="notes">{"".join(f"<li>{escape(note)}</li>" for note in notes)}</ul>' if notes else ""
