"""Errors of aiohttp as errors of the transport, in words of our own: those of aiohttp may quote the URL."""

from __future__ import annotations

import os
import re
import ssl

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from sureenough.engines.openai.errors import ConnectError, TransportError


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
