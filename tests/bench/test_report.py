"""Results and reports: strict data, the same numbers in every form, and text that stays text."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import pytest

from sureenough.bench.paper import EXPERIMENTS
from sureenough.bench.recommendation import sentences
from sureenough.bench.report import build, saved, slug
from sureenough.bench.report.figures import draw, embedded
from sureenough.bench.result import Axis, ExperimentResult, Figure, Series, read
from sureenough.bench.tables import (
    Cell,
    Column,
    Measure,
    Table,
    comma_separated,
    heading,
    latex,
    printed,
    without_constants,
)
from sureenough.errors import UsageError
from tests.bench.making import FORMULA, HOSTILE, hostile_result, inputs, make_pool, provenance

KINDS: tuple[Literal["line", "bar", "points", "steps", "intervals"], ...] = (
    "line", "bar", "points", "steps", "intervals",
)  # fmt: skip


@pytest.mark.parametrize(
    ("cell", "column", "reads"),
    [
        (0.6721, Column("a", "percent"), "67.2"),
        (Measure(0.672, 0.54, 0.804), Column("a", "percent"), "67.2 [54.0, 80.4]"),
        (Measure(0.672, None, None), Column("a", "percent"), "67.2"),
        (-0.00001, Column("a", "points"), "+0.0"),
        (-0.031, Column("a", "points"), "-3.1"),
        (26693.78, Column("a", "tokens"), "26,694"),
        (7.5e7, Column("a", "tokens7"), "7.5"),
        (18.64e8, Column("a", "tokens7"), "186.4"),
        (448071.0, Column("a", "tokens7"), "0.0448"),
        (2.979, Column("a", "ratio"), "3.0x"),
        (1.25e-7, Column("a", "scientific"), "1.25e-07"),
        (12.345, Column("a", "number", digits=1), "12.3"),
        (None, Column("a", "number"), "–"),
        ("x", Column("a", "number"), "x"),
        (50, Column("a", "count"), "50"),
        (Measure(0.0, 0.0, 0.0), Column("a", "points"), "+0.0 (no question changed)"),
        (Measure(0.01, 0.01, 0.01), Column("a", "points"), "+1.0 (all alike)"),
        (Measure(1.0, 1.0, 1.0), Column("a", "percent"), "100.0 (all alike)"),
        (Measure(0.0, -0.01, 0.01), Column("a", "points"), "+0.0 [-1.0, +1.0]"),
    ],
)
def test_how_a_cell_reads(cell: Cell, column: Column, reads: str) -> None:
    assert printed(cell, column) == reads


def test_whose_number_a_column_holds_is_in_its_heading() -> None:
    assert heading(Column("tokens", "tokens7", "10^7", paper="table 1")) == "tokens, 10^7 (paper, table 1)"


def test_csv_cells_cannot_start_formulas_and_numbers_stay_numbers() -> None:
    table = hostile_result().tables[0]
    cells = list(csv.reader(io.StringIO(comma_separated(table, provenance("=cmd").origin))))
    assert len(cells) == len(table.rows) + 1
    assert {len(row) for row in cells} == {len(cells[0])}
    assert not [cell for row in cells for cell in row if re.match(r"[=+@|%\t\r]|-(?![\d.])", cell)]
    assert cells[1][0] == "'" + FORMULA
    assert cells[1][1:4] == ["0.5", "0.25", "0.75"]
    assert cells[1][5] == "-0.031"
    assert cells[1][-1].startswith("'=cmd (sureenough 0.1.0")


def test_latex_prints_notes_below_the_table() -> None:
    table = Table("t", "Title", [Column("a")], [["x"]], ["Settings: window 64; 5% of paths"])
    lines = latex(table, provenance().origin).splitlines()
    assert lines[-2:] == [r"  \par\smallskip{\footnotesize Settings: window 64; 5\% of paths}", r"\end{table}"]


def test_latex_balances_and_escapes() -> None:
    table = hostile_result().tables[0]
    text = latex(table, provenance("sureenough\n\\input{evil}").origin)
    assert text.splitlines()[0] == r"% sureenough \input{evil} (sureenough 0.1.0, python 3.11)"
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert r"\input" not in body
    plain = re.sub(r"\\[\\{}$&#%_]", "", body)
    assert plain.count("{") == plain.count("}")
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(table.columns) - 1}


class Elements(HTMLParser):
    """Every element of a page, and its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_has_only_its_own_elements_and_requests_nothing(tmp_path: Path) -> None:
    text = build([hostile_result()], tmp_path, title=HOSTILE).page.read_text()
    elements = Elements()
    elements.feed(text)
    tags = [tag for tag, _ in elements.found]
    assert tags.count("script") == 1
    assert not {"img", "iframe", "object", "embed", "form", "b"} & set(tags)
    attributes = [(name, value or "") for _, found in elements.found for name, value in found.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name == "src"]
    links = {value for name, value in attributes if name == "href"}
    assert {link for link in links if not re.fullmatch("#(main-.*|[mp][0-9a-f]{10})", link)} == {"data:,", "#main"}
    assert "http://" not in text
    assert "https://" not in text
    assert "style=" not in text, "the page's policy would block it"


