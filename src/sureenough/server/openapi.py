"""The OpenAPI document, derived from the table of endpoints and from the types of requests."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.types import ASGIApp

from sureenough import __version__
from sureenough.server.errors import ErrorBody

REF: Final = "#/components/schemas/{name}"
JSON: Final = "application/json"


class Endpoint(NamedTuple):
    """A row of the table of endpoints, from which the routes, the OpenAPI document and the metrics' labels derive."""

    method: str
    path: str
    handler: Callable[[Request], Awaitable[ASGIApp]]
    summary: str = ""  # empty: a part of the page, which the document leaves out
    status: int = 200
    media_types: tuple[str, ...] = (JSON,)
    body: type[Struct] | None = None


def document(endpoints: Sequence[Endpoint], models: Sequence[str] = ()) -> dict[str, Any]:
    """The document, with the names of the models if they are known."""
    documented = [endpoint for endpoint in endpoints if endpoint.summary]
    bodies = list(dict.fromkeys(endpoint.body for endpoint in documented if endpoint.body is not None))
    _, schemas = msgspec.json.schema_components([ErrorBody, *bodies], ref_template=REF)
    for body in bodies if models else ():
        model = schemas[body.__name__]["properties"]["model"]
        schemas[body.__name__]["properties"]["model"] = {"anyOf": [{"enum": list(models)}, model]}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in documented:
        path = re.sub(r":\w+}", "}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, path)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sureenough",
            "version": __version__,
            "description": "A strategy is part of the model's name (NAME@ddc:tau=0.99) or of the sureenough object; "
            "requests with a plain name are passed through.",
        },
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}, "schemas": schemas},
        "security": [{"key": []}, {}],
        "paths": paths,
    }


def _operation(endpoint: Endpoint, path: str) -> dict[str, Any]:
    error = {"description": "An error.", "content": {JSON: {"schema": _reference(ErrorBody)}}}
    success: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.media_types:
        success["content"] = {media_type: {} for media_type in endpoint.media_types}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "responses": {str(endpoint.status): success, "4XX": error, "5XX": error},
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", path)
        ],
    }
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": _reference(endpoint.body)}}}
    return operation


def _reference(type: type[Struct]) -> dict[str, str]:
    return {"$ref": REF.format(name=type.__name__)}
