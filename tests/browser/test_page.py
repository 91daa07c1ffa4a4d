"""The live page in a real Chromium: paths grow, some are cut short, the posterior reaches its line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sureenough.core.events import path_seed
from sureenough.core.options import RunOptions
from sureenough.server import ServerLimits, ServerSettings
from tests.browser.visit import DEAD, EVIL, Visit, recorded_paths, visiting, visiting_before
from tests.engines.misbehaving import Manner
from tests.server.serving import ours

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DELAY = 0.05  # slow enough to be watched


def test_the_built_in_model_from_question_to_answer(browser: Browser) -> None:
    with visiting(browser) as visit:
        visit.page.click("text=86 + 77 - 162 / 27 = ?")
        visit.ask("86 + 77 - 162 / 27 = ?", "ddc", "warmup=5,weight=mean,tau=0.99,trust=0,drop=0", paths=32, parallel=6)
        visit.page.wait_for_selector(".chip >> nth=3")
        visit.page.wait_for_selector("#tokens:not(:text-is('0'))")
        first = int(visit.text("#tokens").replace(",", ""))
        visit.state("over")
        assert visit.text("#answer") == "157"
        assert "settled" in visit.text("#status")
        assert float(visit.text("#measure")) > 0.99
        assert int(visit.text("#tokens").replace(",", "")) > first, "paths grew"
        assert visit.inked("#path-chart") > 0
        assert visit.count(".chip.f-discarded, .chip.f-pruned") > 0, "some are greyed out"
        assert visit.count(".chip.f-agrees") >= 6
        assert visit.text("#votes li:first-child .a") == "157"


def test_a_phone_needs_no_sideways_scrolling(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 390, "height": 844})
    assert "vote on the answer" in visit.text("#empty")
    for path in ("/", "/runs"):
        visit.page.goto(visit.url + path)
        visit.page.wait_for_load_state("networkidle")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    visit.page.goto(visit.url)
    visit.ask("How much does she make?", "ddc", "weight=mean")
    visit.state("over")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not visit.page.is_visible("#empty")


def test_paths_are_pruned_in_sight(visit: Visit) -> None:
    visit.ask("How much does she make?", "ddc", "weight=mean")
    visit.page.wait_for_selector(".chip.f-running")
    visit.page.wait_for_selector(".chip.f-waiting")
    assert "Warm-up" in visit.text("#status")
    assert visit.text("#answer-label").lower() == "thinking"
    visit.page.wait_for_selector(".chip.f-pruned")
    visit.state("over")
    assert visit.text("#answer") == "62"
    assert visit.text("#votes li:first-child .a") == "62"
    assert 0.5 < float(visit.text("#measure")) < 0.95, "the vote is close, and the budget is spent"
    assert visit.text("#threshold") == "stops above 0.95"
    assert visit.page.get_attribute("#run", "data-settled") is None
    assert visit.text("#saved").endswith("%")
    visit.page.click(".chip.f-pruned >> nth=0")
    visit.page.wait_for_selector("#text span")
    assert visit.text("#reader-note").startswith("pruned: its confidence ")
    assert visit.count("#text .c0, #text .c1") > 0, "tokens are shaded"


def test_a_reload_in_the_middle_goes_on(visit: Visit) -> None:
    visit.ask("How much does she make?", "ddc", "weight=mean")
    visit.page.wait_for_selector(".chip.f-waiting")
    address = visit.page.url
    visit.page.reload()
    visit.page.wait_for_selector(".chip")
    assert visit.page.url == address
    assert visit.text("#run-question") == "How much does she make?"
    visit.state("over")
    assert visit.text("#answer") == "62"
    visit.page.reload()
    visit.state("over")
    assert (visit.text("#answer"), visit.count(".chip.f-pruned") > 0) == ("62", True)


def test_paths_that_ended_out_of_turn_are_not_drawn_as_discarded(browser: Browser) -> None:
    """The first path has no end, so that the others are not counted before the run is stopped."""
    endless = Manner(tokens=1_000_000, delay=0.05)
    manner = Manner(answer="7")
    with visiting_before(browser, lambda seed: endless if seed == path_seed(0, 0) else manner) as visit:
        visit.ask("6 + 1?", "ac", paths=4, parallel=4)
        visit.page.wait_for_selector(".chip.f-waiting >> nth=2")
        visit.page.click("#stop")
        visit.state("over")
        assert (visit.count(".chip.f-uncounted"), visit.count(".chip.f-discarded")) == (3, 1)
        assert visit.text("#fates .f-uncounted") == "3 ended, not counted"
        visit.page.click(".chip.f-uncounted >> nth=0")
        visit.page.wait_for_selector("#text span")
        assert "ended, not counted" in visit.text("#reader-note")
        assert visit.inked("#path-chart") > 0


def test_a_page_of_one_of_several_replicas_says_that_it_cannot_start_runs(browser: Browser) -> None:
    with visiting(browser, replica="a") as visit:
        visit.page.wait_for_selector("#error:has-text('This page cannot start runs.')")
        assert "Several processes serve this address" in visit.text("#error")
        assert not visit.page.is_visible("#go")


def test_stopping_takes_the_vote_so_far(visit: Visit) -> None:
    visit.ask("How much does she make?", "sc", paths=64)
    visit.page.wait_for_selector(".chip.f-agrees")
    visit.page.click("#stop")
    visit.state("over")
    assert visit.text("#status").startswith("Stopped after")
    assert "does not use confidence" in visit.text("#path-chart-note")
    assert visit.text("#path-chart-name") == "Tokens of every path"


@pytest.mark.parametrize(
    ("strategy", "threshold", "measure"),
    [
        ("sure", "stops at 0.01 or less", "Expected gain of more paths"),
        ("ac", "stops above 0.95", "Posterior of the leader"),
        ("ddc", "stops above 0.95", "Posterior by the paper's weights"),
        ("esc", "", "Stop rule"),
    ],
)
def test_14_21_every_stop_rule_is_drawn_and_named(visit: Visit, strategy: str, threshold: str, measure: str) -> None:
    visit.ask("How much does she make?", strategy)
    visit.state("over")
    assert visit.text("#threshold") == threshold
    assert visit.text("#measure-name") == visit.page.text_content("#stop-chart-name") == measure
    assert visit.page.is_visible("#stop-chart") is (strategy != "esc"), "no empty chart"
    assert ("with every path counted as one vote" in visit.text("#equal-posterior")) is (strategy == "ddc")


def test_keys_alone_will_do(visit: Visit) -> None:
    page = visit.page
    page.focus("#question")
    page.keyboard.type("How much does she make?")
    page.keyboard.press("Control+Enter")
    visit.state("over")
    page.focus(".chip[tabindex='0']")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.wait_for_selector("#text span")
    assert visit.text("#reader-title") == "Path 2"
    assert page.get_attribute(".chip >> nth=2", "aria-selected") == "true"
    page.keyboard.press("Escape")
    page.wait_for_selector("#reader", state="hidden")
    assert page.evaluate("document.activeElement.textContent") == "2", "the focus is back where it was"
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.textContent") == str(visit.count(".chip") - 1)


def test_a_click_on_a_line_reads_its_path(visit: Visit) -> None:
    visit.ask("How much does she make?", "ddc", "weight=mean", paths=32)
    visit.state("over")
    box = visit.page.locator("#path-chart .u-over").bounding_box()
    assert box is not None
    for part in (0.3, 0.4, 0.5, 0.6, 0.7):
        visit.page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * part)
        visit.page.mouse.click(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * part)
    visit.page.wait_for_selector("#text span")
    assert visit.text("#reader-title").startswith("Path ")


def test_light_and_dark(browser: Browser, recorded: str) -> None:
    with Visit(browser, recorded, color_scheme="dark") as visit:

        def paper() -> str:
            return str(visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))

        assert paper() == "rgb(15, 20, 26)"
        visit.page.click("#theme")
        assert (visit.text("#theme"), paper()) == ("Theme: light", "rgb(246, 247, 249)")
        visit.page.reload()
        assert paper() == "rgb(246, 247, 249)", "the choice is remembered"
        visit.page.click("#theme")
        assert paper() == "rgb(15, 20, 26)"


def test_an_upstream_that_is_down(browser: Browser) -> None:
    with visiting(browser, upstream=DEAD, models=("gone",), retries=0) as visit:
        visit.ask("Anybody?", "sc", paths=2)
        visit.state("error")
        assert "cannot be reached" in visit.text("#error")


def test_an_upstream_without_log_probabilities(browser: Browser) -> None:
    with recorded_paths(0.0, logprobs=False) as url, Visit(browser, url) as visit:
        visit.ask("How much?", "ddc")
        visit.state("error")
        assert "sends no log-probabilities" in visit.text("#error")
        visit.ask("How much?", "sc", paths=4)
        visit.state("over")
        assert visit.page.locator("#error").is_hidden()


def test_hostile_words_are_only_words(browser: Browser, tmp_path: Path) -> None:
    with visiting_before(browser, Manner(answer=EVIL, tokens=3), keep_runs=tmp_path) as visit:
        visit.ask(EVIL, "sure", paths=4)
        visit.state("over")
        visit.page.click(".chip >> nth=0")
        visit.page.wait_for_selector("#text span")
        assert EVIL in visit.text("#text")
        assert EVIL in visit.text("#winner-text")
        assert visit.text("#run-question") == EVIL
        assert visit.count("main img, main script") == 0
        visit.page.goto(f"{visit.url}/runs")
        visit.page.wait_for_selector("td.q a")
        assert visit.text("td.q a") == EVIL
        assert visit.count("main img, main script") == 0


def test_runs_that_were_kept_can_be_read_again(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "main.html").write_text(
        "<title>r</title><script>document.title = typeof localStorage</script><p>report"
    )
    with recorded_paths(0.0, keep_runs=tmp_path) as url, Visit(browser, url) as visit:
        visit.ask("How much does she make?", "ddc", "weight=mean")
        visit.state("over")
    with recorded_paths(0.0, keep_runs=tmp_path) as url:  # another server: nothing is in memory
        with Visit(browser, url) as visit:
            visit.page.click("#nav-runs")
            visit.page.click("td.q a")
            visit.state("over")
            assert visit.text("#answer") == "62"
            visit.page.click(".chip.f-pruned >> nth=0")
            visit.page.wait_for_selector("#text span")
        with Visit(browser, url, quiet=False) as visit:  # the report has a script that its policy forbids to store
            visit.page.goto(f"{url}/runs")
            visit.page.click("#reports a")
            visit.page.wait_for_selector("text=report")


def test_a_run_that_is_not_there(browser: Browser, recorded: str) -> None:
    with Visit(browser, recorded, quiet=False) as visit:
        visit.page.goto(f"{recorded}/runs/{'a' * 32}")
        visit.page.wait_for_selector("#error:not([hidden])")
        assert "run does not exist" in visit.text("#error")


def test_the_form_has_the_options_and_limits_of_the_server(browser: Browser) -> None:
    limits = ServerLimits(paths=40, parallel=9)
    settings = ServerSettings(
        upstream=DEAD, models=("gone",), strategy="sure:delta=0.02", paths=33, parallel=7, limits=limits
    )
    with ours(settings) as (url, _), Visit(browser, url) as visit:
        page = visit.page
        assert [page.get_attribute("[name=paths]", name) for name in ("min", "max")] == ["1", "40"]
        assert (page.input_value("[name=paths]"), page.input_value("[name=parallel]")) == ("33", "7")
        assert (page.input_value("#strategy"), page.input_value("#strategy-options")) == ("sure", "delta=0.02")
        names = page.eval_on_selector_all("#ask [name]", "nodes => nodes.map(node => node.name)")
        assert set(names) == set(RunOptions.fields())
        page.select_option("#strategy", "ac")
        assert page.get_attribute("#strategy-options", "placeholder") == "tau=0.95"
