"""Prompts must grow by what is sent: other tokens for the same text are allowed, a beginning that is dropped is not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sureenough.api import aask
from sureenough.core.events import Token
from sureenough.core.outcome import Outcome
from sureenough.drivers.search import TEMPLATE_TOKENS, WHOLE, PromptGrowth
from sureenough.engines import Fake
from sureenough.engines.openai.client import OpenAI
from tests.drivers.test_live import LONG, go
from tests.engines.misbehaving import Manner, serving

QUESTION = (0, 100)
SEARCHES = ("predictive+sc:runs=2,rollouts=2,max_steps=3", "phi+sc:runs=1,beams=2,rollouts=2", "mur+sc:runs=1")


@pytest.mark.parametrize(
    ("prompts", "too_small"),
    [
        ([], False),
        ([QUESTION], False),
        ([QUESTION, (40, 140)], False),
        ([QUESTION, (40, 131)], False),  # other tokens for the same text
        ([QUESTION, (40, 130)], True),
        ([QUESTION, (40, 126, 5)], False),  # and where lines were put together
        ([QUESTION, (40, 125, 5)], True),
        ([(40, 100), QUESTION], True),  # in any order
        ([QUESTION, (4, 100)], False),  # too short to tell
        ([QUESTION, (8, 100)], True),
        ([QUESTION, (400, 300), (800, 900)], True),  # some of it was dropped, as by templates that remove a thought
        ([(0, 100), (0, 60), (40, 100)], False),  # of two servers
        ([(8, 308), (16, 316)], False),  # without the question's own prompt
        ([(8, 308), (16, 308)], True),
        ([(16, 308), (8, 308)], True),
    ],
)
def test_prompts_grow_by_what_was_sent(prompts: list[tuple[int, ...]], too_small: bool) -> None:
    growth = PromptGrowth()
    for prompt in prompts:
        growth.add(*prompt[:2], seams=sum(prompt[2:]))
    assert growth.too_small is too_small


def outcome(manner: Manner, strategy: str) -> Outcome:
    async def use() -> Outcome:
        async with serving(manner) as server:
            question = "Compute something, please: " + "word " * 40
            return await aask(question, OpenAI(server.url, "tiny"), strategy, paths=4, window=8)

    return asyncio.run(asyncio.wait_for(use(), timeout=60))


@pytest.mark.parametrize("strategy", SEARCHES)
def test_a_server_that_drops_beginnings_is_noted(strategy: str) -> None:
    def noted(manner: Manner) -> bool:
        return any(
            "its chat template changes the beginning of a reply" in note for note in outcome(manner, strategy).notes
        )

    assert noted(Manner(tokens=40, extends="drops"))
    assert not noted(Manner(tokens=40))
    assert not noted(Manner(tokens=40, extends="drops", usage=False)), "without counts nothing is known"


@pytest.mark.parametrize("strategy", ["sc", "predictive+sc"])
def test_a_run_that_ends_before_any_path_knows_nothing_of_prompts(strategy: str) -> None:
    steps: list[Any] = [[Token("a", 0.5, 10.0)], LONG]
    out = go(Fake(lambda seed: steps, lambda *_: steps), strategy, deadline=0.2)
    assert (out.reason, out.tokens.prompt, out.tokens.prompt_known) == ("deadline", 0, False)


def test_the_documents_state_the_limits_and_the_notes() -> None:
    assert WHOLE == 1 - 1 / 8
    text = " ".join((Path(__file__).parents[2] / "docs/search.md").read_text().split())
    assert "eighth" in text
    assert f"and {TEMPLATE_TOKENS} " in text
    assert "the server read fewer tokens than the search sent" in text
