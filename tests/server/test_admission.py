"""Who may come in, by what name, from which page, with which key; and what goes out with every reply."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sureenough.errors import UsageError
from sureenough.server import ServerLimits, ServerSettings
from sureenough.server.app import create
from sureenough.server.requests import ModelName, split_model_name
from sureenough.server.settings import KEYS_VARIABLE, loopback, read_keys
from tests.in_thread import until
from tests.server.openai_client import LONG
from tests.server.sending import counters, post
from tests.server.upstream import KEY, Upstream, an_upstream, before

OURS = "a-key-of-our-own-0123"
PLACES = ["/", "/runs", "/page/app.js", "/api/runs", "/api/runs/x/events", "/metrics", "/openapi.json", "/v1/models"]


@pytest.fixture(scope="module")
def locked(upstream: Upstream) -> Iterator[str]:
    """A server that wants a key."""
    with before(upstream, keys=("another-key-0123456789", OURS)) as (url, _):
        yield url


@pytest.mark.parametrize(
    ("name", "model", "strategy"),
    [
        ("Qwen3-4B", "Qwen3-4B", None),
        ("Qwen3-4B@ddc", "Qwen3-4B", "ddc"),
        ("Qwen3-4B@ddc:tau=0.99", "Qwen3-4B", "ddc:tau=0.99"),
        ("Qwen3-4B@phi+sure:runs=4", "Qwen3-4B", "phi+sure:runs=4"),
        ("a@phi", "a@phi", None),
        ("a@phi+phi+sc", "a@phi+phi+sc", None),
        ("org/model@rev", "org/model@rev", None),
        ("org/model@rev@sure", "org/model@rev", "sure"),
        ("a@ddc@b", "a@ddc@b", None),
        ("a@ddcx", "a@ddcx", None),
        ("a@", "a@", None),
        ("@sc", "", "sc"),
        ("ft:gpt:me::1@ac:tau=0.9", "ft:gpt:me::1", "ac:tau=0.9"),
    ],
)
def test_names(name: str, model: str, strategy: str | None) -> None:
    assert split_model_name(name) == ModelName(model, strategy)


@pytest.mark.parametrize(
    ("header", "known"),
    [
        ("127.0.0.1:8000", True), ("127.0.0.1", True), ("localhost:8000", True), ("[::1]:8000", True),
        ("10.1.2.3", True),
        ("box.example", True), ("BOX.example:8000", True), ("evil.example", False), ("", False),
        ("localhost.evil", False),
        ("127.0.0.1.evil:80", False), ("[::1].evil", False), ("[::1]:x", False), ("evil@10.1.2.3", False),
        ("a.b.example", True), ("b.example", False), ("www.box.example", False), ("[::1%evil.example]", False),
    ],
)  # fmt: skip
def test_hosts(header: str, known: bool) -> None:
    app, _ = create(ServerSettings(hosts=("box.example", "*.b.example")))
    transport = httpx.ASGITransport(app)

    async def status() -> int:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return (await client.get("/page/style.css", headers={"Host": header})).status_code

    assert asyncio.run(status()) == (200 if known else 421)


@pytest.mark.parametrize("name", ["", "*evil", "a*", "*.*", "a.*.example"])
def test_wildcards_of_host_names(name: str) -> None:
    with pytest.raises(UsageError, match="is not a host name"):
        ServerSettings(hosts=(name,))


def test_beyond_this_machine_only_with_keys() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "box.example"):
        assert not loopback(host)
        with pytest.raises(UsageError, match="--insecure"):
            ServerSettings(host=host)
        ServerSettings(host=host, insecure=True)
        ServerSettings(host=host, keys=(OURS,))
    assert all(loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"))


def test_keys_are_read_and_held_to_a_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# ours\n{OURS}\n\n  another-key-01234567 \n")
    monkeypatch.setenv(KEYS_VARIABLE, "from-the-environment-1,")
    assert read_keys(file) == ("from-the-environment-1", OURS, "another-key-01234567")
    with pytest.raises(UsageError, match="too short"):
        ServerSettings(keys=("short",))
    with pytest.raises(UsageError, match="cannot be read"):
        read_keys(tmp_path / "none")
    file.write_text("# to be written\n\n")
    with pytest.raises(UsageError, match="holds no key: write one per line"):
        read_keys(file)  # a secret that is not there yet must not open the server
    assert OURS not in repr(ServerSettings(keys=(OURS,), upstream_key=OURS))


@pytest.mark.parametrize("place", PLACES)
def test_every_route_needs_the_key(locked: str, place: str) -> None:
    basic = base64.b64encode(f"me:{OURS}".encode()).decode()
    wrong = base64.b64encode(b"me:wrong").decode()
    bearers = [f"Bearer {key}" for key in ("wrong", OURS[:-1], f"{OURS}x", KEY)]
    for header in (None, *bearers, f"Basic {wrong}", "Basic !!", f"Token {OURS}", "Bearer"):
        reply = httpx.get(f"{locked}{place}", headers={} if header is None else {"Authorization": header})
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"].startswith("Bearer" if place.startswith("/v1") else "Basic")
        assert reply.json()["error"]["code"] == "invalid_api_key"
        assert OURS not in reply.text
    for header in (f"Bearer {OURS}", f"bearer {OURS}", f"Basic {basic}"):
        assert httpx.get(f"{locked}{place}", headers={"Authorization": header}).status_code in (200, 404)
    for probe in ("healthz", "readyz"):
        assert httpx.get(f"{locked}/{probe}").status_code == 200, "load balancers have no key"
    assert post(locked).status_code == 401


def test_headers_of_every_reply(served: str) -> None:
    for place in (*PLACES, "/nothing"):
        reply = httpx.get(f"{served}{place}", headers={"Origin": served})
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert not [name for name in reply.headers if name.startswith("access-control")], "closed to other sites"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_requests_from_other_sites_are_refused(
    served: str, upstream: Upstream, headers: dict[str, str], status: int
) -> None:
    asked = len(upstream.bodies)
    for place in ("/v1/chat/completions", "/api/runs"):
        content = b'{"model": "tiny@sc", "messages": [{"role": "user", "content": "3"}]}'
        sent = {"Content-Type": "application/json"} | headers
        assert httpx.post(f"{served}{place}", content=content, headers=sent).status_code == status
    assert httpx.options(f"{served}/v1/chat/completions", headers={"Origin": "https://evil.example"}).status_code == 403
    assert len(upstream.bodies) == asked


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b'{"model": 5}', b"\xff\xfe", b'{"model":"\\ud800"}', b"[" * 5000,
        b'{"model": "%s@sc"}' % (b"x" * 800),
    ],
)  # fmt: skip
def test_bodies_that_are_not_requests(served: str, content: bytes) -> None:
    reply = httpx.post(f"{served}/v1/chat/completions", content=content, headers={"Content-Type": "application/json"})
    assert reply.status_code == 400
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}


def test_runs_cannot_be_guessed_or_escaped_from(upstream: Upstream, tmp_path: Path) -> None:
    kept = tmp_path / "runs"
    (tmp_path / "secret-secret-secret.jsonl").write_text('{"schema": 2, "run": {"question": "hidden"}}')
    with before(upstream, keep_runs=kept) as (url, _):
        names = [post(url, "/api/runs").json()["id"] for _ in range(4)]
        assert len(set(names)) == 4
        assert min(map(len, names)) >= 32
        until(lambda: len(list(kept.glob("*.jsonl"))) == 4)
        assert all(file.stat().st_mode & 0o077 == 0 for file in kept.glob("*.jsonl")), "for this user's eyes only"
        assert {one["id"] for one in httpx.get(f"{url}/api/runs").json()["runs"]} == set(names)
        for name in ("..%2fsecret-secret-secret", "secret-secret-secret", "x", names[0][:-1]):
            assert httpx.get(f"{url}/api/runs/{name}/events").status_code == 404
            assert "hidden" not in httpx.get(f"{url}/api/runs/{name}/paths/0").text
        for name in ("../settings.py", "..%2fsettings.py", "%2e%2e/app.py", ".hidden", "none.js"):
            assert httpx.get(f"{url}/page/{name}").status_code == 404
        assert httpx.get(f"{url}/reports/{names[0]}.jsonl").status_code == 404


def test_without_keep_runs_nothing_is_kept(upstream: Upstream, tmp_path: Path) -> None:
    with before(upstream) as (url, state):
        name = post(url, "/api/runs").json()["id"]
        until(lambda: state.requests == 0)
        with httpx.stream("GET", f"{url}/api/runs/{name}/events") as reply:
            lines = reply.iter_lines()
            assert next(lines).startswith('data: {"schema":2,"run":{')
            assert any('"result"' in line for line in lines)
        assert httpx.get(f"{url}/api/runs").json() == {"runs": [], "reports": [], "keeping": False}


def test_a_run_whose_page_never_comes_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureenough.server.consensus.RECONNECT", 0.2)
    with an_upstream(LONG) as up, before(up) as (url, state):
        name = post(url, "/api/runs").json()["id"]
        until(lambda: up.running == 4)
        until(lambda: up.running == 0)
        until(lambda: state.requests == 0)
        assert httpx.get(f"{url}/api/runs/{name}/events").status_code == 404


def test_the_text_of_requests_is_not_logged(served: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="sureenough")
    secret = "the launch code is 00000000"
    for model in ("tiny@sc", "tiny", "nobody@sc", "tiny@ddc:wrong=1"):
        post(served, model=model, messages=[{"role": "user", "content": secret}])
    assert caplog.records
    assert secret not in caplog.text


def test_counters(upstream: Upstream) -> None:
    with before(upstream, limits=ServerLimits(body=2_000)) as (url, _):
        told = post(url).json()
        post(url, user="x" * 3_000)
        lines = counters(url)
    assert lines['requests_total{route="/v1/chat/completions",status="200"}'] == 1
    assert lines['requests_total{route="/v1/chat/completions",status="413"}'] == 1
    assert lines['tokens_total{bucket="kept"}'] == told["usage"]["completion_tokens"]
    assert lines['prompt_tokens_total{what="prompt"}'] == told["usage"]["prompt_tokens"]
    assert lines['prompt_tokens_total{what="reread_cached"}'] == 0
    assert lines['paths_total{what="started"}'] == 4
    assert lines['runs_total{reason="budget"}'] == 1
    assert lines['request_seconds_bucket{le="+Inf"}'] == lines["request_seconds_count"] == 2
