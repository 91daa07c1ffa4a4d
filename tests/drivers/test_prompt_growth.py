"""Prompts must grow by what is sent: other tokens for the same text are allowed, a beginning that is dropped is not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sureenough.api import aask
from sureenough.core.outcome import Outcome
from sureenough.drivers.prompt_growth import TEMPLATE_TOKENS, WHOLE, PromptGrowth
from sureenough.engines import Chunk, Fake, Prompt
from sureenough.engines.openai.client import OpenAI
from tests.drivers.test_live import LONG, go
from tests.drivers.test_probes import Thinker, letters
from tests.engines.misbehaving import Manner, serving

QUESTION = (0, 100)
SEARCHES = ("predictive+sc:runs=2,rollouts=2,max_steps=3", "phi+sc:runs=1,beams=2,rollouts=2", "mur+sc:runs=1")


@pytest.mark.parametrize(
    ("prompts", "too_small"),
    [
        ([], False),
        ([QUESTION], False),
        ([QUESTION, (40, 140)], False),
        ([QUESTION, (40, 152)], False),  # with the phrase of a probe
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


@pytest.mark.parametrize("strategy", [*SEARCHES, "sc+probe:every=8,agree=9"])
def test_a_server_that_drops_beginnings_is_noted(strategy: str) -> None:
    def noted(manner: Manner) -> bool:
        return any(
            "its chat template changes the beginning of a reply" in note for note in outcome(manner, strategy).notes
        )

    assert noted(Manner(tokens=40, extends="drops"))
    assert not noted(Manner(tokens=40))
    assert not noted(Manner(tokens=40, extends="drops", usage=False)), "without counts nothing is known"


class Counting(Thinker):
    """Reports prompts of 300 tokens and of what is sent after them, unless its template drops that."""

    def __init__(self, *, drops: bool = False) -> None:
        super().__init__(probe=[letters("1}")])
        self.drops = drops

    async def stream(self, prompt: Prompt, *, seed: int) -> Any:
        async for chunk in super().stream(prompt, seed=seed):
            yield chunk
        yield Chunk(prompt_tokens=300)

    async def extend(self, prompt: Prompt, beginning: str, options: Any, *, seed: int) -> Any:
        async for chunk in super().extend(prompt, beginning, options, seed=seed):
            yield chunk
        yield Chunk(prompt_tokens=300 + (0 if self.drops else len(beginning)))


@pytest.mark.parametrize(("agree", "known"), [(1, False), (2, False), (9, True)])
def test_prompts_of_paths_that_their_probes_ended(agree: int, known: bool) -> None:
    """A path that is closed early does not tell how long its prompt was; the prompts of its probes do, about."""
    out = go(Counting(), f"ac+probe:every=8,agree={agree}", paths=4)
    assert out.ended_by_probe == (0 if known else 4)
    assert (out.tokens.prompt, out.tokens.prompt_known, out.notes) == (4 * 300, known, ())


@pytest.mark.parametrize("agree", [2, 3, 9])
def test_a_dropped_beginning_is_noted_if_probes_end_every_path(agree: int) -> None:
    out = go(Counting(drops=True), f"ac+probe:every=8,agree={agree}", paths=4)
    assert any("its chat template changes the beginning" in note for note in out.notes)


@pytest.mark.parametrize("strategy", ["sc", "predictive+sc"])
def test_a_run_that_ends_before_any_path_knows_nothing_of_prompts(strategy: str) -> None:
    out = go(Fake(lambda seed: [letters("ab"), LONG], lambda *_: [letters("ab"), LONG]), strategy, deadline=0.2)
    assert (out.reason, out.tokens.prompt, out.tokens.prompt_known) == ("deadline", 0, False)


def test_the_documents_state_the_limits_and_the_notes() -> None:
    assert WHOLE == 1 - 1 / 8
    for page, requests in {"search": "the search", "probes": "probes"}.items():
        text = " ".join((Path(__file__).parents[2] / f"docs/{page}.md").read_text().split())
        assert "eighth" in text
        assert f"and {TEMPLATE_TOKENS} " in text
        assert f"the server read fewer tokens than {requests} sent" in text
