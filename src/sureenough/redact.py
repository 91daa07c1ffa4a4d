"""Text without secrets: what may be printed, logged and stored."""

from __future__ import annotations

import re


def printable_url(url: str) -> str:
    """The URL without user, password, query and fragment; whatever stands before the last @ may be a secret."""
    scheme, separator, rest = url.rpartition("://") if "://" in url else ("", "", url)
    return scheme + separator + re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0]