def test_a_whole_report_on_disk(tmp_path: Path) -> None:
    result = hostile_result()
    result.save(tmp_path / "results" / "main.json")
    built = build(saved(tmp_path), tmp_path / "report", title="A run")
    assert built.page.exists()
    assert sorted(file.name for file in built.tables) == [
        f"main-{name}.{form}" for name in ("hostile", "live") for form in ("csv", "tex")
    ]
    assert built.summary() == f"{built.page}: 2 tables, 4 figures"
    assert len(built.figures) == 4
    for file in built.figures:
        root = ET.parse(file).getroot()
        assert "sureenough bench" in "".join(root.itertext())
        assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 10
        assert "".join(root.itertext()).count("img src=x") >= 1, "text stays text"
    again = build(saved(tmp_path), tmp_path / "again", title="A run")
    for one, other in zip((built.page, *built.figures), (again.page, *again.figures), strict=True):
        assert one.read_bytes() == other.read_bytes(), "the same bytes every time"


def test_results_come_in_the_papers_order(tmp_path: Path) -> None:
    for name in ("width", "zebra", "main"):
        hostile_result(name).save(tmp_path / "results" / f"{name}.json")
    assert [one.name for one in saved(tmp_path)] == ["main", "width", "zebra"]


@pytest.mark.parametrize("digits", [20, 400, 5_000])
def test_whole_numbers_that_no_table_can_print_are_refused(digits: int, tmp_path: Path) -> None:
    file = tmp_path / "main.json"
    table = Table("t", "one", [Column("a", "ratio")], [[7_000_007]])
    ExperimentResult("x", "x", [table], [], [], provenance()).save(file)
    file.write_text(file.read_text().replace("7000007", "1" * digits))
    with pytest.raises(UsageError, match=r"main\.json is not a result of this version .*; run the experiment again"):
        read(file)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", "ü" * 300, "x" * 500])
def test_names_of_files_stay_names(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9-]{1,80}", slug(name))


def test_an_empty_table_is_still_a_table() -> None:
    table = Table("t", "nothing", [Column("a")], [])
    assert comma_separated(table, provenance().origin).splitlines() == ["a,made by"]
    assert r"\bottomrule" in latex(table, provenance().origin)


def test_without_matplotlib_the_page_has_its_tables_and_says_what_figures_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_it = build([hostile_result()], tmp_path / "with", title="A run").page.read_text()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    built = build([hostile_result()], tmp_path / "without", title="A run")
    assert built.figures == []
    assert "Figures need matplotlib: pip install" in built.missing
    without = built.page.read_text()
    assert (with_it.count("<svg"), without.count("<svg")) == (4, 0)
    assert without.count("<table") == with_it.count("<table")
    assert built.missing in html.unescape(without)


def test_columns_that_are_the_same_in_all_rows_move_to_the_caption() -> None:
    columns = [Column("model"), Column("strategy"), Column("questions", "count")]
    table = Table("t", "T", columns, [["m", "sc", 50], ["m", "ac", 50]])
    short, caption = without_constants(table)
    assert [column.title for column in short.columns] == ["strategy"]
    assert short.rows == [["sc"], ["ac"]]
    assert caption == "In all rows: model: m; questions: 50"
    one_row = Table("t", "T", columns, [["m", "sc", 50]])
    assert without_constants(one_row) == (one_row, "")
    same = Table("t", "T", columns, [["m", "sc", 50]] * 2)
    assert without_constants(same) == (same, "")


