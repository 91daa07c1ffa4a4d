"""The doctor tells a healthy server from sick ones, and what would cure them."""

from __future__ import annotations

import asyncio

import pytest

from sureenough.engines.doctor import Check, examine
from sureenough.engines.openai import OpenAI
from sureenough.errors import EngineUnavailable
from tests.engines.misbehaving import Manner, serving


def examined(manner: Manner) -> dict[str, Check]:
    async def look() -> list[Check]:
        async with serving(manner) as server:
            return await examine(OpenAI(server.url, "tiny"))

    return {check.name: check for check in asyncio.run(asyncio.wait_for(look(), timeout=60))}


def test_a_healthy_server() -> None:
    found = examined(Manner(tokens=10))
    assert {name: check.good for name, check in found.items()} == {
        "top-k": True, "raw": True, "distinct": True, "seeds": True, "closing": None, "counting": True,
        "chunks": True, "highest k": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("manner", "name", "good", "cure"),
    [
        (Manner(logprobs=False), "top-k", False, "--max-logprobs 20"),
        (Manner(logprobs=False), "highest k", False, "--max-logprobs 20"),
        (Manner(more_candidates=-15), "top-k", False, "--max-logprobs 20"),
        (Manner(repeated=True, per_chunk=4), "distinct", False, "--stream-interval 1"),
        (Manner(usage=False), "counting", None, "counted as read"),
        (Manner(status=400), "seeds", False, "see the message"),
        (Manner(scaled=True), "raw", False, "SGLANG_RETURN_ORIGINAL_LOGPROB"),
    ],
)
def test_what_ails_a_server(manner: Manner, name: str, good: bool | None, cure: str) -> None:
    check = examined(manner)[name]
    assert check.good is good
    assert cure in check.cure


def test_nobody_there() -> None:
    with pytest.raises(EngineUnavailable):
        asyncio.run(examine(OpenAI("http://127.0.0.1:9/v1", "tiny", retries=0)))
