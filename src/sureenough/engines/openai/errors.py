"""Failures of a server as errors that say what to do, without a key or a password in them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Final
from urllib.parse import quote

from yarl import URL

from sureenough.engines.openai.address import basic_auth, without_secrets
from sureenough.engines.openai.logprobs import FIXES
from sureenough.engines.openai.retry import LONGEST_WAIT, retry_after
from sureenough.engines.openai.wire import InvalidReply
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs
from sureenough.redact import redact

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


class ServerBusy(Exception):
    """A status after which the request is sent again: the pause that the server wants, and the error to end with."""

    def __init__(self, retry_after: float | None, error: EngineError) -> None:
        super().__init__(str(error))
        self.retry_after, self.error = retry_after, error


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

    def __init__(self, url: URL, model: str, key: str | None, proxy: URL | None = None) -> None:
        self.shown = str(without_secrets(url))
        self.host = url.host
        self._address = re.compile(rf"(?:\w{{1,9}}://)?{re.escape(f'{url.host}:{url.port}')}(?!\d)(?:/[\w./-]*)?")
        self.model = model
        self.key = key
        self.proxy = None if proxy is None else str(without_secrets(proxy))
        self._secrets = tuple(_secrets(url, key, proxy))

    def for_model(self, model: str) -> ServerErrors:
        """The same server with another model."""
        other = copy(self)
        other.model = model
        return other

    def clean(self, text: str) -> str:
        """Text of a server on one line, without the credentials that it may quote."""
        return redact(text.encode("utf-8", "replace").decode(), *self._secrets)

    def without_addresses(self, text: str) -> str:
        """Cleaned text without the address of the server, of its proxy, and of where it redirects."""
        text = REDIRECTED.sub("it redirects to another address, and", self.clean(text))
        text = self._address.sub(UPSTREAM, text.replace(self.shown, UPSTREAM))
        if self.proxy is not None:
            text = text.replace(f" the proxy {self.proxy}", " a proxy").replace(f"NO_PROXY={self.host}", "NO_PROXY")
        return text

    def refusal(self, status: int, body: bytes, headers: Mapping[str, str], k: int) -> Exception:
        """The error for a status other than 200, which may lead to another attempt."""
        error = self.refused(status, body, headers, k)
        if status not in RETRIED_STATUSES:
            return error
        return ServerBusy(retry_after(headers.get("retry-after"), time.time()), error)

    def refused(self, status: int, body: bytes, headers: Mapping[str, str], k: int) -> EngineError:
        """The error for a status other than 200."""
        request_id = self.clean(headers.get("x-request-id", ""))[:100] or None
        text = self.clean(_message(body))[:LONGEST_TEXT].rstrip(".")  # cut last: half a secret is not recognised
        answered = f"{self.shown} answered {status}" + (f": {text}" if text else "")
        if 300 <= status < 400:
            location = self.clean(_location(headers.get("location")))[:LONGEST_TEXT]
            message = (
                f"{answered}; it redirects to {location}, and redirects are not followed: give that address as the URL"
            )
        elif status in (401, 403):
            message = f"{answered}; set SUREENOUGH_API_KEY (or OPENAI_API_KEY) to a key that it accepts"
        elif status == 404:
            message = (
                f"{answered}; check the model's name ({self.model}) and that the URL ends as the server's does, in /v1"
            )
        elif status in RETRIED_STATUSES:
            return EngineUnavailable(
                f"{answered}; all retries failed, the server is busy or not ready", request_id=request_id, status=status
            )
        elif ABOUT_BEGINNINGS.search(text) is not None:
            message = answered
        elif "max_tokens" in text or "max_completion_tokens" in text:
            message = f"{answered}; lower max_path_tokens, or leave it out: then the server's own limit applies"
        elif ABOUT_LENGTH.search(text) is not None:
            message = f"{answered}; shorten the question, lower max_path_tokens, or give the server a longer context"
        elif "logprob" in text.lower():
            return MissingLogprobs(f"{answered}. {FIXES.format(k=k)}", request_id=request_id, status=status)
        else:
            message = answered
        return EngineRejected(message, request_id=request_id, status=status)

    def pause_too_long(self, busy: ServerBusy) -> EngineUnavailable:
        """The server wants a pause that is longer than a run waits."""
        answered = str(busy.error).partition("; all retries")[0]
        return EngineUnavailable(
            f"{answered}; it wants a pause of {busy.retry_after:,.0f} s, and the longest pause is {LONGEST_WAIT:g} s",
            request_id=busy.error.request_id,
        )

    def unreachable(self, error: TransportError) -> EngineUnavailable:
        """No connection, or none that lasted until the first token."""
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
        """The server sent nothing within a time limit."""
        if begun:
            return EngineError(f"{self.shown} sent nothing for {seconds:g} s in the middle of a path (limit: stall)")
        return EngineUnavailable(
            f"{self.shown} sent no token within {seconds:g} s (limit: first_token); fewer paths in parallel, or a "
            "higher limit, may help"
        )

    def broken_off(self, error: Exception | None) -> EngineError:
        """The stream ended after the first token and before the path's end."""
        reason = f" ({self.clean(str(error)) or type(error).__name__})" if error is not None else ""
        return EngineError(f"{self.shown} broke off in the middle of a path{reason}")

    def invalid_reply(self, error: InvalidReply) -> EngineError:
        """A reply that cannot be read."""
        quoted = self.clean(error.quoted)[:LONGEST_TEXT]  # cut last: half a secret is not recognised
        return EngineError(f"{error.before}{quoted!r}{error.after}")

    def wrong_protocol(self, content_type: str) -> EngineRejected:
        """A response that is not a stream of events."""
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
