"""Whom the server asks: an OpenAI-compatible server, or a model on this machine served in this process.

Connections are opened once and shared by all requests; a request chooses the model and the sampling, nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sureenough.api import TEMPLATE
from sureenough.engines.local.engine import Local
from sureenough.engines.openai.client import OpenAI, OpenAIConnection, Timeouts
from sureenough.engines.openai.errors import TransportError
from sureenough.errors import EngineRejected, EngineUnavailable
from sureenough.server.errors import ApiError, unknown_model
from sureenough.server.settings import ServerSettings

if TYPE_CHECKING:
    from yarl import URL

    from sureenough.engines.openai.transport import Transport

FRESH: Final = 30.0
"""Seconds for which a list of models is believed."""
SLOTS: Final = 32
"""Paths at once of a model on this machine, over all requests; more of them wait for their turn."""


class Upstream:
    """The server that is asked, with its connections open."""

    def __init__(self, connected: OpenAIConnection, settings: ServerSettings, template: str, local: bool) -> None:
        self.connected, self.settings, self.template, self.local = connected, settings, template, local
        self._models: list[str] = []
        self._asked = -FRESH
        self._asking = asyncio.Lock()

    @property
    def transport(self) -> Transport:
        """The connections, which send the key."""
        return self.connected.transport

    def engine(self, model: str, sampling: dict[str, Any]) -> OpenAIConnection:
        """The engine for one request."""
        base = self.connected.engine
        return self.connected.with_engine(
            replace(base, model=model, **sampling | {"extra": {**base.extra, **sampling["extra"]}})
        )

    @property
    def offered(self) -> tuple[str, ...]:
        """The models that may be asked for, where that is known without asking the upstream."""
        return self.settings.models or ((self.connected.engine.model,) if self.local else ())

    def place(self, verb: str) -> URL:
        """The URL of an endpoint such as `chat/completions`."""
        return self.connected.endpoint(verb)

    def clean(self, text: str) -> str:
        """What an upstream says, without its key and its address."""
        return self.connected.errors.clean(text).replace(self.connected.errors.shown, "the upstream")

    async def models(self) -> list[str]:
        """What may be asked for: what the settings name, else what the upstream lists."""
        if self.offered:
            return list(self.offered)
        async with self._asking:
            if time.monotonic() - self._asked > FRESH:
                self._models, self._asked = await self._list(), time.monotonic()
        return self._models

    async def _list(self) -> list[str]:
        try:
            response = await self.transport.fetch("GET", self.place("models"), seconds=10)
        except TransportError as error:
            raise self.connected.errors.unreachable(error) from None
        if response.status != 200:
            raise EngineUnavailable(f"the upstream answered {response.status} to a request for its models")
        try:
            models = msgspec.json.decode(response.body)["data"]
            return [str(model["id"]) for model in models]
        except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
            raise EngineRejected("the upstream's list of models cannot be read") from None

    def admit(self, model: str) -> None:
        """Refuse models that are not offered, where that is known without asking."""
        if self.offered and model not in self.offered:
            raise unknown_model(model, f"; this server offers {', '.join(self.offered)}")

    async def ready(self) -> bool:
        """Whether it answers."""
        try:
            response = await self.transport.fetch("GET", self.place("models"), seconds=2)
        except TransportError:
            return False
        return response.status < 500


@asynccontextmanager
async def open_upstream(settings: ServerSettings) -> AsyncIterator[Upstream]:
    """The upstream of these settings, for as long as the server runs."""
    # The most paths that all requests may ask for, a connection for each one that is passed on, and some for questions.
    at_once = settings.limits.requests * (max(settings.parallel, settings.limits.parallel) + 1) + 8
    times = Timeouts(first_token=settings.first_token, stall=settings.stall)
    if settings.upstream is not None:
        engine = OpenAI(
            settings.upstream, settings.models[0] if settings.models else "any", window=settings.window,
            timeouts=times, retries=settings.retries, key=settings.upstream_key,
        )  # fmt: skip
        async with engine.open(parallel=at_once) as connected:
            yield Upstream(connected, settings, settings.template or TEMPLATE, local=False)
        return
    model = Local(settings.models[0] if settings.models else None, slots=SLOTS, window=settings.window, timeouts=times)
    async with model.open(parallel=SLOTS) as ready:
        connected = ready.connection.with_engine(
            replace(ready.connection.engine, metrics=False, retries=settings.retries)
        )
        yield Upstream(connected, settings, settings.template or model.template or TEMPLATE, local=True)


def not_here(error: TransportError) -> ApiError:
    """The upstream cannot be reached."""
    return ApiError(
        503,
        f"The upstream cannot be reached ({type(error).__name__}).",
        code="upstream_unavailable",
        headers={"Retry-After": "2"},
    )
