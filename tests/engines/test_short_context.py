"""Searches on a server whose context is shorter than the longest continuation that they sample."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

import pytest

from sureenough.api import aask
from sureenough.core.outcome import Outcome
from sureenough.engines.base import Prompt
from sureenough.engines.openai.client import OpenAI
from sureenough.errors import CannotExtend, EngineRejected
from tests.engines.misbehaving import Manner, serving

needs_scikit_learn = pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed")
SEARCHES = (
    "predictive+sc:runs=2,rollouts=2",
    pytest.param("phi+sc:runs=2,beams=2,rollouts=2", marks=needs_scikit_learn),
    "mur+sc:runs=2",
)
REPLY = 9
"""Tokens of a reply; the prompt has as many."""


def search(spec: str, context: int, *, chat: bool = True) -> Outcome:
    async def use() -> Outcome:
        async with serving(Manner(tokens=REPLY - 3, context=context)) as server:
            return await aask(Prompt.user("?"), OpenAI(server.url, "tiny", chat=chat), spec, paths=2)

    return asyncio.run(asyncio.wait_for(use(), timeout=60))


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("spec", SEARCHES)
def test_a_search_takes_the_room_that_there_is(spec: str, chat: bool) -> None:
    out = search(spec, 9 + 2 * REPLY, chat=chat)
    assert out.answer in ("7", "8")
    assert out.started == 2


@pytest.mark.parametrize("spec", SEARCHES)
def test_a_path_without_room_for_its_answer_was_cut(spec: str) -> None:
    out = search(spec, 9 + 3)
    assert (out.answer, out.started) == (None, 2)
    assert "2 of 2 paths were cut at their limit of tokens" in "".join(out.notes)


@pytest.mark.parametrize("spec", SEARCHES)
def test_a_question_without_room_for_a_reply_says_what_to_do(spec: str) -> None:
    with pytest.raises(EngineRejected, match="or give the server a longer context") as caught:
        search(spec, 9)
    assert not isinstance(caught.value, CannotExtend)
