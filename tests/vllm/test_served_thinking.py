"""Reasoning that a real vLLM returns in a field of its own: `SUREENOUGH_VLLM_THINKS=1 .ci/vllm pytest` with this file.

The same tokens come from its plain completions, whose text has all tags. Skipped without such a server.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing

import httpx
import pytest

import sureenough as se
from sureenough.engines.base import ExtendOptions, TokenStream, as_part, is_thinking
from sureenough.engines.openai.client import OpenAI

pytestmark = pytest.mark.skipif(
    "SUREENOUGH_VLLM_THINKS" not in os.environ, reason="needs a vLLM with a reasoning parser: see the first lines"
)
QUESTION = "Compute (3 + 4) * 5 - 6."
PLAIN = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
UNCLOSED = "\n</think>\n\n"
"""What is added to a reply that ends within its reasoning."""


def engine(*, chat: bool) -> OpenAI:
    return OpenAI(os.environ["SUREENOUGH_VLLM_URL"], "tiny", chat=chat, max_path_tokens=200, inside=False)


async def text_of(stream: TokenStream) -> str:
    async with aclosing(stream) as chunks:
        return "".join([as_part(chunk).text async for chunk in chunks])


async def both(beginning: str, options: ExtendOptions, seeds: range) -> list[tuple[str, str]]:
    """Rests of a path with the reasoning apart, and as the model wrote them."""
    async with engine(chat=True).open(parallel=1) as apart, engine(chat=False).open(parallel=1) as plain:
        await text_of(apart.stream(se.Prompt.user(QUESTION), seed=1))  # by which the server is known
        return [
            (
                await text_of(apart.extend(se.Prompt.user(QUESTION), beginning, options, seed=seed)),
                await text_of(plain.extend(se.Prompt.user(PLAIN), beginning, options, seed=seed)),
            )
            for seed in seeds
        ]


@pytest.mark.parametrize("stop", [(), ("\n",)])
@pytest.mark.parametrize("beginning", ["<think>\n3+4=7\n", "<think>\n3+4=7</think>So 7*5-6.\n"])
def test_the_rest_of_a_path_has_its_tags_where_the_model_wrote_them(beginning: str, stop: tuple[str, ...]) -> None:
    options = ExtendOptions(max_tokens=200, stop=stop, temperature=1.0)
    pairs = asyncio.run(asyncio.wait_for(both(beginning, options, range(8)), timeout=240))
    for apart, plain in pairs:
        unclosed = not stop and is_thinking(beginning + plain)
        assert apart == plain + UNCLOSED * unclosed
    assert any("</think>" in plain for _, plain in pairs)


@pytest.mark.parametrize("strategy", ["predictive+sc:runs=4,rollouts=2", "mur+sc:runs=6", "phi+sc:runs=2,beams=2"])
def test_searches_have_answers(strategy: str) -> None:
    out = se.ask(QUESTION, engine(chat=True), strategy, template="{question}", seed=5)
    assert out.answer == "29"
    assert out.abstained == 0


@pytest.mark.parametrize("strategy", ["sc", "ddc"])
def test_a_consensus_inside_the_server_has_its_reasoning_apart(strategy: str) -> None:
    """The server's own parser has read each path, as it does a plain reply."""
    body = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 200}
    url = f"{os.environ['SUREENOUGH_VLLM_URL']}/chat/completions"
    plain = httpx.post(url, json=body | {"model": "tiny", "temperature": 0}, timeout=60).json()["choices"][0]["message"]
    run = {"sureenough": {"paths": 16, "template": "{question}"}}
    vote = httpx.post(url, json=body | run | {"model": f"tiny@{strategy}"}, timeout=120).json()["choices"][0]["message"]
    assert plain["reasoning"]
    assert vote["reasoning_content"]
    assert "think>" not in vote["content"]
