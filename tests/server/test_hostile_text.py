"""Text of clients, upstreams and files breaks no reply, header or log line; numbers are those of docs/LOG.md."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from sureenough.json_text import encode
from sureenough.redact import SecretMask
from sureenough.server import ServerSettings
from sureenough.server.upstream import forwarded
from tests.engines.misbehaving import Manner
from tests.in_thread import until
from tests.server.sending import plain, post
from tests.server.serving import ours, serving_app
from tests.server.upstream import KEY, Upstream, before, raw_upstream


class Rewriting(Upstream):
    """Replaces a part of every event."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(lambda seed: Manner(answer="HALF"))
        self.old, self.new = old, new

    async def stream(self, body: dict[str, Any], manner: Manner) -> AsyncIterator[str]:
        async for event in super().stream(body, manner):
            yield event.replace(self.old, self.new)


@contextmanager
def rewriting_upstream(old: str, new: str) -> Iterator[str]:
    """The URL of such an upstream."""
    with serving_app(Rewriting(old, new).app()) as up:
        yield f"{up.url}/v1"


def test_14_3_a_question_in_the_log_is_one_escaped_line(upstream: Upstream, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="sureenough")
    with before(upstream, log_requests=True) as (url, _):
        post(url, messages=[{"role": "user", "content": "3?\nfake line\r\x1b[2J\x9b \\boxed"}])
    message = next(record.getMessage() for record in caplog.records if "question" in record.getMessage())
    assert "fake line" in message
    assert message.isprintable()


def test_14_6_surrogate_halves_end_in_a_response(tmp_path: Path) -> None:
    with rewriting_upstream("HALF", "\\ud83d") as up:
        settings = ServerSettings(upstream=up, upstream_key=KEY, keep_runs=tmp_path)
        with ours(settings) as (url, _):
            assert post(url).status_code == 200
            streamed = post(url, stream=True)
            assert streamed.text.endswith("data: [DONE]\n\n")
            run = post(url, "/api/runs").json()["id"]
            until(lambda: len(list(tmp_path.glob("*.jsonl"))) == 3)
            assert len(httpx.get(f"{url}/api/runs").json()["runs"]) == 3
            with httpx.stream("GET", f"{url}/api/runs/{run}/events") as events:
                assert events.status_code == 200
            assert httpx.get(f"{url}/api/runs/{run}/paths/0").status_code == 200


def test_14_6_halves_are_joined_and_lone_ones_replaced() -> None:
    assert json.loads(encode({"\ud83d": ["a\ud83d\ude00", "\ude00b"]})) == {"\ufffd": ["a\U0001f600", "\ufffdb"]}


def test_14_6_a_bad_kept_run_does_not_hide_the_others(upstream: Upstream, tmp_path: Path) -> None:
    log = '{{"schema": 2, "run": {{"question": "{}"}}}}\n{{"result": {{"answer": "{}"}}}}\n'
    (tmp_path / "half.jsonl").write_text(log.format("q", "\\ude00"))
    (tmp_path / "good.jsonl").write_text(log.format("q", "7"))
    (tmp_path / "damaged.jsonl").write_text('{"schema": 2, "run": {"question"')
    (tmp_path / "deep.jsonl").write_text('{"schema": 2, "run": ' + "[" * 100_000)
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    with before(upstream, keep_runs=tmp_path) as (url, _):
        runs = {run["id"]: run for run in httpx.get(f"{url}/api/runs").json()["runs"]}
        assert set(runs) == {"half", "good"}
        assert runs["good"]["answer"] == "7"
        (tmp_path / "good.jsonl").write_text(log.format("new", "8!"))
        runs = {run["id"]: run for run in httpx.get(f"{url}/api/runs").json()["runs"]}
        assert (runs["good"]["question"], runs["good"]["answer"]) == ("new", "8!")
        reply = httpx.get(f"{url}/api/runs/damaged/events")
        assert reply.status_code == 404
        assert reply.json()["error"]["message"] == "This run cannot be shown: damaged.jsonl is not a run log."


def test_14_9_a_line_break_in_an_upstreams_header(caplog: pytest.LogCaptureFixture) -> None:
    reply = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: a\x0bb\nc\r\nContent-Length: 2\r\n\r\n{}"
    )
    with raw_upstream(reply) as up, ours(ServerSettings(upstream=up.url, retries=0)) as (url, _):
        response = plain(url)
    assert response.status_code in (200, 503)
    assert "\n" not in response.headers.get("x-request-id", "")


@pytest.mark.parametrize("size", range(1, 60))
def test_14_4_the_key_is_masked_however_a_response_is_split(size: int) -> None:
    key = "sk-abab-abab-0123"
    text = f"sk-{key} {key}{key} sk-abab-ababsk-abab-abab-0123 sk-abab-abab-012"
    mask = SecretMask((key, "an unrelated one"))
    sent = "".join(mask.feed(text[at : at + size]) for at in range(0, len(text), size)) + mask.held
    assert sent == text.replace(key, "*" * len(key))


def test_14_4_a_successful_response_that_quotes_the_key() -> None:
    key = "planted-key-0123456789"
    content = json.dumps({"choices": [], "note": f"Bearer {key}", "short": "EMPTY"}).encode()
    reply = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content) + content
    with raw_upstream(reply) as up:
        with ours(ServerSettings(upstream=up.url, upstream_key=key, retries=0)) as (url, _):
            response = plain(url)
        assert response.json() == {"choices": [], "note": f"Bearer {'*' * len(key)}", "short": "EMPTY"}
        with ours(ServerSettings(upstream=up.url, upstream_key="EMPTY", retries=0)) as (url, _):
            assert plain(url).content == content


def test_14_9_control_characters_in_forwarded_headers_are_replaced() -> None:
    headers = {"content-type": "text/plain\r\nset-cookie: a", "x-request-id": "\n", "retry-after": "\x00 2 €"}
    assert forwarded(headers, str) == [(b"content-type", b"text/plain set-cookie: a"), (b"retry-after", b"2 ?")]


def test_14_9_negative_usage_is_ignored() -> None:
    with (
        rewriting_upstream('"prompt_tokens": 9', '"prompt_tokens": -9') as up,
        ours(ServerSettings(upstream=up, upstream_key=KEY)) as (url, _),
    ):
        reply = post(url).json()
        assert httpx.get(f"{url}/metrics").status_code == 200
    assert reply["usage"]["prompt_tokens"] >= 0
    assert reply["sureenough"]["tokens"]["prompt"] >= 0
