"""Commands, URLs and messages without their secrets, for whatever is printed, logged or written to a file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit, urlunsplit

HIDDEN: Final = "***"

_URL: Final = re.compile(r"[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>`]+", re.IGNORECASE)
_AUTHORIZATION: Final = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9+/=._~-]{4,}", re.IGNORECASE)
_SECRET_OPTION: Final = re.compile(r"--?[\w-]*(key|token|password|secret)", re.IGNORECASE)
_NOT_SECRET: Final = frozenset({"--first-token", "--max-tokens", "--max-path-tokens"})


def printable_url(url: str) -> str:
    """A URL without user, password, query and fragment; any of them may hold a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return HIDDEN  # such as an unclosed bracket: what cannot be parsed cannot be cleaned
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def scrub(text: str) -> str:
    """Any text with its URLs made printable and the credentials of HTTP headers hidden."""
    return _AUTHORIZATION.sub(
        lambda match: f"{match[1]} {HIDDEN}", _URL.sub(lambda match: printable_url(match[0]), text)
    )


def printable_command(words: Sequence[str]) -> str:
    """A command line as it may be shown and pasted into a shell; values of options such as --api-key are hidden."""
    shown: list[str] = []
    hide_next = False
    for word in words:
        option, equals, _ = word.partition("=")
        secret = option.startswith("-") and _SECRET_OPTION.fullmatch(option) and option not in _NOT_SECRET
        if hide_next:
            shown.append(HIDDEN)
        else:
            shown.append(f"{option}={HIDDEN}" if secret and equals else scrub(word))
        hide_next = bool(secret) and not equals and not hide_next
    return shlex.join(shown)
