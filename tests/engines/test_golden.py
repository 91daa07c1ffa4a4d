"""The built-in model by llama.cpp writes, at temperature 0, what transformers' forward pass writes.

`python training/golden.py tests/golden/reasoner.json` made the texts; `.ci/run` makes them again and compares.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path

import pytest

import sureenough as se

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "reasoner.json").read_text())


def test_there_are_twenty_of_all_levels() -> None:
    assert len({golden["question"] for golden in GOLDEN}) == 20
    right = [golden["text"].endswith(f"\\boxed{{{golden['gold']}}}.") for golden in GOLDEN]
    assert 10 < sum(right) < 20  # it is no calculator


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden["question"][:20])
def test_llama_cpp_writes_what_transformers_writes(golden: dict[str, str]) -> None:
    async def written() -> str:
        question = se.Prompt.user(golden["question"])
        async with (
            se.Local(temperature=0.0, slots=1).open(parallel=1) as engine,
            aclosing(engine.stream(question, seed=0)) as chunks,
        ):
            return "".join([getattr(chunk, "text", "") async for chunk in chunks])

    assert asyncio.run(asyncio.wait_for(written(), 120)) == golden["text"]
