"""Every error that sureenough raises on purpose."""

from __future__ import annotations

from typing import Self


class SureEnoughError(Exception):
    """The base class of all errors that sureenough raises on purpose."""


class UsageError(SureEnoughError, ValueError):
    """An argument that cannot be used; the message says what to do instead.

    `argument` is its name. The message begins with it, or has it as `window=64`; names such as `max_path_tokens`, which
    are no words of English, may stand anywhere in it.
    """

    def __init__(self, message: str, *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument

    def naming(self, option: str) -> str:
        """The message about an option that sets the argument: `--window 64` instead of `window=64`."""
        message, name = str(self), self.argument
        if name is None:
            return message
        message = message.replace(f"{name}=", f"{option} ")
        return message.replace(name, option, 1) if "_" in name or message.startswith(f"{name} ") else message


class EngineError(SureEnoughError):
    """An engine could not sample a path."""

    tokens: int = 0  # sampled so far by the run that it ended

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
        self.status = status  # of the HTTP response, if there was one

    def at_server(self, name: str) -> Self:
        """The error with the name of its server, which some messages hold already."""
        if name not in str(self):
            self.args = (f"{name}: {self}",)
        return self

    def located(self, path: int, seed: int) -> Self:
        """The error with its path, and without the frames that it passed through, which hold all that was received."""
        self.path, self.seed = path, seed
        self.__context__ = self.__cause__ = None
        return self.with_traceback(None)


class EngineUnavailable(EngineError):
    """No response from the engine's address; retried before the path's first token."""


class EngineRejected(EngineError):
    """The server refused the request (4xx): it ends the run, since sending it again would not help."""


class CannotExtend(EngineRejected):
    """The engine does not continue a given beginning, which searches need."""


class MissingLogprobs(EngineError):
    """The server sent no log-probabilities, but the strategy needs them; the message names the flag to set."""


class TraceError(SureEnoughError):
    """Recorded paths that cannot be read or written; the message names the file, the row and a fix."""


class ProtocolError(SureEnoughError):
    """A driver sent the session an impossible event: a bug in the driver."""
