"""Planted secrets in everything that a command line takes: none is printed, logged or written by any verb.

The upstream quotes the request's head, its credentials decoded, in every kind of error.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import re
import signal
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from sureenough.__main__ import main
from tests.adversarial.hostile_upstream import USAGE, tokens, whole
from tests.bench.typed import questions
from tests.engines.raw_server import Answer, RawServer, raw_server, token_event
from tests.in_thread import in_thread
from tests.processes import CLEAN, configured, start

USER, PASSWORD, QUERY, KEY, SERVE_KEY = (
    "planted-user", "planted p@ss/word", "planted-query&=", "planted-key-0123456789", "planted-serve-key-0123",
)  # fmt: skip
BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
FORMS = [USER, PASSWORD, quote(PASSWORD, safe=""), "p@ss/word", QUERY, quote(QUERY, safe=""), KEY, BASIC, SERVE_KEY]
MODES = (
    "repeats in its text", "refuses", "busy", "breaks off", "sends no JSON", "ends oddly", "healthy", "without a key",
)  # fmt: skip


def quoting(mode: str) -> Answer:
    """An upstream that quotes the whole request in its errors."""

    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        head = server.heads[-1].decode("latin-1")
        decoded = [
            base64.b64decode(text + "===").decode("utf-8", "replace")
            for text in re.findall(r"[Bb]asic ([\w+/]+)", head)
        ]
        quoted = f"{head} {decoded} for http://{USER}:{quote(PASSWORD, safe='')}@host/v1?token={quote(QUERY, safe='')}"
        error = json.dumps({"error": {"message": quoted, "type": quoted, "code": 400}})
        secrets = [KEY, PASSWORD, quote(PASSWORD, safe=""), QUERY, quote(QUERY, safe=""), BASIC]
        repeated = f"{' '.join(secrets)} \\boxed{{{' '.join(secrets)}}}"
        if mode == "repeats in its text" and body:
            parts = [repeated[at : at + 7] for at in range(0, len(repeated), 7)]
            events = [*map(token_event, parts), token_event(".", finish="stop"), USAGE, "[DONE]"]
            plain = json.dumps({"choices": [{"index": 0, "message": {"content": repeated}}]}).encode()
            writer.write(whole(events) if body.get("stream") else http_reply(plain))
        elif mode == "healthy" or (not body and mode != "refuses"):
            draw = random.Random(body.get("seed"))
            models = b'{"data": [{"id": "tiny"}]}'
            writer.write(whole([*tokens(draw), USAGE, "[DONE]"]) if body else http_reply(models))
        elif mode == "breaks off":
            writer.write(whole([*tokens(random.Random(1))[:3], error]))
        elif mode == "sends no JSON":
            writer.write(whole([*tokens(random.Random(1))[:3], " ".join(quoted.split())]))
        elif mode == "ends oddly":
            end = {"choices": [{"index": 0, "delta": {}, "finish_reason": quoted}]}
            writer.write(whole([*tokens(random.Random(1))[:3], json.dumps(end)]))
        else:
            status = b"503 Busy" if mode == "busy" else b"400 Bad"
            content = error.encode()
            head_sent = (
                b"HTTP/1.1 " + status + b"\r\nRetry-After: 0\r\nX-Request-Id: " + " ".join(quoted.split()).encode()
            )
            writer.write(head_sent + b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content))
            writer.write(content)

    return answer


def http_reply(content: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(content) + content


def with_secrets(url: str) -> str:
    """The URL with a user, a password and a query."""
    credentials = f"{USER}:{quote(PASSWORD, safe='')}@"
    return url.replace("http://", f"http://{credentials}") + f"?token={quote(QUERY, safe='')}"


def environment(folder: Path) -> dict[str, str]:
    variables = {"SUREENOUGH_API_KEY": KEY, "SUREENOUGH_SERVE_KEYS": SERVE_KEY}
    return CLEAN | variables | {"XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder)}


def commands(url: str, folder: Path) -> dict[str, list[str]]:
    """Every verb that takes a URL and ends by itself."""
    dataset = str(questions(folder / "sums.jsonl", 2))
    model = ["--url", url, "--model", "tiny"]
    small = ["--paths", "4", "--window", "4"]
    run = str(folder / "run")
    bench = ["bench", "main", "--dataset", dataset, *model, "-o", run, *small, "-s", "sc", "--live", "--jobs", "1"]
    return {
        "ask": ["ask", "3 + 4?", *model, *small, "-s", "sc"],
        "ask --json": ["ask", "3 + 4?", *model, *small, "-s", "sc", "--json"],
        "ask without a model": ["ask", "3 + 4?", "--url", url],
        "ask a URL that is none": ["ask", "3 + 4?", "--url", url.replace("http", "ftp"), "--model", "tiny"],
        "ask a dead port": ["ask", "3 + 4?", "--url", re.sub(r":\d+/", ":9/", url), "--model", "tiny"],
        "doctor": ["doctor", *model],
        "record": ["record", dataset, *model, "--paths", "2", "--window", "4", "-o", str(folder / "pool.parquet")],
        "bench": bench,
        "bench --json": [*bench, "--json"],
        "bench with another plan": [*bench, "--temperature", "0.9"],
        "report": ["bench", "--report", run],
    }  # fmt: skip


def check(folder: Path, printed: dict[str, str]) -> None:
    """No form of a secret in what was printed or in any file that was written."""
    for form in FORMS:
        shown = [name for name, text in printed.items() if form in text]
        assert not shown, f"{form!r} is printed by {shown}: {printed[shown[0]][-2000:]}"
        files = [file for file in folder.rglob("*") if file.is_file() and form.encode() in file.read_bytes()]
        assert not files, f"{form!r} is in {files}"


@pytest.mark.parametrize("mode", MODES)
def test_verbs_print_and_write_no_secret(
    mode: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = {}
    variables = environment(tmp_path)
    for name in ("SUREENOUGH_API_KEY", "SUREENOUGH_SERVE_KEYS", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, variables[name])
    if mode == "without a key":
        monkeypatch.delenv("SUREENOUGH_API_KEY")
    monkeypatch.chdir(tmp_path)
    with in_thread(raw_server(quoting(mode))) as server:
        for name, words in commands(with_secrets(server.url), tmp_path).items():
            monkeypatch.setattr(sys, "argv", ["sureenough", *words])
            with pytest.raises(SystemExit) as ended:
                main()
                sys.exit(0)
            printed[name] = "".join(capfd.readouterr())
            assert "Traceback" not in printed[name], printed[name]
            assert ended.value.code in (None, 0, 1, 2, 3), printed[name]
        used = BASIC if mode == "without a key" else KEY
        assert any(used.encode() in head for head in server.heads), "the secrets are not in use"
    check(tmp_path, printed)
    if mode == "healthy":
        assert len([file for file in (tmp_path / "run").rglob("*") if file.is_file()]) > 3


@pytest.mark.parametrize("mode", ["repeats in its text", "refuses", "breaks off", "healthy"])
def test_serve_prints_writes_and_answers_no_secret(mode: str, tmp_path: Path) -> None:
    with in_thread(raw_server(quoting(mode))) as server:
        upstream = with_secrets(server.url)
        command = ["serve", "--url", upstream, "--port", "0", "--keep-runs", "runs"]
        settings = configured(tmp_path, "[serve]\nlog-requests = true\nlog-level = 'debug'\n")
        with start(*command, env=environment(tmp_path) | settings, cwd=tmp_path) as process:
            first = process.stdout.readline()
            address = first.split(" serves at ")[1].split("/v1")[0]
            replies = []
            body = {"messages": [{"role": "user", "content": "3?"}], "sureenough": {"paths": 2}}
            with httpx.Client(headers={"Authorization": f"Bearer {SERVE_KEY}"}, timeout=60) as http:
                votes: list[dict[str, Any]] = [{"model": "tiny@sc"}, {"model": "tiny@sc", "stream": True}]
                plain: list[dict[str, Any]] = (
                    [] if mode == "breaks off" else [{"model": "tiny"}]
                )  # a 200 is passed on unchanged
                for fields in [*votes, *plain]:
                    more = {"sureenough": None} if fields["model"] == "tiny" else {}
                    response = http.post(f"{address}/v1/chat/completions", json=body | fields | more)
                    replies.append(f"{response.headers} {response.text}")
                for path in ("/metrics", "/api/runs", "/api/options", "/openapi.json"):
                    replies.append(http.get(address + path).text)
            refused = httpx.get(f"{address}/v1/models", headers={"Authorization": f"Bearer {SERVE_KEY}x"})
            assert refused.status_code == 401
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    printed = {"start": first, "stdout": out, "stderr": err}
    check(tmp_path, printed | {f"reply {at}": text for at, text in enumerate(replies)})
