"""Where requests go and with which credentials: the server's URL, the environment's proxy, the API key."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Sequence
from typing import Final
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from sureenough.errors import UsageError

KEY_VARIABLES: Final = ("SUREENOUGH_API_KEY", "OPENAI_API_KEY")


def parse_url(url: str) -> URL:
    """Parse a URL. The error does not quote it, because it may hold a password."""
    try:
        return URL(url)
    except (ValueError, TypeError) as error:
        why = ": ports go from 1 to 65535" if "port" in str(error).lower() else ""
        raise UsageError(f"that is not a URL{why}; it looks like http://localhost:8000/v1") from None


def given_twice(urls: Sequence[str]) -> str | None:
    """The first URL that is another spelling of an earlier one, or has only another user; None if all differ."""
    servers = set[tuple[object, ...]]()
    for url in urls:
        address = parse_url(url)
        server = (address.scheme, address.host, address.port, address.path.rstrip("/"), address.query_string)
        if server in servers:
            return url
        servers.add(server)
    return None


def without_secrets(url: URL) -> URL:
    """The URL without user, password, query and fragment, so that it can be shown."""
    return (url.with_user(None) if url.absolute else url).with_query(None).with_fragment(None)


def basic_auth(url: URL) -> str | None:
    """The value of an Authorization header for the user and password of a URL, if it has any."""
    if url.user is None and url.password is None:
        return None
    return "Basic " + b64encode(f"{url.user or ''}:{url.password or ''}".encode()).decode()


def proxy_for(address: URL) -> URL | None:
    """The proxy that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY set for this address."""
    proxies = getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(address.raw_authority.rpartition("@")[2]):
        return None
    url = parse_url(proxy if "://" in proxy else f"http://{proxy}")
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(
            f"the environment sets the proxy {without_secrets(url)}; only http:// and https:// proxies are supported "
            f"(NO_PROXY={address.host} connects without it)"
        )
    return url


def api_key(given: str | None) -> str | None:
    """The key to send: the given one, else the environment's. Errors do not quote it."""
    key = given or next((os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)), None)
    key = key.strip() if key else None
    if key and not (key.isascii() and key.isprintable()):
        raise UsageError(
            f"the key in {' or '.join(KEY_VARIABLES)} has characters that cannot be part of a key; was it copied whole?"
        )
    return key or None
