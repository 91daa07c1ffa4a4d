"""HTTP to one server, plain or over TLS, directly or through a proxy: a thin layer over an aiohttp session.

Everything that a server can make large has a limit, and every failure is a `TransportError`.
"""

from __future__ import annotations

import asyncio
import os
import re
import selectors
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from typing import Any, Final, NamedTuple

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from sureenough.engines.openai.errors import ConnectError, TransportError, basic_auth, without_secrets

IDLE_SECONDS: Final = 15.0
"""Connections that are not used for this long are closed."""
READ_BUFFER: Final = 1 << 17
"""Bytes that wait to be read, about; beyond, the server has to wait."""
LARGEST_BODY: Final = 16 << 20
"""Bytes of a response that is read whole."""
LARGEST_HEADER: Final = 8190
"""Bytes of a line in the head of a response, which has up to 128 lines."""
READ_PIECE: Final = 1 << 15
"""Bytes of a response that are parsed in one go."""
TURN_BYTES: Final = 1 << 17
"""Bytes that are parsed in one turn of the event loop, of all responses of a server together: a few milliseconds."""
_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)  # select() fails above 1,024 sockets


class FetchedResponse(NamedTuple):
    status: int
    body: bytes


class Turns:
    """Divides the event loop's time among the responses of a server.

    Beyond the bytes of one turn of the loop they wait in line, so that whatever else it serves is never far behind.
    """

    def __init__(self) -> None:
        self._left = TURN_BYTES
        self._line = asyncio.Lock()

    async def take(self, size: int) -> None:
        async with self._line:  # in the order of arrival
            if self._left <= 0:
                await asyncio.sleep(0)
                self._left = TURN_BYTES
            self._left -= size


