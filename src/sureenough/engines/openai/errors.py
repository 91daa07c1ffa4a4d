"""What went wrong at a server, in words that say what to do, and never with a key in them."""

from __future__ import annotations

import json
from copy import copy
from typing import Final

import httpx

from sureenough.engines.openai.logprobs import CURES
from sureenough.engines.openai.parser import said
from sureenough.engines.openai.retry import LONGEST_WAIT
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs
from sureenough.redact import redact

BUSY: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses after which asking again may help."""


class ServerBusy(Exception):
    """The server cannot answer now; carries the pause it asked for and the error to give in the end."""

    def __init__(self, asked: float | None, error: EngineError) -> None:
        super().__init__(str(error))
        self.asked, self.error = asked, error


class ServerErrors:
    """Where requests go, as it may be shown: without user, password, query or key."""

    def __init__(self, url: httpx.URL, model: str, key: str | None, proxy: httpx.URL | None = None) -> None:
        self.shown = _bare(url)
        self.model = model
        self.proxy = None if proxy is None else _bare(proxy)
        self._key = key

    def of(self, model: str) -> ServerErrors:
        """The same server, asked for another model."""
        other = copy(self)
        other.model = model
        return other

    def clean(self, text: str) -> str:
        """Text of a server, which may quote the key it was sent."""
        return redact(text, self._key)

    def refused(self, status: int, body: bytes, location: str | None, k: int, request_id: str | None) -> EngineError:
        """The error for a status that is no 200."""
        words = self.clean(_words(body))
        told = f"{self.shown} answered {status}" + (f": {words}" if words else "")
        if 300 <= status < 400:
            where = _bare(httpx.URL(location)) if location else "another place"
            message = f"{told}; it redirects to {where}, which is not followed: give that address as the URL"
        elif status in (401, 403):
            message = f"{told}; set SUREENOUGH_API_KEY (or OPENAI_API_KEY) to a key that it accepts"
        elif status == 404:
            message = f"{told}; check the model's name ({self.model}) and that the URL ends in /v1 as the server's does"
        elif status in BUSY:
            return EngineUnavailable(
                f"{told}; it was asked several times, and is busy or not ready", request_id=request_id, status=status
            )
        elif "max_tokens" in words or "max_completion_tokens" in words:
            message = f"{told}; lower --max-path-tokens, or leave it out: the server's own limit holds then"
        elif "logprob" in words.lower():
            return MissingLogprobs(f"{told}. {CURES.format(k=k)}", request_id=request_id, status=status)
        else:
            message = told
        return EngineRejected(message, request_id=request_id, status=status)

    def too_long(self, busy: ServerBusy) -> EngineUnavailable:
        """It asked for a pause that is not worth waiting for."""
        told = str(busy.error).partition("; it was asked")[0]
        return EngineUnavailable(
            f"{told}; it asks to come back in {busy.asked:,.0f} s, and no more than {LONGEST_WAIT:g} s are waited",
            request_id=busy.error.request_id,
        )

    def unreachable(self, error: httpx.TransportError) -> EngineUnavailable:
        """Nobody there, or gone before the first token."""
        why = self.clean(str(error)) or type(error).__name__
        if isinstance(error, httpx.ConnectTimeout):
            why = "no connection in time"
        cure = "is the server running, and is the URL right?" if isinstance(error, httpx.ConnectError) else "try again"
        if "CERTIFICATE_VERIFY_FAILED" in why:
            cure = "if it is your own, name the file of its authority's certificate in SSL_CERT_FILE"
        via = ""
        if self.proxy is not None:
            via = f" through the proxy {self.proxy}"
            cure = f"the environment names that proxy, and NO_PROXY={httpx.URL(self.shown).host} goes without it"
        return EngineUnavailable(f"nobody answers at {self.shown}{via} ({why}); {cure}")

    def silent(self, seconds: float, begun: bool) -> EngineError:
        """Nothing came for too long."""
        if begun:
            return EngineError(
                f"{self.shown} sent nothing for {seconds:g} s in the middle of a path (--stall waits longer)"
            )
        return EngineUnavailable(
            f"{self.shown} sent no token within {seconds:g} s; fewer paths at once (--parallel), or more patience "
            "(--first-token), may help"
        )

    def cut(self, error: Exception | None) -> EngineError:
        """The connection broke after the first token."""
        why = f" ({self.clean(str(error)) or type(error).__name__})" if error is not None else ""
        return EngineError(f"{self.shown} broke off in the middle of a path{why}")

    def wrong_protocol(self, kind: str) -> EngineRejected:
        """A reply that is no stream of events."""
        return EngineRejected(
            f"{self.shown} answered with {kind or 'no content type'} instead of text/event-stream, a stream of events; "
            "is this an OpenAI-compatible server, and does the URL end in /v1?"
        )


def _bare(url: httpx.URL) -> str:
    """A URL that may be shown."""
    return str(url.copy_with(username=None, password=None, query=None, fragment=None))


def _words(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    try:
        return said(json.loads(text))
    except (ValueError, RecursionError):
        return text[:300]
