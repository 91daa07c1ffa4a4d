"""The application: its routes, its life from the first connection upstream to the last, and its door."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.routing import Route, Router
from starlette.types import ASGIApp

from sureenough.server.middleware import RequestMiddleware
from sureenough.server.page_routes import PageRoutes
from sureenough.server.routes import ApiRoutes
from sureenough.server.runs import RunRegistry
from sureenough.server.settings import ServerSettings
from sureenough.server.state import ServerState


def create(settings: ServerSettings) -> tuple[ASGIApp, ServerState]:
    """The application, and what its requests share; whoever serves it opens that first, by lifespan or by hand."""
    house = ServerState(settings)
    desk = ApiRoutes(house, RunRegistry(house))
    stage = PageRoutes(desk)

    @asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        async with house.opened():
            yield

    routes = [
        Route("/v1/chat/completions", desk.chat, methods=["POST"]),
        Route("/v1/completions", desk.completions, methods=["POST"]),
        Route("/v1/models", desk.models),
        Route("/v1/models/{name:path}", desk.model),
        Route("/healthz", desk.health),
        Route("/metrics", desk.metrics),
        Route("/openapi.json", desk.openapi),
        Route("/api/runs", stage.begin, methods=["POST"]),
        Route("/api/runs", stage.list_runs, methods=["GET"]),
        Route("/api/runs/{id}", stage.stop, methods=["DELETE"]),
        Route("/api/runs/{id}/events", stage.events),
        Route("/api/runs/{id}/paths/{number}", stage.path),
        Route("/", stage.page),
        Route("/runs", stage.page),
        Route("/runs/{id}", stage.page),
        Route("/reports/{name:path}", stage.report),
        Route("/page/{file}", stage.file),
    ]
    # A bare router: what goes wrong is answered at the door, and nowhere else.
    return RequestMiddleware(Router(routes=routes, lifespan=lifespan), house), house