def test_the_verdict_is_on_top(tmp_path: Path) -> None:
    result = EXPERIMENTS["main"].run(inputs(make_pool(tmp_path), repeats=1))
    text = build([result], tmp_path / "report", title="A run").page.read_text()
    assert 'id="verdict"' in text
    assert text.index('id="verdict"') < text.index("<figure>") < text.index("<table")
    assert html.unescape(text).count(sentences(result.recommendations[0])[0]) == 1
    assert result.figures[0].kind == "intervals"


def test_the_questions_on_which_strategies_differ_most_are_listed(tmp_path: Path) -> None:
    source = make_pool(tmp_path, questions=13)
    result = EXPERIMENTS["main"].run(inputs(source, strategies=("sc", "ac:tau=0.6"), repeats=2))
    (listed,) = (one for one in result.tables if one.name == "questions-1")
    spreads = [abs(float(str(row[2])) - float(str(row[3]))) for row in listed.rows]
    assert 1 < len(spreads) <= 10
    assert spreads == sorted(spreads, reverse=True)
    assert min(spreads) > 0


@pytest.mark.parametrize("values", [[], [None], [0.0], [float("nan")], [1e-300, 1e300], [5.0, 5.0], [-1.0, 0.0]])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_any_values_can_be_drawn(values: list[float | None], scale: Literal["linear", "log"]) -> None:
    for kind in KINDS:
        x = [str(i) for i in range(len(values))] if kind in ("bar", "intervals") else list(range(1, len(values) + 1))
        axis = Axis("y", scale)
        figure = Figure("f", "F", kind, Axis("x"), axis, [Series("s", [*x], values, values, values)], limits=[0.0])
        svg = embedded(draw(figure, provenance().origin), "F")
        assert not re.search(r"nan|inf", svg)
        ET.fromstring(svg)


def test_a_figure_in_the_page_takes_the_colours_of_the_page() -> None:
    """So that it is readable on light and on dark, and names nothing that its policy or its ids would not allow."""
    for figure in hostile_result().figures:
        svg = embedded(draw(figure, provenance().origin), figure.title)
        assert "currentColor" in svg
        assert not re.search(r"#000000|#fff|style|http|metadata| id=\"(?!\w*[0-9a-f]{8})", svg)


def test_a_figure_of_many_strategies_has_room_for_its_legend() -> None:
    """Matplotlib warns if there is none, and warnings are errors here."""
    series = [Series(f"strategy {i}", [1.0, 2.0], [0.5, 0.1 + i / 100]) for i in range(60)]
    figure = Figure("f", "F", "line", Axis("x"), Axis("y"), series)
    assert draw(figure, provenance().origin).count("strategy 59") == 1


# -- results as data


def test_a_round_trip_changes_nothing(tmp_path: Path) -> None:
    result = hostile_result()
    result.save(tmp_path / "results" / "main.json")
    assert read(tmp_path / "results" / "main.json") == result
    assert [file.name for file in (tmp_path / "results").iterdir()] == ["main.json"]


def test_what_is_no_number_is_null() -> None:
    nan, inf = float("nan"), float("inf")
    table = Table("t", "t", [Column("a", "number")], [[nan], [Measure(1.0, -inf, nan)]])
    figure = Figure("f", "f", "line", Axis("x"), Axis("y"), [Series("s", [1.0], [nan])])
    told = json.loads(ExperimentResult("x", "x", [table], [figure], [], provenance()).to_json())
    assert told["tables"][0]["rows"] == [[None], [{"value": 1.0, "low": None, "high": None}]]
    assert told["figures"][0]["series"][0]["y"] == [None]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda told: told.update(surprise=1), "surprise"),
        (lambda told: told["tables"][0]["columns"][0].update(kind="roman"), "roman"),
        (lambda told: told["tables"][0]["rows"].append(["too short"]), "does not fit"),
        (lambda told: told.pop("provenance"), "provenance"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, spoil: object, says: str) -> None:
    told = json.loads(hostile_result().to_json())
    spoil(told)  # type: ignore[operator]
    (tmp_path / "bad.json").write_text(json.dumps(told))
    with pytest.raises(UsageError, match=says):
        read(tmp_path / "bad.json")


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "half.json").write_bytes(hostile_result().to_json()[:200])
    with pytest.raises(UsageError, match="run the experiment again"):
        read(tmp_path / "half.json")
