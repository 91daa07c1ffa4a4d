"""A server whose paths come from an engine of another package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import sureenough as se
from sureenough.engines import Fake
from sureenough.server.settings import ServerSettings
from tests.server.sending import post
from tests.server.serving import ours


def reply(seed: int) -> list[Any]:
    return [[se.Token("Answer: red wine" if seed % 3 else "Answer: Red  Wine", 0.5, 9.0)]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ours(ServerSettings(engine=Fake(reply), models=("wine",), kind="text", paths=8)) as (address, _):
        yield address


def test_a_vote_on_its_paths(url: str) -> None:
    answer = post(url, model="wine@sc", sureenough=None).json()
    assert answer["choices"][0]["message"]["content"].lower().split() == ["answer:", "red", "wine"]
    assert list(answer["sureenough"]["votes"].values()) == [8.0]
    chosen = post(url, model="wine", sureenough={"strategy": "sc", "paths": 4}).json()
    assert chosen["sureenough"]["started"] == 4


def test_the_page_and_health_know_it(url: str) -> None:
    assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}
    assert "wine@sure" in [model["id"] for model in httpx.get(f"{url}/v1/models").json()["data"]]
    run = post(url, "/api/runs", model="wine@sc")
    assert run.status_code == 201, run.text


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"model": "wine"}, 400, "choose a strategy, as in wine@sure"),
        ({"model": "beer@sc"}, 404, "this server offers wine"),
        ({"model": "wine@dcc"}, 400, "did you mean 'ddc'"),
        ({"model": "wine@sc", "temperature": 0.2}, 400, "temperature cannot be set"),
        ({"model": "wine@sc", "max_tokens": 5}, 400, "max_tokens cannot be set"),
    ],
)
def test_what_only_a_server_could_do_is_refused(url: str, body: dict[str, Any], status: int, words: str) -> None:
    response = post(url, sureenough=None, **body)
    assert response.status_code == status
    assert words in response.json()["error"]["message"]
