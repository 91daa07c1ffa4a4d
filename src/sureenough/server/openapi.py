"""The OpenAPI document: what can be asked, and every status that can come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sureenough.server.sampling_fields import PASSED, UNSUPPORTED_FIELDS
from sureenough.version import __version__

ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
COUNT: Final = {"type": ["integer", "null"], "minimum": 1, "maximum": 1_000_000_000}
OPTIONS: Final[dict[str, Any]] = {
    "type": ["object", "null"],
    "additionalProperties": False,
    "properties": {
        "strategy": {"type": ["string", "null"], "examples": ["ddc:tau=0.99", "sure"]},
        "paths": COUNT,
        "parallel": COUNT,
        "window": COUNT,
        "seed": {"type": ["integer", "null"], "minimum": 0},
        "max_tokens": COUNT,
        "deadline": {"type": ["number", "null"], "minimum": 0},
        "count": {"enum": ["start", "finish"]},
        "planned": {"type": "boolean"},
        "kind": {"enum": ["math", "choice"]},
        "template": {"type": ["string", "null"]},
        "progress": {"enum": ["comments", "reasoning", "none"]},
    },
}
COMMON: Final[dict[str, Any]] = {
    "model": {"type": "string", "minLength": 1, "examples": ["Qwen3-4B@ddc"]},
    "stream": {"type": ["boolean", "null"]},
    "stream_options": {"type": ["object", "null"], "properties": {"include_usage": {"type": ["boolean", "null"]}}},
    "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2},
    "top_p": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
    "max_tokens": COUNT,
    "max_completion_tokens": COUNT,
    "seed": {"type": ["integer", "null"], "minimum": 0},
    "sureenough": OPTIONS,
    **{name: {} for name in sorted(PASSED | UNSUPPORTED_FIELDS.keys())},
}
MESSAGES: Final = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["role"],
        "properties": {"role": {"type": "string"}, "content": {"type": ["string", "array", "null"]}},
    },
}
RUN: Final = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}


def document(names: Sequence[str] = ()) -> dict[str, Any]:
    """All of it, with the names of the models where they are known."""
    model = {"model": {"anyOf": [{"enum": list(names)}, COMMON["model"]]}} if names else {}
    chat = _body({"messages": MESSAGES, **model}, ["model", "messages"])
    plain = _body({"prompt": {"type": ["string", "array"]}, **model}, ["model", "prompt"])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sureenough",
            "version": __version__,
            "description": "A strategy rides in the model's name (NAME@ddc:tau=0.99) or in the sureenough object; "
            "a plain name passes the request through.",
        },
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}, "schemas": {"Error": ERROR}},
        "security": [{"key": []}, {}],
        "paths": {
            "/v1/chat/completions": {"post": _operation("Chat, by vote or passed through.", 200, body=chat)},
            "/v1/completions": {"post": _operation("A plain completion, by vote or passed through.", 200, body=plain)},
            "/v1/models": {"get": _operation("Every model, plain and with every strategy.", 200)},
            "/healthz": {"get": _operation("Whether requests can be answered now.", 200)},
            "/metrics": {"get": _operation("Counters for Prometheus.", 200, kind="text/plain")},
            "/openapi.json": {"get": _operation("This document.", 200)},
            "/api/runs": {
                "get": _operation("The runs that were kept.", 200),
                "post": _operation("Start a run to be watched.", 201, body=chat),
            },
            "/api/runs/{id}": {"delete": _operation("End a run with the vote so far.", 204, parameters=[RUN])},
            "/api/runs/{id}/events": {
                "get": _operation("A run's news as they come.", 200, kind="text/event-stream", parameters=[RUN])
            },
            "/api/runs/{id}/paths/{number}": {
                "get": _operation("One path's words.", 200, parameters=[
                    RUN, {"name": "number", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 0}}
                ])
            },
        },
    }  # fmt: skip


def _body(more: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": {**COMMON, **more}}


def _operation(
    says: str,
    status: int,
    *,
    kind: str = "application/json",
    body: dict[str, Any] | None = None,
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    wrong = {"description": "An error.", "content": {"application/json": {"schema": ERROR}}}
    kinds: dict[str, Any] = {kind: {}} | ({"text/event-stream": {}} if body else {})
    well: dict[str, Any] = {"description": says} | ({} if status == 204 else {"content": kinds})
    found: dict[str, Any] = {"summary": says, "responses": {str(status): well, "4XX": wrong, "5XX": wrong}}
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return found | ({"parameters": parameters} if parameters else {})
