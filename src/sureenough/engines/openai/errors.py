"""Failures of a server as errors that say what to do, without a key or a password in them."""

from __future__ import annotations

import json
import os
import random
import re
import time
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import quote
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from sureenough.engines.openai.logprobs import FIXES
from sureenough.engines.openai.wire import InvalidReply
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs, UsageError
from sureenough.redact import LEAST_SECRET, SecretMask, redact

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


# The pauses between attempts.

LONGEST_WAIT: Final = 120.0
"""Seconds. A server that wants a longer pause counts as unavailable."""
FIRST_WAIT: Final = 0.5
"""Seconds before the second attempt at most; each further wait is twice as long."""


def retry_after(header: str, now: float) -> float | None:
    """Seconds from now that a Retry-After header asks for; it is a number or a date."""
    with suppress(ValueError):
        return max(0.0, float(header))
    with suppress(ValueError, TypeError, OverflowError, OSError):
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    return None


def backoff(attempt: int, requested: float | None) -> float:
    """Seconds until the next attempt: the server's wish plus up to a tenth, so that clients do not return together."""
    if requested is not None:
        return requested * random.uniform(1.0, 1.1)
    return min(8.0, FIRST_WAIT * 2.0**attempt) * random.uniform(0.5, 1.0)


RETRIED_STATUSES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses after which the same request may succeed."""


ABOUT_LENGTH: Final = re.compile(
    r"max_(?:completion_)?tokens|max_model_len|context[ _](?:length|size|window)", re.IGNORECASE
)
"""What servers write about a request that is longer than their context."""
ABOUT_BEGINNINGS: Final = re.compile(r"continue_final_message|add_generation_prompt")
"""What they write if they do not continue a beginning; some list all that they know, or quote the whole request."""
REDIRECTED: Final = re.compile(r"it redirects to \S+, and")
UPSTREAM: Final = "the upstream"
"""What clients of `serve` read instead of an address."""
LONGEST_TEXT: Final = 300
"""Characters of a server's text that an error quotes."""


class TransportError(Exception):
    """An HTTP exchange that failed. The message never contains a URL, since its query may hold a secret."""


class ConnectError(TransportError):
    """No connection: refused, no such host, a certificate that is not trusted, or not in time."""


class StreamError(Exception):
    """The server sent an error inside the stream; some do so even for requests that they refuse."""

    def __init__(self, error: object) -> None:
        super().__init__(error_message(error))
        code = error.get("code") if isinstance(error, dict) else None
        self.status = code if isinstance(code, int) else None


class ServerBusy(EngineUnavailable):
    """A status after which the same request may succeed, and the pause that the server wants before that."""

    retry_after: float | None = None


def error_message(error: object) -> str:
    """The message in the error object of a server, whatever its form."""
    if isinstance(error, dict):
        inner = error.get("error", error)
        message = inner.get("message") or inner.get("detail") if isinstance(inner, dict) else inner
        return str(message or inner)
    return str(error)


def is_about_length(error: EngineRejected) -> bool:
    """Whether the server refused a request because it and its reply could be longer than the server's limit."""
    text = str(error)
    return (
        error.status in (400, 413, 422)
        and ABOUT_LENGTH.search(text) is not None
        and ABOUT_BEGINNINGS.search(text) is None
    )


def is_about_access(error: EngineRejected) -> bool:
    """Whether any request would have been refused so: the key, the model or the address is wrong."""
    return error.status is not None and (300 <= error.status < 400 or error.status in (401, 403, 404))


