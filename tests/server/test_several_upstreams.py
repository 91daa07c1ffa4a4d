"""One endpoint over several servers with the same model."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from sureenough.errors import UsageError
from sureenough.server.settings import ServerSettings
from sureenough.server.upstream import open_upstream
from tests.engines.misbehaving import Manner
from tests.engines.raw_server import RawServer, raw_server
from tests.in_thread import in_thread, until
from tests.server.sending import plain, post
from tests.server.serving import ours
from tests.server.upstream import KEY, an_upstream, before, raw_upstream, two_upstreams

EMPTY_REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
EIGHT = {"paths": 8}


def test_paths_are_shared_and_counted_and_a_dead_server_costs_no_request() -> None:
    with two_upstreams(Manner(), window=4, retries=0, hurry=None) as (url, state, one, other):
        assert post(url, sureenough=EIGHT).json()["sureenough"]["started"] == 8
        assert min(len(one.bodies), len(other.bodies)) >= 2
        assert plain(url).status_code == 200, "plain requests are passed through"
        metrics = httpx.get(f"{url}/metrics").text
        for name in ('paths_total{server="1",what="started"}', 'tokens_total{server="2"}', 'running{server="2"}'):
            assert f"sureenough_upstream_{name}" in metrics
        assert one.url not in metrics, "clients do not learn the addresses"
        one.stop()
        reply = post(url, sureenough=EIGHT)
        assert reply.status_code == 200, reply.text
        assert reply.json()["sureenough"]["votes"]
        first, second = state.backend.loads
        assert second.finished > 8 > first.finished


def test_a_plain_request_goes_to_the_upstream_with_the_least_load() -> None:
    with two_upstreams(Manner(delay=60)) as (url, state, one, other):
        body = {"model": "tiny", "messages": [{"role": "user", "content": "?"}], "stream": True}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as running:
            assert running.status_code == 200
            assert [count.running for count in state.backend.loads] == [1, 0]
            assert plain(url).status_code == 200
            assert (len(one.bodies), len(other.bodies)) == (1, 1)
        until(lambda: not any(count.running for count in state.backend.loads))
        assert [count.finished for count in state.backend.loads] == [1, 1]


def test_a_plain_request_goes_elsewhere_if_an_upstream_is_gone() -> None:
    with two_upstreams(Manner()) as (url, state, one, other):
        one.stop()
        assert httpx.get(f"{url}/v1/models").status_code == 200
        assert [plain(url).status_code for _ in range(4)] == [200] * 4
        assert (len(one.bodies), len(other.bodies)) == (0, 4)
        until(lambda: [count.finished for count in state.backend.loads] == [0, 4])
        assert [count.available for count in state.backend.loads] == [False, True]


def test_a_plain_request_that_an_upstream_has_received_is_not_sent_to_another() -> None:
    async def drop(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        if body:
            raise ConnectionError("the request was read, and nothing was sent")
        writer.write(EMPTY_REPLY)

    with in_thread(raw_server(drop)) as one, an_upstream(Manner()) as other, before(one, other) as (url, _):
        assert plain(url).status_code == 503
        assert sum(b"POST" in head for head in one.heads) == 1
        assert other.bodies == []


@pytest.mark.parametrize("status", [b"500 Internal Server Error", b"503 Service Unavailable", b""])
def test_an_upstream_that_fails_every_plain_request_does_not_get_all_of_them(status: bytes) -> None:
    """It passes its checks, and is the first of two that have nothing to do."""

    async def fail(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        if body and not status:
            raise ConnectionError("closed")
        writer.write(EMPTY_REPLY.replace(b"200 OK", status) if body else EMPTY_REPLY)

    with in_thread(raw_server(fail)) as one, an_upstream(Manner()) as other, before(one, other) as (url, _):
        statuses = [plain(url).status_code for _ in range(6)]
        assert statuses[2:] == [200] * 4, statuses
        assert len(other.bodies) == 4


@pytest.mark.parametrize("status", [302, 400, 401, 404, 429])
def test_a_plain_request_that_an_upstream_refuses_goes_to_another(status: int) -> None:
    refusal = EMPTY_REPLY.replace(b"200 OK", b"%d Refused" % status)
    with raw_upstream(refusal) as one, an_upstream(Manner()) as other, before(one, other) as (url, state):
        assert [plain(url).status_code for _ in range(4)] == [200] * 4
        assert (one.requests, len(other.bodies)) == (1, 4)
        assert [load.available for load in state.backend.loads] == [False, True]


def test_a_plain_request_that_all_upstreams_refuse_counts_against_none() -> None:
    refusal = EMPTY_REPLY.replace(b"200 OK", b"400 Bad Request")
    with raw_upstream(refusal) as one, raw_upstream(refusal) as other, before(one, other) as (url, state):
        assert [plain(url).status_code for _ in range(4)] == [400] * 4
        assert (one.requests, other.requests) == (4, 4)
        assert all(load.available for load in state.backend.loads)


def test_the_models_are_listed_by_another_upstream_if_one_cannot() -> None:
    failing = raw_upstream(EMPTY_REPLY.replace(b"200 OK", b"500 Internal Server Error"))
    with failing as one, an_upstream(Manner()) as other, before(one, other) as (url, _):
        assert httpx.get(f"{url}/v1/models").status_code == 200


def test_plain_requests_do_not_share_a_connection_that_the_upstream_may_be_closing() -> None:
    """As llama.cpp's server does: it promises to keep a connection, and closes it with the next request unread."""

    async def once(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        if writer in served:
            raise ConnectionError("closed")
        served.add(writer)
        writer.write(EMPTY_REPLY)

    served: set[asyncio.StreamWriter] = set()
    with in_thread(raw_server(once)) as one, before(one) as (url, _):
        assert [plain(url).status_code for _ in range(4)] == [200] * 4


def test_a_plain_request_fails_if_all_upstreams_are_gone() -> None:
    with two_upstreams(Manner()) as (url, _, one, other):
        one.stop()
        other.stop()
        reply = plain(url)
        assert reply.status_code == 503
        assert "cannot be reached" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    "other", ["http://a/v1", "http://a/v1/", "HTTP://A/v1", "http://a:80/v1", "http://me:hunter2@a/v1"]
)
def test_an_upstream_given_twice(other: str) -> None:
    with pytest.raises(UsageError, match="given twice"):
        ServerSettings(upstream="http://a/v1", more_upstreams=("http://b/v1", other))


