"""Any OpenAI-compatible server as an engine: its address, its model, and how paths are sampled and waited for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from math import inf
from typing import Any

from sureenough.engines.base import ClosedEngine
from sureenough.engines.openai.address import api_key, basic_auth, parse_url, proxy_for, without_secrets
from sureenough.engines.openai.connection import OpenAIConnection
from sureenough.engines.openai.errors import ServerErrors
from sureenough.engines.openai.server_counters import settled_counters
from sureenough.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds to wait for a connection, for a path's first token, and between its tokens."""

    connect: float = 10.0
    first_token: float = 300.0
    stall: float = 60.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} is {getattr(self, name)} seconds; it must be above 0")


def check_sampling(temperature: float, top_p: float) -> None:
    """Refuse values with which no server can sample."""
    if not 0 <= temperature < inf:
        raise UsageError(f"temperature is {temperature}; it must be a finite number of at least 0")
    if not 0 < top_p <= 1:
        raise UsageError(f"top_p is {top_p}; it must be above 0 and at most 1")


@dataclass(frozen=True, slots=True, repr=False)
class OpenAI(ClosedEngine):
    """A model behind an OpenAI-compatible server: vLLM, SGLang, llama.cpp, LM Studio, hosted APIs."""

    url: str  # up to and including /v1
    model: str
    _: KW_ONLY
    temperature: float = 0.6
    top_p: float = 0.95
    max_path_tokens: int | None = None
    chat: bool = True  # False: plain completions
    k: int = 20  # candidates per token
    window: int | None = None  # tokens per window that suit this model
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: int = 4  # before a path's first token; twice as many if the server is busy
    extra: Mapping[str, Any] = field(default_factory=dict)  # further fields of the request
    inside: bool = True  # let the server watch its own paths if it can
    metrics: bool = False  # read the server's counters, for tokens after cancels; for servers that no one else uses
    proxies: bool = True  # use the environment's proxies
    reuse: bool = True  # use a connection for one path after another
    key: str | None = None  # instead of the environment's

    def __post_init__(self) -> None:
        address = parse_url(self.url)
        if not address.host or address.scheme not in ("http", "https"):
            shown = without_secrets(address)
            raise UsageError(f"{shown} is not a URL of a server; it looks like http://localhost:8000/v1")
        if address.port == 0:
            raise UsageError(f"{without_secrets(address)} has port 0; ports go from 1 to 65535")
        if not self.model:
            raise UsageError("model is empty; give the name under which the server offers it")
        check_sampling(self.temperature, self.top_p)
        for name, value, least in (("k", self.k, 1), ("retries", self.retries, 0)):
            if not least <= value < inf:
                raise UsageError(f"{name} is {value}; it must be at least {least}")
        if self.max_path_tokens is not None and self.max_path_tokens < 1:
            raise UsageError(f"max_path_tokens is {self.max_path_tokens}; it must be at least 1")

    @property
    def shown(self) -> str:
        """The address without secrets."""
        return str(without_secrets(parse_url(self.url)))

    def __repr__(self) -> str:
        return f"OpenAI({self.shown!r}, {self.model!r})"

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[OpenAIConnection]:
        """Open up to this many connections."""
        from sureenough.engines.openai.transport import Transport  # aiohttp takes a fifth of a second to import

        key, address = api_key(self.key), parse_url(self.url)
        proxy = proxy_for(address) if self.proxies else None
        headers = {"Accept": "text/event-stream", "Content-Type": "application/json"}
        authorization = basic_auth(address) if key is None else f"Bearer {key}"
        if authorization is not None:
            headers["Authorization"] = authorization
        # The user and password leave the URL here, so that they cannot reach a log.
        bare = address.with_user(None)
        errors = ServerErrors(address, self.model, key, proxy)
        async with Transport(
            bare, parallel=parallel, connect_seconds=self.timeouts.connect, write_seconds=self.timeouts.stall,
            headers=headers, proxy=proxy, reuse=self.reuse,
        ) as transport:  # fmt: skip
            connection = OpenAIConnection(self, transport, bare, errors)
            if self.metrics:
                connection.counters_at_open = await settled_counters(transport, bare)
            yield connection

    def model_name(self) -> str:
        return self.model

    def sampling(self) -> dict[str, Any]:
        """The sampling parameters of the request."""
        limit = {} if self.max_path_tokens is None else {"max_tokens": self.max_path_tokens}
        return {"temperature": self.temperature, "top_p": self.top_p, **limit, **self.extra}
