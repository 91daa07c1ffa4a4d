"""Reports: the same numbers in every form, and text that stays text."""

from __future__ import annotations

import csv
import html
import io
import re
import struct
import sys
import xml.etree.ElementTree as ET
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sureenough.bench.report import build, saved
from sureenough.bench.report.cells import heading, printed, slug
from sureenough.bench.report.text_tables import comma_separated, latex, markdown
from sureenough.bench.result import Cell, Measure, ResultColumn, Table
from sureenough.errors import UsageError
from tests.bench.making import FORMULA, HOSTILE, hostile_result, provenance


@pytest.mark.parametrize(
    ("cell", "column", "reads"),
    [
        (0.6721, ResultColumn("a", "percent"), "67.2"),
        (Measure(0.672, 0.54, 0.804), ResultColumn("a", "percent"), "67.2 [54.0, 80.4]"),
        (Measure(0.672, None, None), ResultColumn("a", "percent"), "67.2"),
        (-0.00001, ResultColumn("a", "points"), "+0.0"),
        (-0.031, ResultColumn("a", "points"), "-3.1"),
        (26693.78, ResultColumn("a", "tokens"), "26,694"),
        (7.5e7, ResultColumn("a", "tokens7"), "7.5"),
        (18.64e8, ResultColumn("a", "tokens7"), "186.4"),
        (448071.0, ResultColumn("a", "tokens7"), "0.0448"),
        (2.979, ResultColumn("a", "ratio"), "3.0x"),
        (1.25e-7, ResultColumn("a", "scientific"), "1.25e-07"),
        (12.345, ResultColumn("a", "number", digits=1), "12.3"),
        (None, ResultColumn("a", "number"), "–"),
        ("x", ResultColumn("a", "number"), "x"),
        (50, ResultColumn("a", "count"), "50"),
    ],
)
def test_how_a_cell_reads(cell: Cell, column: ResultColumn, reads: str) -> None:
    assert printed(cell, column) == reads


def test_whose_number_a_column_holds_is_in_its_heading() -> None:
    assert heading(ResultColumn("tokens", "tokens7", "10^7", paper="table 1")) == "tokens, 10^7 (paper, table 1)"


def test_csv_cells_cannot_start_formulas_and_numbers_stay_numbers() -> None:
    table = hostile_result().tables[0]
    cells = list(csv.reader(io.StringIO(comma_separated(table, provenance("=cmd")))))
    assert len(cells) == len(table.rows) + 1
    assert {len(row) for row in cells} == {len(cells[0])}
    assert not [cell for row in cells for cell in row if re.match(r"[=+@|%\t\r]|-(?![\d.])", cell)]
    assert cells[1][0] == "'" + FORMULA
    assert cells[1][1:4] == ["0.5", "0.25", "0.75"]
    assert cells[1][5] == "-0.031"
    assert cells[1][-1].startswith("'=cmd (sureenough 0.1.0")


def test_markdown_rows_keep_their_columns_and_hold_no_html() -> None:
    table = hostile_result().tables[0]
    text = markdown(table, provenance())
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == len(table.rows) + 2
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(table.columns) + 1}
    assert "<img" not in text
    assert "Made by `sureenough bench main" in text


def test_latex_balances_and_escapes() -> None:
    table = hostile_result().tables[0]
    text = latex(table, provenance("sureenough\n\\input{evil}"))
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
    assert {link for link in links if not link.startswith("#main-")} == {"data:,", "#main"}
    assert "http://" not in text
    assert "https://" not in text
    assert "style=" not in text, "the page's policy would block it"


def test_a_whole_report_on_disk(tmp_path: Path) -> None:
    result = hostile_result()
    result.save(tmp_path / "results" / "main.json")
    built = build(saved(tmp_path), tmp_path / "report", title="A run")
    assert built.page.exists()
    assert sorted(file.name for file in built.tables) == [
        f"main-{name}.{form}" for name in ("hostile", "live") for form in ("csv", "md", "tex")
    ]
    assert len(built.figures) == 8
    for file in built.figures:
        if file.suffix == ".png":
            width, height = struct.unpack(">II", file.read_bytes()[16:24])
            assert width > 600 < height * 2
        else:
            root = ET.parse(file).getroot()
            assert "sureenough bench" in "".join(root.itertext())
            assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 10
            assert "".join(root.itertext()).count("img src=x") >= 1, "text stays text"


def test_results_come_in_the_papers_order(tmp_path: Path) -> None:
    for name in ("width", "zebra", "main"):
        hostile_result(name).save(tmp_path / "results" / f"{name}.json")
    assert [one.name for one in saved(tmp_path)] == ["main", "width", "zebra"]


def test_a_folder_without_results_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="sureenough bench EXPERIMENT"):
        saved(tmp_path)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", "ü" * 300, "x" * 500])
def test_names_of_files_stay_names(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9-]{1,80}", slug(name))


def test_an_empty_table_is_still_a_table() -> None:
    table = Table("t", "nothing", [ResultColumn("a")], [])
    assert comma_separated(table, provenance()).splitlines() == ["a,made by"]
    assert r"\bottomrule" in latex(table, provenance())


def test_without_matplotlib_the_page_has_tables_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    built = build([hostile_result()], tmp_path, title="A run")
    text = built.page.read_text()
    assert built.figures == []
    assert "matplotlib is not installed: pip install" in built.missing
    assert escape(built.missing) in text
    assert "<table" in text
    assert "<svg" not in text
    assert "switched off" in build([hostile_result()], tmp_path, title="A run", plots=False).page.read_text()


def test_points_and_bars_have_their_values_as_titles(tmp_path: Path) -> None:
    text = build([hostile_result()], tmp_path, title="A run").page.read_text()
    titles = [html.unescape(title) for title in re.findall(r"<title>(.*?)</title>", text, re.DOTALL)[1:]]
    assert f"{HOSTILE}\nx $: 16\n{HOSTILE}: 50.0 % [40.0 %, 60.0 %]" in titles
    assert f"{HOSTILE}\nx $: a\n{HOSTILE}: 50.0 % [40.0 %, 60.0 %]" in titles
    assert "$\\alpha$ theirs (paper, table 1)\nx $: 64\n" + f"{HOSTILE}: 70.0 %" in titles
