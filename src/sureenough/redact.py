"""Text without secrets: what may be printed, logged and stored.

Every pattern runs in linear time, because servers choose the text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

HIDDEN: Final = "***"
_VALUE: Final = r"""[^\s&#"'\\<>,;]*"""  # stops at quotes and backslashes, so that JSON stays JSON
_NAMES: Final = "key|token|secret|password|passwd|pwd|auth|sig|credential"
_PATTERNS: Final = [
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"""(?<=://)[^\s/?#"'\\<>]*@""", ""),  # user and password of a URL
        (rf"([?&;][\w.-]{{0,40}}(?:{_NAMES})[\w.-]{{0,40}}=){_VALUE}", rf"\1{HIDDEN}"),
        (rf"(?<![\w-])((?:api[_-]?key|access[_-]?token|token|key|secret|password|passwd)=){_VALUE}", rf"\1{HIDDEN}"),
        (rf"(--(?:api-)?(?:key|token|secret|password)[ =])(?!{re.escape(HIDDEN)}){_VALUE}", rf"\1{HIDDEN}"),
        (
            r"""(?<![\w-])((?:authorization|(?:x-)?api[_-]?key)["']?\s{0,3}:\s{0,3}["']?)"""
            rf"(?!bearer\b|basic\b){_VALUE}",
            rf"\1{HIDDEN}",
        ),
        (r"\b(bearer|basic)(\s{1,3})[\w.~+/=-]{6,}", rf"\1\2{HIDDEN}"),
        (r"\bsk-[\w-]{8,}", f"sk-{HIDDEN}"),
    )
]


def printable_url(url: str) -> str:
    """The URL without user, password, query and fragment; whatever stands before the last @ may be a secret."""
    scheme, separator, rest = url.rpartition("://") if "://" in url else ("", "", url)
    return scheme + separator + re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0]


def redact(text: str, *secrets: str | None) -> str:
    """The text on one line, without these secrets, without any that its form gives away, and without escapes."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
    text = " ".join(text.split())
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text if text.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in text)


LEAST_SECRET: Final = 12
"""Characters of a secret that is masked in text of models; a shorter one, such as EMPTY, may be an ordinary word."""


class SecretMask:
    """Replaces secrets by asterisks in a text that comes in parts, wherever it is split."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self.secrets = secrets
        self.held = ""  # the end of what came, if it may be the beginning of a secret

    def feed(self, part: str) -> str:
        """What may be passed on now; `held` follows when the text has ended."""
        text = self.held + part
        end = len(text)
        for secret in self.secrets:
            text = text.replace(secret, "*" * len(secret))
            at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
            while at >= 0 and not secret.startswith(text[at:]):
                at = text.find(secret[0], at + 1)
            end = min(end, at) if at >= 0 else end
        text, self.held = text[:end], text[end:]
        return text


def first_line(error: BaseException, *secrets: str) -> str:
    """The first line of an error's text, without secrets and escapes."""
    text = str(error)
    for secret in filter(None, secrets):
        text = text.replace(secret, HIDDEN)  # before the text is cut: a secret may have several lines
    lines = text.strip().splitlines()
    return redact(lines[0])[:300] if lines else type(error).__name__


_SECRET_OPTION: Final = re.compile(r"--?[\w-]{0,40}(?:key|password|passwd|secret|(?<!first-)token)", re.IGNORECASE)


def printable_command(words: Sequence[str]) -> str:
    """A command line that may be stored and pasted into a shell: without secrets in URLs and after secret options."""
    shown: list[str] = []
    hide_next = False
    for word in words:
        option, equals, value = word.partition("=") if word.startswith("--") and "=" in word else ("", "", word)
        secret = _SECRET_OPTION.fullmatch(option or word) is not None
        if hide_next or (secret and equals):
            value = HIDDEN
        elif "://" in value:
            value = printable_url(value)
        shown.append(option + equals + value)
        hide_next = secret and not equals
    return shlex.join(shown)
