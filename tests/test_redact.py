"""Secrets of every form are removed from text that is printed, logged or stored."""

from __future__ import annotations

import json

import pytest

from sureenough.redact import printable_command, printable_url, redact

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"bench --url http://user:{SECRET}@host/v1?token={SECRET}",
        f"https://{SECRET}@host/",
        f"http://host/v1?x=1&api_key={SECRET}&y=2",
        f"http://host/?X-Amz-Signature={SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"got header 'Basic {SECRET}='",
        f"authorization: {SECRET}",
        f'{{"x-api-key": "{SECRET}"}}',
        f"--api-key {SECRET}",
        f"--token={SECRET}",
        f"password={SECRET} is wrong",
        f"incorrect key sk-{SECRET}",
        f"the key is {SECRET} as sent",
    ],
)
def test_14_4_secrets_are_removed(text: str) -> None:
    assert SECRET not in redact(text, SECRET if "as sent" in text else None)


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=100 is above the limit; see http://host:8000/v1/models?limit=5",
        "the model's keys are 'a' and 'b'; 3 tokens = 2 words",
        "user@example.org asked at 12:30",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert redact(text) == text


def test_a_redacted_json_body_is_still_json() -> None:
    body = {
        "error": {"message": f"wrong key: Bearer {SECRET}", "url": f"http://u:{SECRET}@h/?key={SECRET}", "n": "é\n"}
    }
    text = redact(json.dumps(body))
    assert SECRET not in text
    assert json.loads(text)["error"]["url"] == "http://h/?key=***"


def test_escapes_and_line_breaks_are_removed() -> None:
    assert redact("a\x1b]52;c\x07\nb\ud800").isprintable()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("https://user:hunter2@host/v1", "https://host/v1"),
        ("https://hunter2@host:1/v1?token=sk-planted#hunter2", "https://host:1/v1"),
        ("http://a:b@c:hunter2@host/v1", "http://host/v1"),
        ("http://user:hunter2@[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://user:pa/ss?w#rd@host/v1", "http://host/v1"),
        ("user:hunter2@host", "host"),
        ("", ""),
    ],
)
def test_14_4_a_url_is_shown_without_credentials_and_query(url: str, shown: str) -> None:
    assert printable_url(url) == shown


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["bench", "--url", "http://u:hunter2@h/v1"], "bench --url http://h/v1"),
        (["bench", "--url=http://u:hunter2@h/v1", "-s", "ddc:tau=0.9"], "bench --url=http://h/v1 -s ddc:tau=0.9"),
        (["serve", "--api-key", "sk-planted", "--port", "1"], "serve --api-key '***' --port 1"),
        (["serve", "--api-key=sk-planted"], "serve '--api-key=***'"),
        (["ask", "--first-token", "5", "--max-tokens=9"], "ask --first-token 5 --max-tokens=9"),
        (["ask", "what is a b?"], "ask 'what is a b?'"),
    ],
)
def test_14_4_a_command_is_shown_without_secrets(words: list[str], shown: str) -> None:
    assert printable_command(words) == shown
