"""Errors as HTTP responses: a status, and an error object in OpenAI's shape."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, structs

from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs, SureEnoughError

TYPES: Final = {403: "permission_error", 429: "rate_limit_error"}
"""OpenAI's `type` of an error, for statuses other than the usual ones."""


class ErrorDetail(Struct):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(Struct):
    """The body of every response that is an error."""

    error: ErrorDetail


class ApiError(Exception):
    """Raised by a handler to send an error as the response."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.headers = headers or {}

    def body(self) -> ErrorBody:
        kind = TYPES.get(self.status, "api_error" if self.status >= 500 else "invalid_request_error")
        return ErrorBody(ErrorDetail(self.message, kind, self.param, self.code))

    def to_json(self) -> dict[str, Any]:
        """The error as a page's run stores it."""
        return structs.asdict(self.body().error)


def bad_request(message: str, param: str | None = None, code: str | None = "invalid_value") -> ApiError:
    return ApiError(400, message, code=code, param=param)


def upstream_key_rejected() -> ApiError:
    """The operator has to fix the key. The upstream's message may quote it, and is not repeated."""
    return ApiError(502, "The upstream does not accept this server's key.", code="upstream_rejected")


def unknown_model(model: str, detail: str = "") -> ApiError:
    """A 404 response in OpenAI's wording."""
    return ApiError(404, f"The model '{model}' does not exist{detail}.", code="model_not_found", param="model")


def upstream_unavailable(message: str) -> ApiError:
    """A 503 response that asks the client to try again."""
    return ApiError(503, message, code="upstream_unavailable", headers={"Retry-After": "2"})


def shutting_down() -> ApiError:
    """A 503 response for requests that arrive, or are still open, when the server ends."""
    return ApiError(503, "The server is shutting down.", code="stopping", headers={"Retry-After": "5"})


def api_error(error: BaseException, model: str) -> ApiError:
    """The response for an error. One that is not ours is a bug, and its message stays in the log."""
    match error:
        case ApiError():
            return error
        case MissingLogprobs():
            # Not a 5xx, which clients retry by themselves: it would fail in the same way.
            return bad_request(str(error), "model", "missing_logprobs")
        case EngineRejected(status=401 | 403):
            return upstream_key_rejected()
        case EngineRejected(status=404):
            return unknown_model(model, " on the upstream")
        case EngineRejected(status=400 | 413 | 422):
            return bad_request(str(error), code="upstream_rejected")
        case EngineUnavailable():
            return upstream_unavailable(str(error))
        case EngineError():
            return ApiError(502, str(error), code="upstream_error")
        case SureEnoughError():
            return bad_request(str(error))
    return ApiError(500, "The server failed; the log has the details.", code="internal_error")
