"""Every way in which sureenough says no.

SureEnoughError
├── UsageError        the caller asked for something that cannot be (also a ValueError)
├── EngineError       an engine could not grow a path; knows the path, its seed and the request id
│   ├── EngineUnavailable   nobody answered; retried before the path's first token
│   ├── EngineRejected      the server refused the request (4xx): ends the run
│   └── MissingLogprobs     the server sent no log-probabilities; names the flag to set
├── TraceError        recorded paths that cannot be read or written
└── ProtocolError     a driver broke the session's protocol: a bug of ours
"""

from __future__ import annotations


class SureEnoughError(Exception):
    """The root of all errors that sureenough raises on purpose."""


class UsageError(SureEnoughError, ValueError):
    """The caller asked for something that cannot be; the message says what to do instead."""


class EngineError(SureEnoughError):
    """An engine could not grow a path."""

    def __init__(
        self,
        message: str,
        *,
        path: int | None = None,
        seed: int | None = None,
        request_id: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.path, self.seed, self.request_id = path, seed, request_id
        self.status = status  # HTTP's, where the server gave one


class EngineUnavailable(EngineError):
    """Nobody answered at the engine's address."""


class EngineRejected(EngineError):
    """The server refused the request; asking again would not help."""


class MissingLogprobs(EngineError):
    """The server sent no log-probabilities where the strategy reads them."""


class TraceError(SureEnoughError):
    """Recorded paths that cannot be read or written; the message names file, row and cure."""


class ProtocolError(SureEnoughError):
    """A driver told the session something impossible: a bug in the driver."""
