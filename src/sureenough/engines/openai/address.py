"""The way to a server: its address, the proxy before it, and the key, which is never shown."""

from __future__ import annotations

import os
from typing import Final
from urllib.request import getproxies, proxy_bypass

import httpx

from sureenough.errors import UsageError

KEYS: Final = ("SUREENOUGH_API_KEY", "OPENAI_API_KEY")


def parse_url(url: str) -> httpx.URL:
    """A URL, or what is wrong with it; not quoted, because it may hold a password."""
    try:
        return httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        raise UsageError("that is no URL; it looks like http://localhost:8000/v1") from None


def proxy_for(address: httpx.URL) -> httpx.URL | None:
    """The environment's proxy for this address, if there is one."""
    found = getproxies()
    proxy = found.get(address.scheme) or found.get("all")
    return None if not proxy or proxy_bypass(address.netloc.decode()) else parse_url(proxy)


def api_key(given: str | None) -> str | None:
    """The key to send; never shown, not even when it cannot be one."""
    key = given or next((os.environ[name] for name in KEYS if os.environ.get(name)), None)
    key = key.strip() if key else None
    if key and not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key in {' or '.join(KEYS)} has characters that no key has; was it copied whole?")
    return key or None
