"""The head of a streamed response: held back until something was sampled, and left by clients before that."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

import sureenough as se
from sureenough.engines import Fake
from sureenough.engines.fake import Step
from sureenough.server import replies
from sureenough.server.replies import ConsensusResponse
from sureenough.server.settings import ServerSettings
from tests.server.sending import BODY
from tests.server.serving import ours
from tests.server.test_replies import a_request

ENDLESS = 3600.0


@pytest.mark.parametrize("model", ["m@sc", "m@predictive+sc:runs=1,rollouts=1"])
def test_the_first_token_of_a_path_or_a_branch_sends_it(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "HELD_HEAD", ENDLESS)
    steps: list[Step] = [[se.Token("7", 0.5, 9.0)], ENDLESS]
    engine = Fake(lambda seed: steps, lambda beginning, seed: steps)
    with (
        ours(ServerSettings(engine=engine, models=("m",))) as (url, _),
        httpx.stream("POST", f"{url}/v1/chat/completions", json=BODY | {"model": model, "stream": True}) as response,
    ):
        assert response.status_code == 200


def test_a_client_that_leaves_before_it_leaves_no_task() -> None:
    async def receive() -> Message:
        await asyncio.sleep(0)  # the response begins to wait
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    async def leave() -> None:
        run = SimpleNamespace(task=asyncio.create_task(asyncio.sleep(ENDLESS)))
        state: Any = SimpleNamespace(start=lambda *_: run)
        with pytest.raises(ClientDisconnect):
            await ConsensusResponse(state, replace(a_request(), stream=True), ExitStack())({}, receive, send)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(leave())