class ServerErrors:
    """Makes the errors about one server, which is shown without user, password, query and key."""

    def __init__(self, url: URL, key: str | None, proxy: URL | None = None) -> None:
        self.shown = str(without_secrets(url))
        self.host = url.host
        self._address = re.compile(rf"(?:\w{{1,9}}://)?{re.escape(f'{url.host}:{url.port}')}(?!\d)(?:/[\w./-]*)?")
        self.key = key
        self.proxy = None if proxy is None else str(without_secrets(proxy))
        self._secrets = tuple(_secrets(url, key, proxy))
        users = {address.user for address in (url, proxy) if address is not None and address.password}
        self._masked = tuple(text for text in self._secrets if len(text) >= LEAST_SECRET and text not in users)

    def clean(self, text: str) -> str:
        """Text of a server on one line, without the credentials that it may quote."""
        return redact(text.encode("utf-8", "replace").decode(), *self._secrets)

    def mask(self, *, of_bytes: bool = False) -> SecretMask:
        """A mask for one text of the server, or for its bytes as Latin-1, which may quote the request."""
        secrets = (text.encode("utf-8", "replace").decode("latin-1") if of_bytes else text for text in self._masked)
        return SecretMask(tuple(secrets))

    def without_addresses(self, text: str) -> str:
        """Cleaned text without the address of the server, of its proxy, and of where it redirects."""
        text = REDIRECTED.sub("it redirects to another address, and", self.clean(text))
        text = self._address.sub(UPSTREAM, text.replace(self.shown, UPSTREAM))
        if self.proxy is not None:
            text = text.replace(f" the proxy {self.proxy}", " a proxy").replace(f"NO_PROXY={self.host}", "NO_PROXY")
        return text

    def refusal(self, status: int, body: bytes, headers: Mapping[str, str], *, model: str, k: int) -> EngineError:
        request_id = self.clean(headers.get("x-request-id", ""))[:100] or None
        text = self.clean(_message(body))[:LONGEST_TEXT].rstrip(".")  # cut last: half a secret is not recognised
        message = f"{self.shown} answered {status}" + (f": {text}" if text else "")
        if 300 <= status < 400:
            location = self.clean(_location(headers.get("location")))[:LONGEST_TEXT]
            message += f"; it redirects to {location}, and redirects are not followed: give that address as the URL"
        elif status in (401, 403):
            message += "; set SUREENOUGH_API_KEY (or OPENAI_API_KEY) to a key that it accepts"
        elif status == 404:
            message += f"; check the model's name ({model}) and that the URL ends as the server's does, in /v1"
        elif status in RETRIED_STATUSES:
            pause = retry_after(headers.get("retry-after", ""), time.time())
            reason = "all retries failed, the server is busy or not ready"
            if pause is not None and pause > LONGEST_WAIT:
                reason = f"it wants a pause of {pause:,.0f} s, and the longest pause is {LONGEST_WAIT:g} s"
            busy = ServerBusy(f"{message}; {reason}", request_id=request_id, status=status)
            busy.retry_after = pause
            return busy
        elif ABOUT_BEGINNINGS.search(text) is not None:
            pass
        elif "max_tokens" in text or "max_completion_tokens" in text:
            message += "; lower max_path_tokens, or leave it out: then the server's own limit applies"
        elif ABOUT_LENGTH.search(text) is not None:
            message += "; shorten the question, lower max_path_tokens, or give the server a longer context"
        elif "logprob" in text.lower():
            return MissingLogprobs(f"{message}. {FIXES.format(k=k)}", request_id=request_id, status=status)
        return EngineRejected(message, request_id=request_id, status=status)

    def unreachable(self, error: TransportError) -> EngineUnavailable:
        reason = self.clean(str(error)) or type(error).__name__
        fix = "is the server running, and is the URL right?" if isinstance(error, ConnectError) else "try again"
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            fix = "if the certificate is your own, set SSL_CERT_FILE to the file of its authority's certificate"
        via = ""
        if self.proxy is not None:
            via = f" through the proxy {self.proxy}"
            fix = f"the environment sets that proxy, and NO_PROXY={self.host} connects without it"
        return EngineUnavailable(f"no response from {self.shown}{via} ({reason}); {fix}")

    def stalled(self, seconds: float, begun: bool) -> EngineError:
        if begun:
            return EngineError(f"{self.shown} sent nothing for {seconds:g} s in the middle of a path (limit: stall)")
        return EngineUnavailable(
            f"{self.shown} sent no token within {seconds:g} s (limit: first_token); fewer paths in parallel, or a "
            "higher limit, may help"
        )

    def broken_off(self, error: Exception | None) -> EngineError:
        reason = f" ({self.clean(str(error)) or type(error).__name__})" if error is not None else ""
        return EngineError(f"{self.shown} broke off in the middle of a path{reason}")

    def invalid_reply(self, error: InvalidReply) -> EngineError:
        return EngineError(f"{error.reason} {self.clean(error.quoted)[:LONGEST_TEXT]!r}")  # cut last, as in `refusal`

    def wrong_protocol(self, content_type: str) -> EngineRejected:
        return EngineRejected(
            f"{self.shown} answered with {self.clean(content_type)[:100] or 'no content type'} instead of "
            "text/event-stream, a stream of events; is this an OpenAI-compatible server, and does the URL end in /v1?"
        )


def _secrets(url: URL, key: str | None, proxy: URL | None) -> Iterable[str]:
    """Everything in a request that a server or a proxy could quote; encoded forms first, since they hold the others."""
    if key:
        yield key
    for address in (url, proxy):
        if address is not None and (header := basic_auth(address)) is not None:
            yield header.removeprefix("Basic ")
        if address is not None and address.password:
            yield from (quote(address.password, safe=""), address.password)
        if address is not None and address.user and (not address.password or len(address.user) >= 6):
            yield from (quote(address.user, safe=""), address.user)  # some services take a token as the user
    for value in url.query.values():
        if len(value) >= 6:  # shorter values are settings, not credentials
            yield from (quote(value, safe=""), value)


def _location(header: str | None) -> str:
    try:
        return str(without_secrets(URL(header))) if header else "another address"
    except ValueError:
        return "another address"


def _message(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    try:
        return error_message(json.loads(text))
    except (ValueError, RecursionError):
        return text
