"""What displays see of searches: the tree of branches."""

from __future__ import annotations

import re
from contextlib import aclosing
from itertools import accumulate
from typing import Any

import pytest

from sureenough.core.events import Adopt, Extend, Extended, Sampled, Token
from sureenough.core.search import Growth, SampleLimits
from sureenough.drivers.observers import WinnerTranscript
from sureenough.drivers.run_log import MOST_BRANCHES, SHOWN, RunLogWriter, RunView, SearchTree, read_log, save_log
from sureenough.engines import Fake, Prompt
from sureenough.engines.base import End, ExtendOptions, Report, TokenStream, as_part
from sureenough.engines.fake import Step
from tests.core.searching import line
from tests.drivers.test_live import go
from tests.drivers.test_search import searching

LIMITS = SampleLimits(9, 1.0)


def extends(first: int, *beginnings: str) -> list[Any]:
    return [Extend(0, n, beginning, LIMITS, 1) for n, beginning in enumerate(beginnings, first)]


def test_branches_hang_on_those_that_they_continue() -> None:
    tree = SearchTree()
    tree.grow(extends(0, "", ""))
    for branch, text in enumerate(["a\nb", "c\nd"]):
        tree.receive(Sampled(0, branch, 3))
        tree.receive(Extended(0, branch, line(text)))
    tree.grow([Adopt(0, Growth("c\n")), *extends(2, "c\n", "c\n")])
    first = tree.changes()
    assert [(one["parent"], one["round"], one["used"]) for one in first] == [
        (None, 0, False),
        (None, 0, True),
        (1, 1, False),
        (1, 1, False),
    ]
    assert [one["text"] for one in first] == ["a\nb", "c\nd", "", ""]
    assert [one["tokens"] for one in first] == [3, 3, 0, 0]
    tree.receive(Extended(0, 2, line("e")))
    tree.receive(Extended(0, 3, line("f" * 999)))
    tree.grow([Adopt(0, Growth("e"), True)])
    assert tree.changes() == [{"branch": 2, "text": "e", "used": True}, {"branch": 3, "text": "f" * SHOWN}]
    assert tree.changes() == []


def test_a_foresight_hangs_on_its_step_and_so_does_the_next_step() -> None:
    tree = SearchTree()
    tree.grow(extends(0, ""))
    tree.receive(Extended(0, 0, line("step")))
    tree.grow(extends(1, "step"))
    tree.receive(Extended(0, 1, line("\nmore")))
    tree.grow(extends(2, "step\n"))
    tree.receive(Extended(0, 2, line("end")))
    tree.grow([Adopt(0, Growth("step\nend"), True)])
    assert [(one["parent"], one["used"]) for one in tree.changes()] == [(None, True), (0, False), (0, True)]


@pytest.mark.parametrize("end", ["\n", "\n\n"])
def test_a_line_is_followed_by_all_line_feeds_of_its_token(end: str) -> None:
    tree = SearchTree()
    tree.grow(extends(0, "", ""))
    tree.receive(Extended(0, 0, line("other", stop_text=end)))
    step = Extended(0, 1, line("step", stop_text=end))
    tree.receive(step)
    tree.grow([Adopt(0, Growth("step" + end)), *extends(2, "step" + end)])
    assert [(one["parent"], one["used"]) for one in tree.changes()] == [(None, False), (None, True), (1, False)]


def test_large_searches_are_shown_up_to_a_limit() -> None:
    tree = SearchTree()
    tree.grow(extends(0, *[""] * (MOST_BRANCHES + 5)))
    tree.receive(Sampled(0, MOST_BRANCHES + 1, 3))
    assert len(tree.changes()) == MOST_BRANCHES


def test_the_log_has_the_tree_of_every_search(tmp_path: Any) -> None:
    log = RunLogWriter({"question": "?"}, interval=0.0)
    out = go(searching(), "predictive+sc:rollouts=3,runs=2", observers=[log])
    log.end(out)
    file = tmp_path / "run.jsonl"
    save_log(file, log.with_texts())
    view = RunView()
    for _, written in read_log(file):
        view.apply(written)
    for path in view.paths.values():
        branches = path["branches"]
        assert [branch["branch"] for branch in branches] == list(range(6))
        assert [branch["round"] for branch in branches] == [0, 0, 0, 1, 1, 1]
        used = [branch for branch in branches if branch["used"]]
        assert [branch["round"] for branch in used] in ([0], [0, 1]), "the first rollout may hold the whole path"
        assert sum(branch["tokens"] for branch in branches) == (out.tokens.search + out.tokens.kept) // 2


class StopsBeforeLineFeeds(Fake):
    """As servers do: a blank line has no tokens that could be read, since the one with the line feed ends it."""

    async def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> TokenStream:
        async with aclosing(super().extend(prompt, beginning, options, seed=seed)) as chunks:
            async for chunk in chunks:
                part = as_part(chunk)
                yield part if part.text or isinstance(part, End) else Report(1)


@pytest.mark.parametrize("strategy", ["mur+sc:runs=1", "mur+sure:runs=1", "predictive+sc:runs=1,rollouts=2"])
def test_the_log_has_the_text_that_votes_with_its_blank_lines(strategy: str) -> None:
    text = "\nfirst\n\n\nsecond\n\n\\boxed{7}"
    pieces = re.findall(r"\n+|\w+|.", text)

    def rest(beginning: str, seed: int) -> list[Step]:
        places = accumulate(map(len, pieces), initial=0)
        cut = [piece[max(0, len(beginning) - place) :] for place, piece in zip(places, pieces, strict=False)]
        return [[Token(piece, 0.5, 10.0)] for piece in cut if piece]

    log, transcript = RunLogWriter({}), WinnerTranscript()
    out = go(StopsBeforeLineFeeds(lambda seed: [], rest), strategy, paths=1, observers=[log, transcript])
    winner, logged = transcript.of(out.answer), log.text(0)
    assert winner is not None
    assert logged is not None
    assert "".join(logged["texts"]) == winner.text == text
