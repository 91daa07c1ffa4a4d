"""Handlers for the page: its files, the options of its form, the runs that it starts, and their events."""

from __future__ import annotations

import asyncio
import re
from importlib.resources import files
from typing import Any, Final, get_args, get_type_hints

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sureenough.core.options import RunOptions
from sureenough.server.errors import ApiError
from sureenough.server.learned import learned_signals
from sureenough.server.model_names import LISTED_STRATEGIES, split_model_name
from sureenough.server.request_reader import parse_body
from sureenough.server.responses import (
    SSE_HEADERS,
    body,
    finish_unless_disconnected,
    json_response,
    sse_comment,
    sse_event,
    start,
)
from sureenough.server.routes import ApiRoutes, read_body
from sureenough.server.run_view import ViewCursor
from sureenough.server.runs import RunRegistry, WatchedRun
from sureenough.server.settings import ServerSettings
from sureenough.spec import options as strategy_options
from sureenough.strategies import STRATEGIES

PAGE: Final = files("sureenough.server") / "page"
MEDIA_TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
REPORT_POLICY: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
)
INTERVAL: Final = 0.1
"""Seconds between events to a page."""
KEEP_ALIVE: Final = 100
"""Intervals without an event after which a comment is sent."""


class PageRoutes:
    """The handlers of one server."""

    def __init__(self, api: ApiRoutes) -> None:
        self.api, self.state, self.runs = api, api.state, api.runs

    async def page(self, request: Request) -> Response:
        """The page, which chooses by its address what to show."""
        return self._file("index.html")

    async def file(self, request: Request) -> Response:
        """A script, style sheet or image of the page."""
        return self._file(request.path_params["file"])

    def _file(self, name: str) -> Response:
        if not re.fullmatch(r"[A-Za-z][\w.-]*", name) or not (PAGE / name).is_file():
            raise ApiError(404, "This file does not exist.")
        media_type = MEDIA_TYPES.get(name.rpartition(".")[2], "text/plain")
        return Response((PAGE / name).read_bytes(), media_type=media_type, headers={"Cache-Control": "no-cache"})

    async def options(self, request: Request) -> Response:
        """Models, strategies and run options, with the defaults and limits of this server."""
        settings = self.state.settings
        models = [] if settings.view_only else await self.state.upstream.models()
        return json_response(
            {"view_only": settings.view_only, "models": models, "strategy": settings.strategy,
             "strategies": _strategies(), "options": _run_options(settings)}
        )  # fmt: skip

    async def learned(self, request: Request) -> Response:
        """How far each model's signals go with agreement, their weights, and the questions behind them."""
        return json_response({"learned": learned_signals(self.state.learner)})

    async def start_run(self, request: Request) -> Response:
        """Start a run that a page watches; the body is that of a chat completion with a strategy."""
        with self.state.slot() as slot:
            body = parse_body(await read_body(request, self.state.settings.limits.body))
            self.state.upstream.check_offered(split_model_name(body["model"]).model)
            consensus = self.api.read(body, chat=True)
            question = body["messages"][-1].get("content")
            run = self.runs.start_for_page(consensus, slot.pop_all(), "" if question is None else str(question))
        return json_response({"id": run.id}, 201)

    async def list_runs(self, request: Request) -> Response:
        """The runs that were kept, and bench reports."""
        kept = self.runs.kept
        heads, reports = await asyncio.to_thread(lambda: (kept.heads(), kept.reports()))
        return json_response({"runs": heads, "reports": reports, "keeping": kept.folder is not None})

    async def stop_run(self, request: Request) -> Response:
        """End a run with the vote so far."""
        run = await self.runs.find(request.path_params["id"])
        if isinstance(run, WatchedRun):
            run.stop()
        return Response(status_code=204)

    async def path_text(self, request: Request) -> Response:
        """The text of one path, token by token."""
        run, number = await self.runs.find(request.path_params["id"]), request.path_params["number"]
        number = int(number) if re.fullmatch(r"[0-9]{1,9}", number) else -1
        path = run.view.path(number) if isinstance(run, WatchedRun) else run.get("words", {}).get(str(number))
        if path is None:
            raise ApiError(404, "This path does not exist, or has no text yet.")
        return json_response(path)

    async def report(self, request: Request) -> Response:
        """A bench report: a page of its own, in a sandbox without access to this one."""
        file = self.runs.kept.report(request.path_params["name"])
        return Response(file.read_bytes(), media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})

    async def events(self, request: Request) -> ASGIApp:
        """Everything that has happened in a run so far, then each change."""
        return RunEventStream(self.runs, await self.runs.find(request.path_params["id"]))


def _strategies() -> list[dict[str, Any]]:
    return [
        {"name": name, "help": STRATEGIES[name].summary,
         "options": {key: option.read(STRATEGIES[name]) for key, option in strategy_options(STRATEGIES[name]).items()}}
        for name in LISTED_STRATEGIES
    ]  # fmt: skip


def _run_options(settings: ServerSettings) -> list[dict[str, Any]]:
    """The run options as fields of a form."""
    hints, defaults, caps = get_type_hints(RunOptions), settings.run_options(), settings.limits.caps()
    return [
        {"name": name, "help": option.metadata["help"], "default": getattr(defaults, name),
         "minimum": option.metadata["schema"].get("minimum"), "maximum": caps.get(name),
         "choices": option.metadata["schema"].get("enum"),
         "flag": hints[name] is bool, "fractional": float in (hints[name], *get_args(hints[name]))}
        for name, option in RunOptions.fields().items()
    ]  # fmt: skip


class RunEventStream:
    """An ASGI application: the changes of a run as server-sent events, for as long as the page is connected."""

    def __init__(self, runs: RunRegistry, run: WatchedRun | dict[str, Any]) -> None:
        self.runs, self.run = runs, run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a kept run at once, or the changes of a live one a few times per second."""
        await send(start(200, SSE_HEADERS))
        if isinstance(self.run, dict):
            kept = {name: value for name, value in self.run.items() if name not in ("words", "schema")}
            await send(body(sse_event(kept)))
            return
        with self.runs.watched(self.run):
            await finish_unless_disconnected(receive, self._send_changes(self.run, send))

    async def _send_changes(self, run: WatchedRun, send: Send) -> None:
        """Changes until the end is sent. Then the connection stays open: a run is kept while a page shows it."""
        cursor, first, finished, quiet = ViewCursor(), True, False, 0
        while not self.runs.state.shutting_down:
            ended = run.ended.is_set()
            changes = {} if finished else run.changes(cursor, first)
            first, finished, quiet = False, ended, quiet + 1
            if changes or quiet >= KEEP_ALIVE:
                await send(body(sse_event(changes) if changes else sse_comment("keep-alive"), more=True))
                quiet = 0
            await asyncio.sleep(INTERVAL)
        await send(body())
