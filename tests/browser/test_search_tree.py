"""What the page shows of searches, on the built-in model: the tree of a search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.visit import Visit, visiting

if TYPE_CHECKING:
    from playwright.sync_api import Browser

QUESTION = "86 + 77 - 162 / 27 = ?"


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    with visiting(browser) as visit:
        yield visit


def test_a_search_is_drawn_as_a_tree(visit: Visit) -> None:
    visit.ask(QUESTION, "predictive+sc", "runs=2,rollouts=3,rollout_tokens=80,max_steps=4")
    visit.state("over")
    assert visit.text("#answer") == "157"
    number = int(visit.text("#search-name").removeprefix("The search for path "))
    nodes, used = visit.count("#search-tree circle"), visit.count("#search-tree circle.used")
    assert nodes >= 1 + 3
    assert 2 <= used < nodes, "the root, and what the path was made from"
    assert visit.count("#search-tree path") == nodes - 1
    assert f"path {number} was made from {used - 1} of them" in visit.text("#search-note")
    assert "tokens" in str(visit.page.text_content("#search-tree circle.used title"))
    assert "prompt tokens read again" in visit.text("#reread-tokens")
    visit.page.click(f".chip >> nth={1 - number}")
    visit.page.wait_for_selector(f"#search-name:text-is('The search for path {1 - number}')")
    visit.page.reload()
    visit.state("over")
    assert visit.count("#search-tree circle.used") >= 2, "a late reader gets the same tree"


def test_the_tree_of_another_run_replaces_one_of_the_same_size(visit: Visit) -> None:
    titles = visit.page.evaluate("""async () => {
      const { RunState } = await import("/page/run_state.js");
      const { showSearch } = await import("/page/search_tree.js");
      return ["first", "second"].map(text => {
        const state = new RunState(), branch = { branch: 0, parent: null, round: 0, tokens: 1, text, used: true };
        state.apply({ paths: [{ path: 0, branches: [branch] }] });
        showSearch(state, null);
        return document.querySelector("#search-tree title").textContent;
      });
    }""")
    assert [title.split()[-1] for title in titles] == ["first", "second"]


def test_logs_with_missing_paths_and_very_many_steps(visit: Visit) -> None:
    """A kept run is a file, which may hold anything that the types allow."""
    counts = visit.page.evaluate("""async () => {
      const { RunState } = await import("/page/run_state.js");
      const { showChips, showTiles } = await import("/page/panels.js");
      const state = new RunState(), chips = document.getElementById("chips");
      const steps = Array(200000).fill([1, 16, 0.25]);
      const stop = { quantity: "expected_gain", threshold: 0.01, stops_above: false };
      state.apply({ paths: [{ path: 5 }, { path: 1000 }], steps, summary: { stop, measure: 0.25 } });
      chips.replaceChildren();
      for (let i = 0; i < 3; i++) { showChips(state, null, () => {}, () => {}); showTiles(state); }
      state.apply({ paths: [{ path: 7 }] });
      showChips(state, null, () => {}, () => {});
      return [state.steps.length, [...chips.children].map(chip => chip.textContent).join(" ")];
    }""")
    assert counts == [200000, "5 7 1000"]
