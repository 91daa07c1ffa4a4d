"""A server's settings, fixed at its start. A request may use less than the limits allow, never more."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import inf
from pathlib import Path
from typing import Any, Final

from sureenough.answers import resolve_kind
from sureenough.core.options import LIVE_DEFAULTS, RunOptions
from sureenough.engines.base import Engine
from sureenough.engines.openai.client import check_sampling
from sureenough.engines.openai.errors import given_twice
from sureenough.errors import UsageError
from sureenough.plugins import hint
from sureenough.spec import parse
from sureenough.strategies import DEFAULT_STRATEGY
from sureenough.templates import render_prompt

LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
KINDS_OF_LIMITS: Final = {bool: "true or false", int: "a whole number", float: "a number"}
KEYS_VARIABLE: Final = "SUREENOUGH_SERVE_KEYS"
SHORTEST_KEY: Final = 16
HOST_NAME: Final = re.compile(r"\*|(\*\.)?[^*]+")


def _limit(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Caps on one request, on all requests together, and on their clients: [serve.limits] of sureenough.toml."""

    paths: int = _limit(512, "paths of a request")
    parallel: int = _limit(64, "paths of a request at once")
    tokens: int = _limit(2_000_000, "tokens of all paths of a request")
    path_tokens: int = _limit(32_768, "tokens of one path")
    seconds: float = _limit(600.0, "seconds of a request")
    body: int = _limit(1 << 20, "bytes of a request's body")
    requests: int = _limit(64, "requests at once, from the first byte of an upload; more get status 429")
    send: float = _limit(30.0, "seconds for which a client may stop reading its response")
    head: float = _limit(10.0, "seconds for the head of a connection's first request")
    idle: int = _limit(1024, "connections without a request; the oldest makes room")
    grace: float = _limit(20.0, "seconds for running requests when the server shuts down")
    plain: bool = _limit(True, "whether `paths` and `path-tokens` hold for requests with a plain model name, too")

    def __post_init__(self) -> None:
        for one in fields(self):
            value, kind = getattr(self, one.name), type(one.default)
            if type(value) is not kind and (kind, type(value)) != (float, int):
                raise UsageError(f"{one.name} is {value!r}; it must be {KINDS_OF_LIMITS[kind]}")
            if kind is not bool and not 0 < value < inf:
                raise UsageError(f"{one.name} is {value}; a limit must be above 0, and finite")

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> ServerLimits:
        """The limits of a table, whose names may have dashes."""
        values = {name.replace("-", "_"): value for name, value in table.items()}
        known = [one.name.replace("_", "-") for one in fields(cls)]
        unknown = next((name for name in table if name.replace("_", "-") not in known), None)
        if unknown is not None:
            raise UsageError(f"{unknown!r} is not a limit{hint(unknown, known)}; known: {', '.join(known)}")
        return cls(**values)

    def caps(self) -> dict[str, float]:
        """The largest value of each run option that a request may ask for."""
        return {"paths": self.paths, "parallel": self.parallel, "max_tokens": self.tokens, "deadline": self.seconds}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where to listen, which upstream to use, the defaults of a request, and its limits."""

    upstream: str | None = None  # URL that ends in /v1; None: a model on this machine
    more_upstreams: tuple[str, ...] = ()  # with the same models; all of them share the paths
    engine: Engine | None = None  # of another package, instead of an upstream; its name is the only one of `models`
    models: tuple[str, ...] = ()  # the only models that are offered; by default all of the upstream
    strategy: str = DEFAULT_STRATEGY  # if a request has options but no strategy
    kind: str = "math"  # of answer, if a request names none
    paths: int | None = LIVE_DEFAULTS.paths
    parallel: int = LIVE_DEFAULTS.parallel
    hurry: float | None = LIVE_DEFAULTS.hurry
    temperature: float = 0.6
    top_p: float = 0.95
    window: int | None = None
    template: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    hosts: tuple[str, ...] = ()  # further host names of this server, *.example.com for those of a domain, or *
    keys: tuple[str, ...] = field(default=(), repr=False)
    insecure: bool = False
    limits: ServerLimits = field(default_factory=ServerLimits)
    keep_runs: Path | None = None
    state: Path | None = None  # folder for what is learned; by default it is forgotten at the end
    view_only: bool = False  # show kept runs, without an upstream
    replica: str = ""  # its name, if it is one of several processes at one address, of which a page may reach any
    log_requests: bool = False  # whether questions are logged
    log_level: str = "INFO"
    retries: int = 2
    first_token: float = 300.0
    stall: float = 60.0
    upstream_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_sampling(self.temperature, self.top_p)
        if self.more_upstreams and given_twice([self.upstream or "", *self.more_upstreams]) is not None:
            raise UsageError("an upstream is given twice; name every server once")
        if self.template is not None:
            render_prompt("?", self.template)
        if self.log_level.upper() not in LOG_LEVELS:
            raise UsageError(
                f"log_level is {self.log_level!r}; it must be one of {', '.join(LOG_LEVELS)}", argument="log_level"
            )
        wrong = next((name for name in self.hosts if not HOST_NAME.fullmatch(name)), None)
        if wrong is not None:
            raise UsageError(f"{wrong!r} is not a host name; a wildcard stands alone or first, as in *.example.com")
        if self.keys and min(map(len, self.keys)) < SHORTEST_KEY:
            raise UsageError(f"a key is too short; keys have at least {SHORTEST_KEY} characters")
        if not all(key.isascii() and key.isprintable() for key in self.keys):
            raise UsageError("a key has characters that a header cannot hold; use ASCII letters, digits and signs")
        if not self.keys and not self.insecure and not loopback(self.host):
            raise UsageError(
                f"{self.host} can be reached from other machines, and this server has no keys: set {KEYS_VARIABLE}, "
                "give --key-file, or allow it with --insecure"
            )
        self._check_defaults()

    def _check_defaults(self) -> None:
        """Refuse settings under which every request without options of its own would fail."""
        resolve_kind(self.kind)
        options = self.run_options()
        options.check_budget(parse(self.strategy))
        for name, cap in self.limits.caps().items():
            value = getattr(options, name)
            if value is not None and value > cap:
                raise UsageError(
                    f"requests use {name}={value:g} by default, which is above this server's limit of {cap:g}: "
                    "lower the default or raise the limit",
                    argument=name,
                )

    @property
    def local(self) -> bool:
        return self.upstream is None and self.engine is None

    def run_options(self) -> RunOptions:
        return RunOptions(
            paths=self.paths, parallel=self.parallel, hurry=self.hurry, window=self.window,
            max_tokens=self.limits.tokens, deadline=self.limits.seconds,
        )  # fmt: skip


def loopback(host: str) -> bool:
    """Whether a server that listens here can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_keys(file: Path | None) -> tuple[str, ...]:
    """The keys from a file, one per line, and from the environment, separated by commas."""
    keys = _keys_of(os.environ.get(KEYS_VARIABLE, "").split(","))
    if file is None:
        return keys
    try:
        in_file = _keys_of(file.read_text("utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not in_file:  # a server that was meant to have keys must not start without any
        raise UsageError(f"{file} holds no key: write one per line, or leave --key-file out to serve without keys")
    return keys + in_file


def _keys_of(lines: Iterable[str]) -> tuple[str, ...]:
    stripped = map(str.strip, lines)
    return tuple(key for key in stripped if key and not key.startswith("#"))
