"""The report in a real browser: silent, offline, figures drawn, tables those of the JSON, hostile names inert."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sureenough.bench.paper import EXPERIMENTS
from sureenough.bench.report import build, saved, slug
from sureenough.bench.result import ExperimentResult
from sureenough.bench.tables import printed, value_of, without_constants
from tests.bench.making import HOSTILE, hostile_result, inputs, make_pool
from tests.browser.visit import Visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser


Report = tuple[Path, list[ExperimentResult]]
"""The page, and the results that it shows."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Every experiment on a small pool, and a hostile result among them, saved and read back."""
    folder = tmp_path_factory.mktemp("run")
    sources = [
        make_pool(folder),
        make_pool(folder, questions=5, dataset=HOSTILE, model="$x$ <b>", name="other.parquet"),
    ]
    for name, one in EXPERIMENTS.items():
        one.run(inputs(*sources, live=one.live != "no", repeats=1)).save(folder / "results" / f"{name}.json")
    hostile_result("hostile").save(folder / "results" / "hostile.json")
    found = saved(folder)
    return build(found, folder / "report", title=f"Run {HOSTILE}").page, found


@pytest.fixture
def visit(browser: Browser, results: Report) -> Iterator[Visit]:
    with Visit(browser, results[0].as_uri(), form=False) as visit:
        yield visit


def test_the_page_is_silent_and_asks_for_nothing_but_itself(visit: Visit, results: Report) -> None:
    visit.page.mouse.wheel(0, 20000)
    assert visit.requests == [results[0].as_uri()]
    assert visit.page.title() == f"Run {HOSTILE}"


def test_every_figure_is_drawn(visit: Visit, results: Report) -> None:
    drawn = visit.page.eval_on_selector_all(
        "figure",
        "all => all.map(f => [f.querySelector('h3').textContent, f.querySelectorAll('svg path, svg rect').length])",
    )
    figures = [figure for result in results[1] for figure in result.figures]
    assert [title.removesuffix("live") for title, _ in drawn] == [figure.title for figure in figures]
    assert min(marks for _, marks in drawn) > 5
    assert not visit.page.locator("svg [d*=nan], svg [y*=nan], svg [x*=nan], svg [d*=None]").count()
    sizes = visit.page.eval_on_selector_all(".plot svg", "all => all.map(s => s.getBoundingClientRect().height)")
    assert min(sizes) > 150
    colours = visit.page.eval_on_selector_all(
        ".plot svg g path, .plot svg g rect", "all => all.map(s => getComputedStyle(s).fill)"
    )
    assert "rgb(0, 114, 178)" in colours, "the policy of the page blocks no colour"


def test_tables_equal_the_json(visit: Visit, results: Report) -> None:
    for result in results[1]:
        for full in result.tables:
            table, caption = without_constants(full)
            assert not caption or visit.page.get_by_text(caption, exact=True).count()
            place = f"#{slug(result.name)}-table-{slug(table.name)}"
            cells = visit.page.eval_on_selector_all(
                f"{place} tbody tr",
                "rows => rows.map(r => [...r.cells].map(c => [c.textContent, c.dataset.v ?? null]))",
            )
            assert len(cells) == len(table.rows)
            for row, told in zip(table.rows, cells, strict=True):
                for cell, column, (text, value) in zip(row, table.columns, told, strict=True):
                    known = value_of(cell)
                    assert text == (known if isinstance(known, str) else printed(cell, column))
                    assert value == (None if isinstance(known, str) else "" if known is None else repr(known))


def test_sorting_goes_by_value_both_ways_and_puts_blanks_last(visit: Visit) -> None:
    place = "#hostile-table-hostile"

    def order() -> list[float | None]:
        told = visit.page.eval_on_selector_all(
            f"{place} tbody td:nth-child(3)", "all => all.map(c => Number(c.dataset.v))"
        )
        return [float(value) for value in told]

    head = visit.page.locator(f"{place} thead button").nth(2)
    head.click()
    assert order() == [1, 99, 1200, 100000]
    assert visit.page.locator(f"{place} th").nth(2).get_attribute("aria-sort") == "ascending"
    head.click()
    assert order() == [100000, 1200, 99, 1]
    theirs = visit.page.locator(f"{place} thead button").nth(4)
    for _ in range(2):
        theirs.click()
        blanks = visit.page.eval_on_selector_all(f"{place} tbody td:nth-child(5)", "all => all.map(c => c.dataset.v)")
        assert blanks[-1] == ""


def test_hostile_names_are_text(visit: Visit) -> None:
    assert visit.page.locator("img, iframe, object, b").count() == 0
    assert visit.page.locator("script").count() == 1
    names = visit.page.eval_on_selector_all("#hostile tbody td:first-child", "all => all.map(c => c.textContent)")
    assert HOSTILE in names
    labels = visit.page.eval_on_selector_all("#hostile svg text", "all => all.map(t => t.textContent)")
    assert HOSTILE in labels


def test_light_and_dark(browser: Browser, results: Report) -> None:
    grounds = []
    ground = "getComputedStyle(document.body).backgroundColor"
    for scheme in ("light", "dark"):
        with Visit(browser, results[0].as_uri(), form=False, color_scheme=scheme) as visit:
            grounds.append(visit.page.evaluate(ground))
            visit.page.locator("#theme").click()
            assert visit.page.evaluate(ground) != grounds[-1]
            text = visit.page.evaluate("getComputedStyle(document.body).color")
            drawn = visit.page.evaluate("getComputedStyle(document.querySelector('svg text')).fill")
            assert text == drawn, "figures take the colours of the page"
    assert len(set(grounds)) == 2


def test_it_reads_without_scripts(browser: Browser, results: Report) -> None:
    main = json.loads(next(one for one in results[1] if one.name == "main").to_json())
    with Visit(browser, results[0].as_uri(), form=False, java_script_enabled=False) as visit:
        assert visit.page.locator("#main-table-main tbody tr").count() == len(main["tables"][0]["rows"])


def test_the_verdict_and_the_saving_are_seen_without_scrolling_sideways(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 1400, "height": 900})
    box = visit.page.locator("#verdict").bounding_box()
    assert box is not None
    assert box["y"] < 300
    heads = visit.page.locator("#main-table-main th", has_text="saving")
    place = heads.first.bounding_box()
    assert place is not None
    assert place["x"] + place["width"] < 1290, "within the page's 1180 px"


def test_a_narrow_screen_does_not_scroll_sideways(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 380, "height": 800})
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 380