@pytest.mark.parametrize("other", ["https://a/v1", "http://a:81/v1", "http://a/v2", "http://a/v1?deployment=2"])
def test_upstreams_that_differ(other: str) -> None:
    assert ServerSettings(upstream="http://a/v1", more_upstreams=(other,)).more_upstreams == (other,)


@pytest.mark.parametrize(
    ("reply", "models", "says"),
    [
        (EMPTY_REPLY.replace(b"200 OK", b"404 Not Found"), (), " returned status 404 for its list of models"),
        (EMPTY_REPLY, (), "'s list of models cannot be read"),
        (EMPTY_REPLY.replace(b": 2\r\n\r\n{}", b": 11\r\n\r\n" + b'{"data":[]}'), ("tiny",), " does not list tiny"),
    ],
)
def test_the_operator_learns_which_upstream_is_not_ready_and_clients_do_not(
    reply: bytes, models: tuple[str, ...], says: str
) -> None:
    async def problem(settings: ServerSettings) -> str | None:
        async with open_upstream(settings) as upstream:
            return await upstream.problem()

    with raw_upstream(reply) as one, raw_upstream(reply) as other:
        settings = ServerSettings(upstream=one.url, more_upstreams=(other.url,), upstream_key=KEY, models=models)
        assert (asyncio.run(problem(settings)) or "").startswith(f"{one.url}{says}")
        with ours(settings) as (url, _):
            listed = httpx.get(f"{url}/v1/models").text
            assert one.url not in listed
            assert models or f"the upstream{says}" in listed


def test_clients_do_not_learn_which_upstream_failed() -> None:
    with two_upstreams(Manner(logprobs=False)) as (url, *_):
        refused = post(url, model="tiny@ddc:warmup=4", sureenough=EIGHT)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "missing_logprobs")
        assert refused.json()["error"]["message"].startswith("the upstream: ")
        assert "127.0.0.1" not in refused.text


@pytest.mark.parametrize("model", ["tiny@sc", "tiny@predictive+sc"])
def test_clients_learn_neither_the_proxy_nor_the_host_behind_it(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://me:hunter2@127.0.0.1:9")
    urls = "http://inside.example:8000/v1", "http://inside.example:8000/v12"
    settings = ServerSettings(upstream=urls[0], more_upstreams=urls[1:], retries=0)
    with ours(settings) as (url, _), httpx.Client(trust_env=False) as client:
        body = {"model": model, "messages": [{"role": "user", "content": "?"}], "sureenough": {"paths": 2}}
        replies = [
            client.post(f"{url}/v1/chat/completions", json=body, timeout=60),
            client.get(f"{url}/v1/models", timeout=60),
        ]
    for reply in replies:
        assert reply.json()["error"]["message"].startswith("no response from the upstream through a proxy (")
        assert not any(secret in reply.text for secret in ("inside", "127.0.0.1", "hunter2"))


def test_clients_do_not_learn_where_an_upstream_redirects() -> None:
    moved = b"307 Temporary Redirect\r\nLocation: http://user:hunter2@inside.example/v1"

    async def redirect(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(EMPTY_REPLY.replace(b"200 OK", moved if body else b"200 OK"))

    with in_thread(raw_server(redirect)) as one, ours(ServerSettings(upstream=one.url)) as (url, _):
        reply, passed = post(url, sureenough=EIGHT), plain(url)
    assert "the upstream answered 307: {}; it redirects to another address, and redirects are not" in reply.text
    assert (passed.status_code, passed.json()["error"]["message"]) == (
        502,
        "The upstream redirects to another address.",
    )
    assert not any(secret in one.text + str(one.headers) for one in (reply, passed) for secret in ("inside", "hunter2"))
