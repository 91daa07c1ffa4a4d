"""Over TLS and through a proxy, where httpx's transport is used: the same paths, cancels arrive, keys stay."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

import pytest
import trustme

from sureenough.engines import Prompt
from sureenough.engines.base import as_part
from sureenough.engines.openai.client import OpenAI
from sureenough.errors import EngineRejected, EngineUnavailable
from tests.engines.misbehaving import Manner, Server, idle, serving
from tests.engines.relay import Proxy, proxying

PROMPT = Prompt.user("?")
NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def trusted(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The authority's certificate, where the environment says."""
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))


def certificate(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture(params=["tls", "proxy", "tls through a proxy"])
def way(
    request: pytest.FixtureRequest, authority: trustme.CA, trusted: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Manner, Callable[[Server, Proxy | None], Awaitable[None]]], None]:
    """Runs a test against a server that is reached this way."""

    @asynccontextmanager
    async def reached(manner: Manner) -> AsyncIterator[tuple[Server, Proxy | None]]:
        async with AsyncExitStack() as stack:
            proxy = None
            if "proxy" in request.param:
                proxy = await stack.enter_async_context(proxying())
                monkeypatch.setenv("https_proxy" if "tls" in request.param else "http_proxy", proxy.url)
            tls = certificate(authority) if "tls" in request.param else None
            yield await stack.enter_async_context(serving(manner, tls=tls)), proxy

    def run(manner: Manner, use: Callable[[Server, Proxy | None], Awaitable[None]]) -> None:
        async def all_of_it() -> None:
            async with reached(manner) as (server, proxy):
                await use(server, proxy)
                await idle(server)

        asyncio.run(asyncio.wait_for(all_of_it(), timeout=30))

    return run


def test_a_path(way: Callable[..., None]) -> None:
    async def use(server: Server, proxy: Proxy | None) -> None:
        async with aclosing(OpenAI(server.url, "tiny", api_key="sk-1").stream(PROMPT, seed=5)) as chunks:
            tokens = [token async for chunk in chunks for token in as_part(chunk).tokens]
        assert len(tokens) == 15
        assert server.headers[0]["authorization"] == "Bearer sk-1"
        if proxy is not None:
            assert len(proxy.asked) == 1
            tunnel = server.url.startswith("https")
            assert proxy.asked[0].startswith("CONNECT 127.0.0.1" if tunnel else f"POST {server.url}/chat/completions")
            assert ("sk-1" in proxy.asked[0]) != tunnel  # what goes through a tunnel is not the proxy's to read

    way(Manner(per_chunk=4), use)


def test_closing_cancels(way: Callable[..., None]) -> None:
    async def use(server: Server, proxy: Proxy | None) -> None:
        async with OpenAI(server.url, "tiny").open(parallel=2) as connected:
            for seed in range(4):
                async with aclosing(connected.stream(PROMPT, seed=seed)) as chunks:
                    assert as_part(await anext(chunks)).tokens
            await idle(server)
        assert server.closed_early == 4

    way(Manner(tokens=100_000), use)


def test_a_redirect_is_not_followed_and_gets_no_key(way: Callable[..., None]) -> None:
    async def use(server: Server, proxy: Proxy | None) -> None:
        async with serving(Manner()) as other:
            server.manner = lambda seed, nth: Manner(status=307, headers={"Location": f"{other.url}/chat/completions"})
            with pytest.raises(EngineRejected, match=f"redirects to {other.url}.*and redirects are not followed"):
                await anext(OpenAI(server.url, "tiny", api_key="sk-1").stream(PROMPT, seed=1))
            assert (len(server.requests), other.requests) == (1, [])

    way(Manner(), use)


def test_a_certificate_of_an_unknown_authority(authority: trustme.CA) -> None:
    async def ask() -> None:
        async with serving(Manner(), tls=certificate(authority)) as server:
            with pytest.raises(EngineUnavailable, match=r"CERTIFICATE_VERIFY_FAILED.*SSL_CERT_FILE"):
                await anext(OpenAI(server.url, "tiny", retries=0).stream(PROMPT, seed=1))
            assert server.requests == []

    asyncio.run(asyncio.wait_for(ask(), timeout=30))


def test_a_proxy_that_is_gone_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://me:hush@127.0.0.1:9")
    with pytest.raises(EngineUnavailable, match=r"through the proxy http://127.0.0.1:9.*NO_PROXY=h\b") as raised:
        asyncio.run(anext(OpenAI("http://h/v1", "tiny", retries=0).stream(PROMPT, seed=1)))
    assert "hush" not in str(raised.value)


def test_a_proxy_is_not_used_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    async def ask() -> None:
        async with (
            serving(Manner()) as server,
            aclosing(OpenAI(server.url, "tiny", retries=0).stream(PROMPT, seed=1)) as chunks,
        ):
            assert [chunk async for chunk in chunks]

    asyncio.run(asyncio.wait_for(ask(), timeout=30))
