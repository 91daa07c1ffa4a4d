"""What the page shows of a result: the text behind the answer, notes, tokens, every path, and what was learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sureenough.server import ServerSettings
from tests.browser.visit import Visit, recorded_paths, visiting, visiting_before
from tests.engines.misbehaving import Manner
from tests.server.serving import ours

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DELAY = 0.0


def test_the_text_behind_the_answer_is_shown(visit: Visit) -> None:
    visit.ask("How much does she make?", "ddc", "weight=mean")
    visit.page.wait_for_selector("#winner-text:not(:empty)")
    number = int(visit.text("#winner-name").removeprefix("The answer is from path "))
    assert "f-agrees" in str(visit.page.get_attribute(f".chip >> nth={number}", "class"))
    assert visit.text("#winner-text").endswith("So \\boxed{62}")
    visit.page.click("#winner-open")
    visit.page.wait_for_selector("#text span")
    assert visit.text("#reader-title") == f"Path {number}"


def test_marked_reasoning_is_left_out_of_the_text(visit: Visit) -> None:
    ends = visit.page.evaluate(
        """async texts => { const { finalPart } = await import('/page/reader.js'); return texts.map(finalPart); }""",
        [["<think>no", "</think>", "\n\nIt is ", "7."], ["<think>7</think> "], ["a. ", "b" * 900]],
    )
    assert ends == ["It is 7.", "<think>7</think>", "…" + "b" * 700]


def test_paths_that_started_before_the_end_of_the_warm_up_are_not_counted_as_its_own(visit: Visit) -> None:
    paths = [
        {"warmup": True, "fate": "kept"},
        {"warmup": True, "fate": None},
        None,
        {"warmup": False, "fate": "kept"},
    ]
    sentence = visit.page.evaluate(
        """async paths => {
            const { describeRun } = await import('/page/panels.js');
            return describeRun({ summary: { counted: 0, warmup: 16 }, answer: null, counts: () => ({}), paths })[2];
        }""",
        paths,
    )
    assert sentence.startswith("Warm-up: 1 of 16 paths have ended.")


def test_notes_and_hints_are_shown_before_and_after_a_run(browser: Browser) -> None:
    with visiting(browser) as visit:
        visit.page.wait_for_selector("#model-notes li")
        assert "school arithmetic only" in visit.text("#empty")
        visit.ask("What is the capital of France?", "sure", paths=8)
        visit.page.wait_for_selector("#notes li >> nth=1")
        visit.state("over")
        assert "school arithmetic only" in visit.text("#notes li:first-child")
        assert "has never seen 'capital'" in visit.text("#notes li:nth-child(2)")


def test_a_run_without_an_answer_says_why(browser: Browser) -> None:
    with visiting_before(browser, Manner(tokens=3), kind="choice") as visit:
        visit.ask("A, B or C?", "sure")
        visit.state("over")
        assert visit.text("#answer") == "none"
        assert visit.text("#status").startswith("No path gave an answer")
        assert "paths has one of the letters" in visit.text("#notes")
        assert visit.page.get_attribute("#run", "data-unanswered") is not None
        visit.page.wait_for_selector("#winner-text:not(:empty)")
        assert visit.text("#winner-name") == "No answer was found in path 0"


def test_tokens_by_what_became_of_them(visit: Visit) -> None:
    visit.ask("How much does she make?", "ddc", "weight=mean")
    visit.state("over")
    buckets = dict(part.split(" ")[::-1] for part in visit.text("#token-buckets").split(", "))
    assert {"warm-up", "pruned"} <= buckets.keys()
    total = sum(int(tokens.replace(",", "")) for tokens in buckets.values())
    assert total == int(visit.text("#tokens").replace(",", ""))


@pytest.mark.parametrize("strategy", ["sc", "ac", "esc"])
def test_no_confidence_panel_without_confidence(visit: Visit, strategy: str) -> None:
    visit.ask("How much does she make?", strategy, paths=40)
    visit.state("over")
    assert visit.text("#path-chart-name") == "Tokens of every path"
    assert visit.inked("#path-chart") > 0
    assert visit.count(".boxes") == 0, "bars do not overlap"
    assert visit.page.is_hidden("#chart-mode")
    visit.page.hover("#path-chart .u-over", position={"x": 10, "y": 30})
    visit.page.mouse.down()
    visit.page.mouse.up()
    visit.page.wait_for_selector("#text span")


def drawn(visit: Visit) -> str:
    """The picture of the paths."""
    return str(visit.page.evaluate("document.querySelector('#path-chart canvas').toDataURL()"))


def test_paths_are_brought_out_by_hover_and_focus(visit: Visit) -> None:
    page = visit.page
    visit.ask("How much does she make?", "sure", "delta=0", paths=20)
    visit.state("over")
    page.mouse.move(1, 1)
    page.wait_for_timeout(300)
    plain, pictures = drawn(visit), set()
    for target in (".chip >> nth=3", ".chip >> nth=4", ".votes li >> nth=0"):
        page.hover(target)
        page.wait_for_timeout(200)
        pictures.add(drawn(visit))
    assert len(pictures) == 3
    assert plain not in pictures
    page.mouse.move(1, 1)
    page.focus(".chip[tabindex='0']")
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(200)
    assert drawn(visit) not in {plain, *pictures}, "the focus brings out its path, too"
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(200)
    assert drawn(visit) == plain


def test_many_paths_get_one_box_each(visit: Visit) -> None:
    page = visit.page
    visit.ask("How much does she make?", "sure", "delta=0", paths=32)
    visit.state("over")
    assert (visit.count(".chip"), visit.count(".boxes")) == (32, 0)
    page.goto(visit.url)  # the run before must not be taken for this one
    visit.ask("How much does she make?", "ddc", "weight=mean,tau=1,drop=0,trust=0", paths=48)
    visit.state("over")
    assert visit.count(".chip") > 32
    page.wait_for_selector(".boxes")
    assert visit.inked("#path-chart") > 0
    assert "every box shows" in visit.text("#path-chart-note")
    page.hover(".boxes", position={"x": 15, "y": 12})
    assert str(page.get_attribute(".boxes", "title")).startswith("path 0: ")
    page.click(".boxes", position={"x": 15, "y": 12})
    page.wait_for_selector("#text span")
    assert visit.text("#reader-title") == "Path 0"
    page.click("#chart-mode")
    page.wait_for_selector("#path-chart .uplot")
    assert visit.count(".boxes") == 0


def test_what_was_learned_is_shown_in_plain_words(browser: Browser) -> None:
    with recorded_paths(0.0) as url, Visit(browser, url) as visit:
        visit.ask("How much does she make?", "sure", "delta=0", paths=16)
        visit.state("over")
        visit.page.goto(f"{url}/settings")
        visit.page.wait_for_selector("#learned-table td")
        assert "agreement with the other paths" in visit.text("#learned")
        assert "No request to /v1 has been answered yet." in visit.text("#latency")
        row = visit.page.locator("#learned-table td").all_inner_texts()
        assert row[:4] == ["recorded", "sure:delta=0", "64", "1"]
        assert all(len(cell.split(" · ")) == 2 for cell in row[4:6])
        visit.page.set_viewport_size({"width": 390, "height": 844})
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390


def watched_log(folder: Path) -> None:
    """The log of a run whose engine watches its paths: token counts while they run, texts at the end."""
    summary = {"phase": "sampling", "budget": 4, "warmup": 2, "window": 64, "stride": 8, "reads_confidence": True,
               "started": 3, "counted": 0, "votes": [], "measure": None, "posterior": None, "why": "", "tokens": 900,
               "full_budget_tokens": None, "gate": {"trust": None, "drop": 3.0, "risk": None},
               "stop": {"quantity": "posterior", "threshold": 0.95, "stops_above": True}}  # fmt: skip
    lines: list[dict[str, Any]] = [
        {"schema": 2, "run": {"question": "Why?", "model": "m", "strategy": "ddc", "begun": 1.0}},
        {"at": 0.1, "paths": [{"path": n, "warmup": True, "tokens": 100} for n in range(3)], "summary": summary},
        {"at": 0.6, "paths": [{"path": n, "tokens": 300 - 90 * n} for n in range(3)]},
        {"at": 0.9, "paths": [{"path": 2, "fate": "pruned", "tier": "drop"}]},
        {"text": {"path": 0, "texts": ["So 7."], "confidence": []}},
    ]
    (folder / "watched.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_paths_that_the_engine_watches_grow_as_bars(browser: Browser, tmp_path: Path) -> None:
    watched_log(tmp_path)
    with ours(ServerSettings(keep_runs=tmp_path, view_only=True)) as (url, _):
        page = browser.new_page(viewport={"width": 1360, "height": 1000})
        page.goto(f"{url}/runs/watched")
        page.wait_for_selector(".chip.f-pruned")
        page.wait_for_selector("#path-chart canvas")
        assert page.inner_text("#path-chart-name") == "Tokens of every path"
        assert "the engine watches its paths itself" in page.inner_text("#path-chart-note")
        box = page.locator("#path-chart .u-over").bounding_box()
        assert box is not None
        lengths = [coloured(page, box, row) for row in (1 / 6, 3 / 6, 5 / 6)]
        assert lengths[0] > lengths[1] > lengths[2] > 0, "as long as their tokens"
        page.click(".chip >> nth=0")
        page.wait_for_selector("#text span")
        assert "confidence of single tokens is not known" in page.inner_text("#scale")
        page.close()


def coloured(page: Any, box: Any, row: float) -> int:
    """Pixels of a bar: those in a row of the chart that are not grey, as the grid is."""
    canvas = page.locator("#path-chart canvas").bounding_box()
    top, left = box["y"] - canvas["y"] + box["height"] * row, box["x"] - canvas["x"]
    pixels: int = page.evaluate(
        """([left, top, width]) => { const c = document.querySelector('#path-chart canvas'), r = devicePixelRatio;
           const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
           copy.drawImage(c, 0, 0);
           const data = [...copy.getImageData(left * r, top * r, width * r, 1).data];
           return data.filter((_, at) => at % 4 === 0 && data[at + 3] > 150
             && Math.max(...data.slice(at, at + 3)) - Math.min(...data.slice(at, at + 3)) > 9).length; }""",
        [left, top, box["width"]],
    )
    return pixels
