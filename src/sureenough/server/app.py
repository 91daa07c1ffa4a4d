"""The ASGI application: the table of its endpoints, its lifespan, and its middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from sureenough.pools import Learner
from sureenough.server.middleware import RequestMiddleware
from sureenough.server.model_names import names_with_strategies
from sureenough.server.openapi import JSON, Endpoint, document
from sureenough.server.page_routes import PageRoutes
from sureenough.server.responses import json_response
from sureenough.server.routes import ApiRoutes
from sureenough.server.runs import RunRegistry
from sureenough.server.settings import ServerSettings
from sureenough.server.state import ServerState

EVENTS = "text/event-stream"


def endpoint_table(api: ApiRoutes, page: PageRoutes) -> list[Endpoint]:
    """Every endpoint: the one list of routes."""

    async def openapi(request: Request) -> Response:
        offered = () if api.state.settings.view_only else api.state.upstream.offered
        return json_response(document(table, names_with_strategies(list(offered))))

    chat, completion = api.reader.types.chat, api.reader.types.completion
    table = [
        Endpoint("POST", "/v1/chat/completions", api.chat, "Chat, by vote or passed through.",
                 media_types=(JSON, EVENTS), body=chat),
        Endpoint("POST", "/v1/completions", api.completions, "Completion of a text, by vote or passed through.",
                 media_types=(JSON, EVENTS), body=completion),
        Endpoint("GET", "/v1/models", api.models, "Every model, plain and with each strategy."),
        Endpoint("GET", "/v1/models/{name:path}", api.model, "One model by its name."),
        Endpoint("GET", "/healthz", api.health, "Whether requests can be served now."),
        Endpoint("GET", "/metrics", api.metrics, "Metrics for Prometheus.", media_types=("text/plain",)),
        Endpoint("GET", "/openapi.json", openapi, "This document."),
        Endpoint("GET", "/api/options", page.options, "Models, strategies and run options of this server."),
        Endpoint("GET", "/api/learned", page.learned, "What was learned of each model's confidence."),
        Endpoint("POST", "/api/runs", page.start_run, "Start a run that a page watches.", 201, body=chat),
        Endpoint("GET", "/api/runs", page.list_runs, "The runs that were kept."),
        Endpoint("DELETE", "/api/runs/{id}", page.stop_run, "End a run with the vote so far.", 204, ()),
        Endpoint("GET", "/api/runs/{id}/events", page.events, "The changes of a run as they happen.",
                 media_types=(EVENTS,)),
        Endpoint("GET", "/api/runs/{id}/paths/{number}", page.path_text, "The text of one path."),
        Endpoint("GET", "/api/runs/{id}/agrees-with/{other}", page.agreement, "Whether two runs have the same answer."),
        Endpoint("GET", "/", page.page),
        Endpoint("GET", "/runs", page.page),
        Endpoint("GET", "/runs/{id}", page.page),
        Endpoint("GET", "/compare/{id}/{other}", page.page),
        Endpoint("GET", "/reports/{name:path}", page.report),
        Endpoint("GET", "/page/{file}", page.file),
    ]  # fmt: skip
    return table


def create(settings: ServerSettings, learner: Learner | None = None) -> tuple[ASGIApp, ServerState]:
    """The application, and the state of its requests, which its lifespan opens, or `state.opened()` without one."""
    state = ServerState(settings, learner)
    api = ApiRoutes(state, RunRegistry(state))

    @asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        async with state.opened():
            yield

    routes = [Route(row.path, row.handler, methods=[row.method]) for row in endpoint_table(api, PageRoutes(api))]
    # A bare router: every error becomes a response in the middleware.
    return RequestMiddleware(Router(routes=routes, lifespan=lifespan), state, routes), state
