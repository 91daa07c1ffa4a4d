"""Searches against a real vLLM: `.ci/vllm pytest tests/vllm/test_served_search.py`. Skipped without one."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec

import pytest
from arithmetic import generate

import sureenough as se
from sureenough.engines.base import End, ExtendOptions, as_part
from tests.vllm.test_served import bounded, engine, now

pytestmark = pytest.mark.skipif(
    "SUREENOUGH_VLLM_URL" not in os.environ,
    reason="needs a vLLM server: `.ci/vllm pytest tests/vllm/test_served_search.py` installs and serves one",
)
PROBLEM = generate(1, seed=1)[0]
SEARCHES = {
    "predictive": "predictive+sc:runs=2,rollouts=2,rollout_tokens=60,max_steps=3",
    "phi": "phi+sc:runs=1,beams=2,rollouts=2,min_steps=1,max_steps=2",
    "mur": "mur+sc:runs=2,candidates=2,max_steps=4",
}


@pytest.mark.parametrize("method", SEARCHES)
def test_a_search_reaches_an_answer_and_counts_what_the_server_generated(method: str) -> None:
    if method == "phi" and find_spec("sklearn") is None:
        pytest.skip("phi needs scikit-learn")
    before = now()
    work = se.aask(
        se.Prompt.user(PROBLEM.question), engine(max_path_tokens=200), SEARCHES[method], parallel=8, window=8
    )
    out = bounded(work)
    after = now()
    assert (out.reason, out.failed) == ("budget", 0)
    assert out.answer is not None
    assert out.tokens.total == after.generated - before.generated
    assert out.tokens.kept <= 200 * out.started
    assert out.tokens.reread > out.tokens.cached, "short beginnings do not fill a block of the cache"
    assert not [note for note in out.notes if "chat template" in note]


def test_the_server_says_that_a_line_feed_ended_a_line() -> None:
    async def ends() -> list[str | None]:
        async with engine().open(parallel=1) as ready:
            prompt, line = (
                se.Prompt.user(PROBLEM.question),
                ExtendOptions(max_tokens=200, stop=("\n",), temperature=0.0),
            )
            whole = [chunk async for chunk in ready.extend(prompt, "", replace(line, stop=()), seed=1)]
            text = "".join(as_part(chunk).text for chunk in whole)
            first = [chunk async for chunk in ready.extend(prompt, "", line, seed=1)]
            after = [chunk async for chunk in ready.extend(prompt, text, line, seed=1)]
            assert "\n" in text
            return [chunks[-1].stop_text for chunks in (first, after) if isinstance(chunks[-1], End)]

    assert bounded(ends()) == ["\n", None], "vLLM says nothing if the model ended it"
