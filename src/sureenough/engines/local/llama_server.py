"""llama.cpp's own server inside this process, through `xllamacpp`: started on first use, shared, stopped at exit.

Servers are kept by what they serve. One that has room enough is used again; an idle one that is too small, or that
takes memory another needs, is stopped. Starting and stopping hold Python's lock: nothing else in the process runs.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sureenough.engines.local.memory import available, shown
from sureenough.errors import EngineUnavailable, UsageError

SPINS: Final = "GOMP_SPINCOUNT"
INSTALL: Final = "the local engine needs the package xllamacpp: pip install 'sureenough[local]'"


@dataclass(frozen=True, slots=True)
class LlamaServerOptions:
    """What a server is to be like."""

    file: Path
    slots: int
    slot: int  # tokens of context a slot
    threads: int
    bytes: int  # that it will take, about
    port: int = 0


class LlamaServer:
    """A server, who uses it, and the key that only they know."""

    def __init__(self, plan: LlamaServerOptions) -> None:
        self.plan = plan
        self.users = 0
        self.key = secrets.token_urlsafe(24)
        self._server: Any = _server(plan, self.key)
        self.url = f"{self._server.listening_address}/v1"
        self.visits = 0  # runs that have begun, so that one can see whether it was alone

    def stop(self) -> None:
        """End it; streams that are still open end with it, a second later at most."""
        self._server = None


_lock: Final = threading.Lock()
_running: Final[list[LlamaServer]] = []


@contextlib.contextmanager
def served(plan: LlamaServerOptions) -> Iterator[LlamaServer]:
    """A server that fits the plan, for as long as the block lasts; it stays ready after it."""
    with _lock:
        one = _found(plan) or _started(plan)
        one.users += 1
        one.visits += 1
    try:
        yield one
    finally:
        with _lock:
            one.users -= 1


def _found(plan: LlamaServerOptions) -> LlamaServer | None:
    same = [one for one in _running if one.plan.file == plan.file and one.plan.threads == plan.threads]
    same = [one for one in same if plan.port in (0, one.plan.port)]
    return next((one for one in same if one.plan.slots >= plan.slots and one.plan.slot >= plan.slot), None)


def _started(plan: LlamaServerOptions) -> LlamaServer:
    free = available()
    _stop([one for one in _running if not one.users and (one.plan.file == plan.file or one.plan.port == plan.port > 0)])
    if free is not None and free < plan.bytes:
        _stop([one for one in _running if not one.users])
        free = available()
    if free is not None and free < plan.bytes:
        raise UsageError(
            f"memory is short: {plan.file.name} with {plan.slots} paths of {plan.slot:,} tokens takes about "
            f"{shown(plan.bytes)}, and {shown(free)} can be had; run fewer paths at once (--parallel), shorter ones "
            "(--max-path-tokens), or a smaller model"
        )
    one = LlamaServer(plan)
    _running.append(one)
    return one


def _stop(those: list[LlamaServer]) -> None:
    for one in those:
        _running.remove(one)
        one.stop()


@atexit.register
def stop_all() -> None:
    """Stop every server, used or not."""
    with _lock:
        _stop(list(_running))


def _server(plan: LlamaServerOptions, key: str) -> Any:
    """Start one; llama.cpp says nothing but True or False, so failures are looked into."""
    xllamacpp = _library()
    if plan.port and _taken(plan.port):
        raise UsageError(f"port {plan.port} is taken by another program; give another, or 0 for any free one")
    params = parameters(xllamacpp.CommonParams(), plan)
    params.api_keys = [key]
    try:
        return xllamacpp.Server(params)
    except RuntimeError:
        raise EngineUnavailable(f"llama.cpp cannot serve {plan.file}: {_reason(plan)}") from None


def _library() -> Any:
    """llama.cpp's threads wait for each other at every layer: short spins, else they starve on a busy machine.

    Seen on two cores with five busy processes: 1,800 tokens/s so, 110 with the default of waiting without end. The
    library reads the setting while it is loaded, and never again.
    """
    before = os.environ.get(SPINS)
    os.environ.setdefault(SPINS, "1000")
    try:
        import xllamacpp
    except ImportError:
        raise UsageError(INSTALL) from None
    finally:
        if before is None:
            del os.environ[SPINS]
    return xllamacpp


def parameters(params: Any, plan: LlamaServerOptions) -> Any:
    """llama.cpp's settings for a plan."""
    params.model.path, params.model_alias = str(plan.file), {plan.file.stem}  # replies name it; not where it lies
    params.n_parallel, params.n_ctx = plan.slots, plan.slots * plan.slot  # the slots share it evenly
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = plan.threads
    params.hostnames, params.port = ["127.0.0.1"], plan.port
    params.endpoint_metrics = params.endpoint_slots = True
    params.cors_origins, params.ui = "", False
    params.verbosity = 0  # it would write over the terminal
    params.cache_ram_mib = 0  # else up to 8 GB of old prompts are kept
    params.fit_params = False  # else it changes sizes by itself
    params.warmup = False
    params.sse_ping_interval = 1  # how often it looks whether to stop: 30 s would hang an exit
    return params


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        if os.name == "posix":  # connections that are only fading away hold no port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


_ASK_WHY: Final = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.verbosity = sys.argv[1], 256, 4
params.fit_params = params.warmup = False
xllamacpp.Server(params)
"""


def _reason(plan: LlamaServerOptions) -> str:
    """Why it will not start: asked again in a process whose log can be read without touching this one's."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK_WHY, str(plan.file)], capture_output=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "it does not say why"
    if done.returncode == 0:
        return f"it starts with less context; {plan.slots} paths of {plan.slot:,} tokens may be too many for the memory"
    said = re.findall(r"^\S+ E (?:\S+: )?(.+)$", done.stderr.decode("utf-8", "replace"), re.MULTILINE)
    return str(said[0])[:300] if said else f"it ended with code {done.returncode}"
