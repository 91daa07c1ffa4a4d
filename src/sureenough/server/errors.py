"""What went wrong, as an HTTP status and an error object in OpenAI's shape."""

from __future__ import annotations

from typing import Any, Final

from sureenough.errors import (
    EngineError,
    EngineRejected,
    EngineUnavailable,
    MissingLogprobs,
    SureEnoughError,
    UsageError,
)

TYPES: Final = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    421: "invalid_request_error",
    429: "rate_limit_error",
}


class ApiError(Exception):
    """A reply that is an error."""

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

    def body(self) -> dict[str, Any]:
        """The error object."""
        kind = TYPES.get(self.status, "api_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def refused(message: str, param: str | None = None, code: str | None = "invalid_value") -> ApiError:
    """A request that cannot be served as it is."""
    return ApiError(400, message, code=code, param=param)


def key_refused() -> ApiError:
    """The operator's to mend; what the upstream said may hold a key, and is not repeated."""
    return ApiError(502, "The upstream does not accept this server's key.", code="upstream_rejected")


def unknown_model(model: str, known: str = "") -> ApiError:
    """A model that is not offered here."""
    return ApiError(404, f"The model '{model}' does not exist{known}.", code="model_not_found", param="model")


def api_error(error: BaseException, model: str) -> ApiError:
    """Our own errors as a client should see them; anything else is our fault and says nothing."""
    match error:
        case ApiError():
            return error
        case UsageError():
            return refused(str(error))
        case MissingLogprobs():
            # Not a 5xx, which clients try again by themselves: it would fail in the same way.
            return refused(str(error), "model", "missing_logprobs")
        case EngineRejected(status=401 | 403):
            return key_refused()
        case EngineRejected(status=404):
            return unknown_model(model, ", says the upstream")
        case EngineRejected(status=400 | 413 | 422):
            return refused(str(error), code="upstream_rejected")
        case EngineUnavailable():
            return ApiError(503, str(error), code="upstream_unavailable", headers={"Retry-After": "2"})
        case EngineError():
            return ApiError(502, str(error), code="upstream_error")
        case SureEnoughError():
            return refused(str(error))
    return ApiError(500, "The server failed; its log says how.", code="internal_error")