class Transport:
    """Connections to one server, as many as there are parallel paths. Made and used inside a running event loop."""

    def __init__(
        self,
        address: URL,
        headers: Mapping[str, str],
        parallel: int,
        connect_seconds: float,
        proxy: URL | None = None,
        *,
        reuse: bool = True,
    ) -> None:
        self.turns = Turns()
        self.reached = False  # the server has responded to a request
        self._proxy: dict[str, Any] = {}
        # Not the session's own headers: aiohttp would send those to the proxy as well, the key included.
        self._headers = {"User-Agent": "sureenough", "Accept-Encoding": "identity", **headers}
        if proxy is not None:
            login = basic_auth(proxy)
            authorization = {} if login is None else {"Proxy-Authorization": login}
            self._proxy = {"proxy": without_secrets(proxy), "proxy_headers": authorization}
            if address.scheme == "http":  # without a tunnel, the proxy reads the headers of the request itself
                self._headers |= authorization
        self._session = aiohttp.ClientSession(
            connector=_Connector(
                limit=parallel + 1,  # one for other requests, such as for the server's counters
                ssl=_ssl_context() if address.scheme == "https" else True,
                force_close=not reuse,
                keepalive_timeout=IDLE_SECONDS if reuse else None,
            ),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=READ_BUFFER,
            max_line_size=LARGEST_HEADER,
            max_field_size=LARGEST_HEADER,
        )

    async def __aenter__(self) -> Transport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    @asynccontextmanager
    async def request(
        self, method: str, url: URL, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and give the response; read it with `response.content.readany()`.

        If the block is left before the end of the body, the connection is closed at once, so that the server stops.
        Errors of aiohttp become TransportErrors, inside the block as well.
        """
        options = {"headers": self._headers | (headers or {}), "allow_redirects": False, **self._proxy}
        data = None if body is None else BytesIO(body)  # which is sent in pieces
        try:
            response = await self._session.request(method, url, data=data, **options)
        except (aiohttp.ClientError, HttpProcessingError) as error:
            raise transport_error(error) from None
        except (OSError, ValueError):  # such as a host name that cannot be encoded
            raise ConnectError("the address does not exist") from None
        self.reached = True
        try:
            encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
            if encoding != "identity":
                raise TransportError(f"the response is compressed ({encoding[:20]!r}), which the request did not allow")
            yield response
        except (aiohttp.ClientError, HttpProcessingError) as error:
            raise transport_error(error) from None
        finally:  # unless the body was read to its end; nothing is flushed and nothing is waited for
            if response.connection is not None and response.connection.transport is not None:
                response.connection.transport.abort()
            response.close()

    async def fetch(self, method: str, url: URL, body: bytes | None = None, *, seconds: float) -> FetchedResponse:
        try:
            async with asyncio.timeout(seconds), self.request(method, url, body) as response:
                content = await self.read_body(response, LARGEST_BODY + 1)
        except TimeoutError:
            raise TransportError(f"no response within {seconds:g} s") from None
        if len(content) > LARGEST_BODY:
            raise TransportError(f"the response has more than {LARGEST_BODY:,} bytes, which is the limit")
        return FetchedResponse(response.status, content)

    @staticmethod
    async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
        pieces, size = [], 0
        while size < limit and (piece := await response.content.readany()):
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)[:limit]

    @staticmethod
    async def finish(response: aiohttp.ClientResponse, seconds: float = 0.05) -> None:
        """Wait a moment for the end of a body, without which the connection cannot be used again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await response.content.readany()


class _Connector(aiohttp.TCPConnector):
    """Never reuses a connection on which anything arrived after the last response.

    aiohttp would take such bytes for the response to the next request, and every later response would be another
    request's.
    """

    async def _get(self, *arguments: Any) -> Any:
        while (connection := await super()._get(*arguments)) is not None and _has_data(connection):
            connection.close()
        return connection


def _has_data(connection: Any) -> bool:
    """Whether bytes or the end of the stream wait in the connection's buffers or in the system's."""
    socket = connection.transport.get_extra_info("socket")
    if connection.protocol.should_close or socket is None:
        return True
    with _Selector() as selector:
        selector.register(socket.fileno(), selectors.EVENT_READ)
        return bool(selector.select(0))


def _ssl_context() -> ssl.SSLContext:
    """Trust the system's authorities, or those in SSL_CERT_FILE; without any, those of certifi."""
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"] and not os.environ.get("SSL_CERT_FILE"):
        import certifi

        context.load_verify_locations(certifi.where())
    return context


# Errors of aiohttp as errors of the transport, in words of our own: those of aiohttp may quote the URL.


def transport_error(error: Exception) -> TransportError:
    """Also frees what the frames of the error hold."""
    _forget_frames(error)
    match error:
        case aiohttp.ConnectionTimeoutError():
            return ConnectError("no connection in time")
        case aiohttp.ClientConnectorCertificateError():
            return ConnectError(str(error.certificate_error))
        case aiohttp.ClientConnectorError():
            return ConnectError(_reason(error.os_error))
        case aiohttp.ClientHttpProxyError():
            return ConnectError(f"the proxy answered {error.status}")
        case aiohttp.ClientResponseError() | HttpProcessingError():
            return TransportError(f"the response is not valid HTTP: {' '.join(str(error.message).split())[:120]}")
        case aiohttp.ServerDisconnectedError():
            return TransportError("the server closed the connection without a response")
        case aiohttp.ClientPayloadError():
            return TransportError("the connection ended before the response did")
        case aiohttp.InvalidURL():
            return ConnectError("the address does not exist")
        case OSError():
            return TransportError(_reason(error))
    return TransportError(type(error).__name__)


def _forget_frames(error: BaseException | None) -> None:
    """Free what the frames of an error hold, such as all that was received: aiohttp keeps the error."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _reason(error: OSError) -> str:
    """The system's words. A name with several addresses fails several times, mostly for one reason."""
    if isinstance(error, ssl.SSLError):
        return str(error)
    codes = dict.fromkeys(re.findall(r"\[Errno (\d+)\]", str(error)))
    if codes:
        return ", ".join(os.strerror(int(code)) for code in codes)
    known = error.errno is not None and 0 < error.errno < 1 << 16
    return os.strerror(error.errno) if known and error.errno is not None else error.strerror or type(error).__name__
