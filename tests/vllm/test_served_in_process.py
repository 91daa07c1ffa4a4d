"""Runs on vLLM in this process: `.ci/vllm .ci/inprocess`. Skipped without it."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from arithmetic import generate

import sureenough as se
from sureenough.engines import Prompt
from sureenough.engines.base import End, ExtendOptions, Piece, as_part
from tests.engines.bridge import Bridge
from tests.engines.makers import BRIDGE
from tests.vllm.test_served import bounded

pytestmark = pytest.mark.skipif(BRIDGE is None, reason="needs vLLM in this process: `.ci/vllm .ci/inprocess` has it")
PROMPT = Prompt.user(generate(3, seed=1)[0].question)


def engine(**sampling: Any) -> Bridge:
    assert BRIDGE is not None
    return BRIDGE.sampled(**({"max_path_tokens": 60} | sampling))


def test_a_search_reaches_an_answer_and_every_token_is_counted() -> None:
    spec = "predictive+sc:runs=2,rollouts=2,rollout_tokens=60,max_steps=3"
    out = bounded(se.aask(PROMPT, engine(max_path_tokens=200), spec, parallel=8, window=8))
    assert (out.reason, out.started, out.failed) == ("budget", 2, 0)
    assert out.tokens.search > out.tokens.kept > 0
    assert out.tokens.total == out.tokens.search + out.tokens.kept


async def continued(vllm: Bridge, confidence: bool = False) -> tuple[str, list[float], int]:
    """Text and log-probabilities of a continuation, and in how many pieces it came."""
    options = ExtendOptions(max_tokens=40, temperature=0.0, confidence=confidence)
    text, logprobs, pieces = "", list[float](), 0
    async with aclosing(vllm.extend(PROMPT, "1", options, seed=3)) as chunks:
        async for chunk in chunks:
            text += as_part(chunk).text
            if isinstance(chunk, Piece):
                logprobs += chunk.logprobs
                pieces += bool(chunk.text)
    return text, logprobs, pieces


def test_whether_a_stop_text_or_the_model_ended_a_continuation_is_known() -> None:
    async def ends() -> list[str | None]:
        line, vllm = ExtendOptions(max_tokens=200, stop=("\n",), temperature=0.0), engine()
        whole = [as_part(chunk) async for chunk in vllm.extend(PROMPT, "", replace(line, stop=()), seed=1)]
        first = [as_part(chunk) async for chunk in vllm.extend(PROMPT, "", line, seed=1)]
        text = "".join(chunk.text for chunk in whole)
        after = [as_part(chunk) async for chunk in vllm.extend(PROMPT, text, line, seed=1)]
        assert "\n" in text
        return [chunks[-1].stop_text for chunks in (whole, first, after) if isinstance(chunks[-1], End)]

    assert bounded(ends()) == ["", "\n", ""]


def test_a_continuation_is_the_same_without_candidates() -> None:
    (with_candidates, wanted, _), (without, logprobs, _) = (
        bounded(continued(engine(), confidence)) for confidence in (True, False)
    )
    assert with_candidates == without
    assert logprobs == pytest.approx(wanted, abs=1e-4)
