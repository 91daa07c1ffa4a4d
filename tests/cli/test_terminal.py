"""Text of others must not control the terminal, and URLs must not show passwords."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.cli.terminal import printable
from sureenough.redact import printable_url


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nπ 😀 \\boxed{7}", "plain\ttext\nπ 😀 \\boxed{7}"),
        ("line\r\nline", "line\nline"),
        ("over\rwritten", r"over\rwritten"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
        ("\x9b31m \x9d \x90", r"\x9b31m \x9d \x90"),
        ("\x7f\x08\x00", r"\x7f\x08\x00"),
        ("\u202e\u2066\u2028", r"\u202e\u2066\u2028"),
        ("\ud83d", r"\ud83d"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_any_text_can_be_printed(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert all(letter in "\t\n" or (ord(letter) >= 32 and not 127 <= ord(letter) < 160) for letter in shown)
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("https://user:password@host/v1?token=secret#fragment", "https://host/v1"),
        ("http://user:p@ss@host/v1", "http://host/v1"),
        ("http://user:pa/ss?w#rd@host/v1", "http://host/v1"),
        ("user:password@host", "host"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("", ""),
    ],
)
def test_urls_without_secrets(url: str, shown: str) -> None:
    assert printable_url(url) == shown
