"""The report in a real browser: silent, offline, figures drawn, tables those of the JSON, hostile names inert."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sureenough.bench.experiments import EXPERIMENTS, ExperimentSettings, Inputs
from sureenough.bench.report import build, saved
from sureenough.bench.report.cells import shown, slug, value_of
from sureenough.bench.result import ExperimentResult
from tests.bench.making import HOSTILE, hostile_result, live_rows, make_pool

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


class Visit:
    """A page and everything it said or asked for."""

    def __init__(self, browser: Browser, file: Path, **options: Any) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page: Page = browser.new_page(**options)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[ExperimentResult]]:
    """Every experiment on a small pool, and a hostile result among them, saved and read back."""
    folder = tmp_path_factory.mktemp("run")
    sources = [
        make_pool(folder),
        make_pool(folder, questions=5, dataset=HOSTILE, model="$x$ <b>", name="other.parquet"),
    ]
    for name, one in EXPERIMENTS.items():
        live = live_rows() if one.live != "no" else []
        one.run(Inputs(sources, ExperimentSettings(repeats=1), live)).save(folder / "results" / f"{name}.json")
    hostile_result("hostile").save(folder / "results" / "hostile.json")
    found = saved(folder)
    return build(found, folder / "report", title=f"Run {HOSTILE}", plots=False).page, found


@pytest.fixture
def visit(browser: Browser, results: tuple[Path, list[ExperimentResult]]) -> Iterator[Visit]:
    visit = Visit(browser, results[0])
    yield visit
    visit.page.close()


def test_the_page_is_silent_and_asks_for_nothing_but_itself(
    visit: Visit, results: tuple[Path, list[ExperimentResult]]
) -> None:
    visit.page.mouse.wheel(0, 20000)
    assert visit.said == []
    assert visit.asked == [results[0].as_uri()]
    assert visit.page.title() == f"Run {HOSTILE}"


def test_every_figure_is_drawn(visit: Visit, results: tuple[Path, list[ExperimentResult]]) -> None:
    marks = visit.page.eval_on_selector_all(
        "figure",
        "all => all.map(f => [f.querySelector('h3').textContent, f.querySelectorAll('.mark, .plot .line').length])",
    )
    figures = [figure for result in results[1] for figure in result.figures]
    assert [title.removesuffix("live") for title, _ in marks] == [figure.title for figure in figures]
    for (title, drawn), figure in zip(marks, figures, strict=True):
        known = sum(y is not None for series in figure.series for y in series.y)
        assert drawn >= min(known, len(figure.series)), title
        assert not visit.page.locator(".plot svg [d*=NaN], .plot svg [y*=NaN], .plot svg [cx*=NaN]").count()
    sizes = visit.page.eval_on_selector_all(".plot svg", "all => all.map(s => s.getBoundingClientRect().height)")
    assert min(sizes) > 150


def test_tables_equal_the_json(visit: Visit, results: tuple[Path, list[ExperimentResult]]) -> None:
    for result in results[1]:
        for table in result.tables:
            place = f"#{slug(result.name)}-table-{slug(table.name)}"
            cells = visit.page.eval_on_selector_all(
                f"{place} tbody tr",
                "rows => rows.map(r => [...r.cells].map(c => [c.textContent, c.dataset.v ?? null]))",
            )
            assert len(cells) == len(table.rows)
            for row, told in zip(table.rows, cells, strict=True):
                for cell, column, (text, value) in zip(row, table.columns, told, strict=True):
                    known = value_of(cell)
                    assert text == (known if isinstance(known, str) else shown(cell, column))
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
    assert visit.said == []


def test_hostile_names_are_text(visit: Visit) -> None:
    assert visit.page.locator("img, iframe, object, b").count() == 0
    assert visit.page.locator("script").count() == 2
    names = visit.page.eval_on_selector_all("#hostile tbody td:first-child", "all => all.map(c => c.textContent)")
    assert HOSTILE in names
    hovered = set()
    for figure in visit.page.locator("#hostile figure").all():
        figure.locator(".plot circle, .plot rect").first.hover(force=True)
        hovered.add(figure.locator(".tip strong").text_content())
    assert hovered == {HOSTILE}
    assert visit.said == []


def test_a_legend_hides_and_shows_its_series(visit: Visit) -> None:
    figure = visit.page.locator("#main figure").first
    series = figure.locator(".plot .series")
    before = series.count()
    figure.locator(".legend button").first.click()
    assert series.count() == before - 1
    assert figure.locator(".legend button").first.get_attribute("aria-pressed") == "false"
    figure.locator(".legend button").first.click()
    assert series.count() == before


def test_hovering_a_point_says_its_numbers(visit: Visit, results: tuple[Path, list[ExperimentResult]]) -> None:
    main = next(one for one in results[1] if one.name == "main")
    series = main.figures[0].series[-1]
    figure = visit.page.locator("#main figure").first
    figure.locator(".plot .series").last.locator("circle").first.hover(force=True)
    tip = figure.locator(".tip")
    assert tip.is_visible()
    assert series.name in (tip.text_content() or "")
    assert f"{100 * (series.y[0] or 0):.1f} %" in (tip.text_content() or "")


def test_light_and_dark(browser: Browser, results: tuple[Path, list[ExperimentResult]]) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        visit = Visit(browser, results[0], color_scheme=scheme)
        ground = "getComputedStyle(document.body).backgroundColor"
        grounds.append(visit.page.evaluate(ground))
        visit.page.locator("#theme").click()
        assert visit.page.evaluate(ground) != grounds[-1]
        assert visit.said == []
        visit.page.close()
    assert len(set(grounds)) == 2


def test_it_reads_without_scripts(browser: Browser, results: tuple[Path, list[ExperimentResult]]) -> None:
    visit = Visit(browser, results[0], java_script_enabled=False)
    main = json.loads(next(one for one in results[1] if one.name == "main").to_json())
    assert visit.page.locator("#main-table-main tbody tr").count() == len(main["tables"][0]["rows"])
    visit.page.close()


def test_a_narrow_screen_does_not_scroll_sideways(
    browser: Browser, results: tuple[Path, list[ExperimentResult]]
) -> None:
    visit = Visit(browser, results[0], viewport={"width": 380, "height": 800})
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 380
    visit.page.close()
