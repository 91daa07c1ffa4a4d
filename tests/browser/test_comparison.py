"""Two strategies on the same question, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sureenough.server import ServerSettings
from tests.browser.visit import DEAD, DUCKS, EVIL, Visit, visiting_before
from tests.engines.misbehaving import Manner
from tests.server.recorded import Recorded
from tests.server.serving import ours, serving_app

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DELAY = 0.01


def corners(visit: Visit) -> list[tuple[float, float, float]]:
    """The left, top and bottom edges of both cards."""
    boxes = [visit.page.locator(".run-card").nth(at).bounding_box() for at in (0, 1)]
    return [(box["x"], box["y"], box["y"] + box["height"]) for box in boxes if box is not None]


def test_two_strategies_side_by_side(visit: Visit) -> None:
    page = visit.page
    visit.ask("How much does she make?", "sc", compared="sure", paths=24, seed=0)
    page.wait_for_selector(".run-card[data-state=running]")
    assert page.is_visible("#stop")
    visit.compared()
    assert page.locator(".run-card h2").all_inner_texts() == ["sc", "sure"]
    assert page.locator(".run-card .answer").all_inner_texts() == ["62", "62"]
    assert visit.text("#verdict").startswith("sure used ")
    assert "% fewer than sc with" in visit.text("#verdict")
    assert visit.text("#verdict").endswith("They agree: both answer 62.")
    assert visit.text("#comparison-question") == "How much does she make?"
    assert page.locator(".run-card .path-text").nth(1).inner_text().endswith("So \\boxed{62}")
    assert page.locator(".run-card h3 >> text=of every path").all_inner_texts() == [
        "Tokens of every path", "Confidence of every path",
    ]  # fmt: skip
    (left, top, _), (other_left, other_top, _) = corners(visit)
    assert top == other_top
    assert left < other_left, "side by side"
    assert page.is_visible("#go")
    page.reload()
    visit.compared()
    assert visit.text("#verdict").endswith("They agree: both answer 62.")
    page.set_viewport_size({"width": 390, "height": 844})
    (left, _, bottom), (other_left, other_top, _) = corners(visit)
    assert left == other_left
    assert bottom <= other_top, "one below the other"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click(".run-card h2 a >> nth=1")
    visit.state("over")
    assert visit.text("#answer") == "62"
    page.go_back()
    visit.compared()


def test_both_runs_are_stopped_together(browser: Browser) -> None:
    with (
        serving_app(Recorded(DUCKS, 0.2).app()) as upstream,
        ours(ServerSettings(upstream=f"{upstream.url}/v1")) as (url, state),
        Visit(browser, url) as visit,
    ):
        visit.ask("How much does she make?", "sc", compared="ac", paths=64)
        visit.page.wait_for_selector(".run-card[data-state=running] >> nth=1")
        assert len(state.runs) == 2
        visit.page.click("#stop")
        visit.page.wait_for_selector("#comparison[data-state=over]")
        assert not state.runs


@pytest.mark.parametrize(
    ("answers", "agree", "sentence"),
    [
        (("1/2", "0.5"), True, "a used 10 tokens, 50% fewer than b with 20. They agree: 1/2 and 0.5 mean the same."),
        (("1", "2"), False, "a used 10 tokens, 50% fewer than b with 20. They disagree: 1 and 2."),
        (("1", None), None, "a used 10 tokens, 50% fewer than b with 20. b gave no answer."),
        ((None, None), None, "a used 10 tokens, 50% fewer than b with 20. Neither gave an answer."),
    ],
)
def test_the_sentence_that_compares(
    browser: Browser, recorded: str, answers: tuple[str | None, str | None], agree: bool | None, sentence: str
) -> None:
    with Visit(browser, recorded) as visit:
        text = visit.page.evaluate(
            """async ([answers, agree]) => { const { verdict } = await import('/page/comparison.js');
               const { RunState } = await import('/page/run_state.js');
               const states = answers.map((answer, at) => Object.assign(new RunState(),
                 { run: { strategy: "ab"[at] }, summary: { tokens: 10 * (at + 1) }, result: { answer } }));
               return verdict(...states, agree); }""",
            [answers, agree],
        )
    assert text == sentence


def test_answers_agree_if_they_mean_the_same(browser: Browser) -> None:
    answers = iter(["1/2", "0.5"] * 8)
    with visiting_before(browser, lambda seed: Manner(answer=next(answers), tokens=3)) as visit:
        visit.ask("A half?", "sc", compared="sc", paths=1)
        visit.compared()
        assert visit.text("#verdict").startswith("Both used ")
        assert visit.text("#verdict").endswith("mean the same.")


def test_hostile_text_stays_text_in_a_comparison(browser: Browser, tmp_path: Path) -> None:
    with visiting_before(browser, Manner(answer=EVIL, tokens=3), keep_runs=tmp_path) as visit:
        visit.ask(EVIL, "sc", compared="sure", paths=4)
        visit.compared()
        visit.page.wait_for_function(
            "[...document.querySelectorAll('.run-card .path-text')].every(one => one.textContent)"
        )
        for text in visit.page.locator(".run-card .path-text").all_inner_texts():
            assert EVIL in text
        assert visit.text("#comparison-question") == EVIL
        assert visit.count("main img, main script") == 0


def test_a_comparison_that_fails_says_so(browser: Browser) -> None:
    settings = ServerSettings(upstream=DEAD, models=("gone",), retries=0)
    with ours(settings) as (url, _), Visit(browser, url, quiet=False) as visit:
        visit.page.fill("#question", "Hello?")
        visit.page.select_option("#other-strategy", "sc")
        visit.page.click("#ask summary")
        visit.page.fill("#other-strategy-options", "nonsense=1")
        visit.page.click("#go")
        visit.page.wait_for_selector("#error:not([hidden])")
        assert "nonsense" in visit.text("#error")
        assert visit.page.url == f"{url}/", "the first run is not shown alone"
        visit.ask("Hello?", "sc", compared="ac", paths=2)
        visit.page.wait_for_selector("#comparison[data-state=over]")
        assert "failed, so there is nothing to compare" in visit.text("#verdict")
