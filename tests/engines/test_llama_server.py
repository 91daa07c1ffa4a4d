"""llama.cpp's own `llama-server` over HTTP, with the built-in model: `.ci/llama` starts one. Skipped without it."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import httpx
import pytest

import sureenough as se
from sureenough.engines.openai.client import OpenAI
from sureenough.server.settings import ServerSettings
from tests.processes import sureenough
from tests.server.serving import ours

URL = os.environ.get("SUREENOUGH_LLAMA_URL", "")
pytestmark = pytest.mark.skipif(not URL, reason="needs a llama-server: `.ci/llama` unpacks and starts one")
QUESTION = "Compute 12+7."
SERVER = ["--url", URL, "--model", "tiny"]


def engine(**options: Any) -> OpenAI:
    common: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "max_path_tokens": 60}
    return OpenAI(URL, "tiny", **(common | options))


def generated() -> int:
    """Tokens that the server has generated so far, once nothing runs any more."""

    async def read() -> int:
        async with engine().open(parallel=1) as connection:
            counters = await connection.settled_counters()
            assert counters is not None
            assert counters.running == 0
            return counters.generated

    return asyncio.run(asyncio.wait_for(read(), timeout=60))


def test_every_check_of_the_doctor_passes() -> None:
    done = sureenough("doctor", *SERVER, "--json")
    assert done.returncode == 0, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert [name for name, check in checks.items() if check["good"] is not True] == []
    assert "128" in checks["highest k"]["found"]
    assert "continued as the unbroken path" in checks["extend"]["found"]


@pytest.mark.parametrize("strategy", ["sc", "ac", "ddc:warmup=4", "deepconf-low:warmup=4", "sure"])
def test_ask_answers(strategy: str) -> None:
    done = sureenough("ask", QUESTION, *SERVER, "-s", strategy, "--paths", "16", "--window", "8", "--json")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["answer"] == "19"
    assert outcome["tokens"]["total"] > 0


@pytest.mark.parametrize("chat", [True, False])
def test_without_cancels_our_count_is_the_servers(chat: bool) -> None:
    before = generated()
    out = se.ask(QUESTION, engine(chat=chat), "ddc:warmup=12", paths=12, window=8)
    assert (out.started, out.pruned, out.tokens.overrun) == (12, 0, 0)
    assert out.tokens.total == generated() - before


def test_cancels_stop_the_server_and_the_overrun_is_known() -> None:
    before = generated()
    long = engine(max_path_tokens=300, metrics=True, extra={"ignore_eos": True})
    out = se.ask(QUESTION, long, "ddc:warmup=4,drop=90,trust=100,tau=1", paths=12, window=8, parallel=4)
    assert out.pruned > 0
    assert out.tokens.overrun_known
    assert out.tokens.total == generated() - before


def test_plain_requests_pass_through_serve() -> None:
    """The server closes every connection after its reply, often just as the next request would use it."""
    body = {"model": "tiny", "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 4, "stream": True}
    with ours(ServerSettings(upstream=URL)) as (url, _):
        replies = [httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60) for _ in range(20)]
    assert [(reply.status_code, "[DONE]" in reply.text) for reply in replies] == [(200, True)] * 20


def test_a_question_that_is_too_long_is_refused_with_the_servers_reason() -> None:
    with pytest.raises(se.EngineRejected, match="context"):
        se.ask("1+" * 3000 + "1", engine(), "sc", paths=2)
