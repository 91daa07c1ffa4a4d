"""What a server is told at its start. A request can ask for less than the limits, never for more, or elsewhere."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Final

from sureenough.api import render_prompt
from sureenough.engines.openai.client import check_sampling
from sureenough.errors import UsageError
from sureenough.spec import parse

KEYS_VARIABLE: Final = "SUREENOUGH_SERVE_KEYS"
SHORTEST_KEY: Final = 16
HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+))(?::\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Caps on what one request, and all of them together, may take."""

    paths: int = 512
    parallel: int = 64
    tokens: int = 2_000_000  # of all paths of a request
    path_tokens: int = 32_768
    seconds: float = 600.0
    body: int = 1 << 20  # bytes
    requests: int = 64  # at once
    send: float = 30.0  # seconds that a client may leave what it is sent unread

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not 0 < getattr(self, name) < inf:
                raise UsageError(f"{name} is {getattr(self, name)}; a limit is more than 0, and finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where to listen, whom to ask, and how much to allow."""

    upstream: str | None = None  # up to and with /v1; None: a model on this machine
    models: tuple[str, ...] = ()  # the only ones that may be asked for; those of the upstream by default
    strategy: str = "ddc"  # where a request wants one and names none
    paths: int = 64
    parallel: int = 16
    temperature: float = 0.6
    top_p: float = 0.95
    window: int | None = None
    template: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    hosts: tuple[str, ...] = ()  # further names under which the server may be called
    keys: tuple[str, ...] = field(default=(), repr=False)
    insecure: bool = False
    limits: ServerLimits = field(default_factory=ServerLimits)
    keep_runs: Path | None = None
    showing: bool = False  # only show the runs that were kept: nobody is asked
    grace: float = 20.0  # seconds that running requests get when the server is told to stop
    log_requests: bool = False  # whether questions go to the log
    retries: int = 2
    first_token: float = 300.0
    stall: float = 60.0
    upstream_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parse(self.strategy)
        check_sampling(self.temperature, self.top_p)
        if self.template is not None:
            render_prompt("?", self.template)
        if not 0 <= self.grace < inf:
            raise UsageError(f"grace is {self.grace} seconds; it must be at least 0, and finite")
        if self.keys and min(map(len, self.keys)) < SHORTEST_KEY:
            raise UsageError(f"a key is too short; keys have at least {SHORTEST_KEY} characters")
        if not all(key.isascii() and key.isprintable() for key in self.keys):
            raise UsageError("a key has characters that no header can carry; use letters, digits and signs")
        if not self.keys and not self.insecure and not loopback(self.host):
            raise UsageError(
                f"{self.host} can be reached from other machines, and no key guards this server: set {KEYS_VARIABLE}, "
                "give --key-file, or insist with --insecure"
            )


def loopback(host: str) -> bool:
    """Whether only this machine can reach what listens here."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def known_host(header: str, settings: ServerSettings) -> bool:
    """Whether a Host header is one of ours. Addresses are: a page of another site can only ever bring its own name."""
    parts = HOST.fullmatch(header.strip().lower())
    if parts is None:
        return False
    name = parts[1] or parts[2]
    if "*" in settings.hosts or name in {"localhost", settings.host.lower(), socket.gethostname().lower()}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in {host.lower() for host in settings.hosts}
    return True


def read_keys(file: Path | None) -> tuple[str, ...]:
    """The keys of a file, one a line, and of the environment, with commas between them."""
    found: list[str] = os.environ.get(KEYS_VARIABLE, "").split(",")
    if file is not None:
        try:
            found += file.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return _stripped(found)


def _stripped(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(word.strip() for word in words if word.strip() and not word.strip().startswith("#"))
