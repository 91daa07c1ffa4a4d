"""llama.cpp's own server inside this process, through `xllamacpp`: started on first use, shared, stopped at exit.

A server with enough slots and context is used again; an idle one that is too small, or whose memory another needs, is
stopped. Starting and stopping hold Python's lock: nothing else in the process runs meanwhile.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sureenough.errors import EngineUnavailable, UsageError

SPIN_VARIABLE: Final = "GOMP_SPINCOUNT"
INSTALL: Final = "the local engine needs the package xllamacpp: pip install 'sureenough[local]'"


@dataclass(frozen=True, slots=True)
class LlamaServerOptions:
    file: Path
    slots: int
    slot: int  # tokens of context per slot
    threads: int
    bytes: int  # of memory, estimated


class LlamaServer:
    def __init__(self, plan: LlamaServerOptions) -> None:
        self.plan = plan
        self.users = 0
        self.key = secrets.token_urlsafe(24)
        xllamacpp = _library()
        try:
            self._server: Any = xllamacpp.Server(parameters(xllamacpp.CommonParams(), plan, self.key))
        except RuntimeError:  # which does not say why
            raise EngineUnavailable(
                f"llama.cpp cannot load {plan.file}: it may be damaged, too large for the memory with {plan.slots} "
                f"paths of {plan.slot:,} tokens, or of a kind that needs a newer llama.cpp: pip install -U xllamacpp"
            ) from None
        self.url = f"{self._server.listening_address}/v1"
        self.visits = 0  # runs so far, by which a run sees whether it was the only one

    def stop(self) -> None:
        """Stop the server; streams that are still open end within a second."""
        self._server = None


_lock: Final = threading.Lock()
_running: Final[list[LlamaServer]] = []


@contextlib.contextmanager
def served(plan: LlamaServerOptions) -> Iterator[LlamaServer]:
    """A server that fits the plan, in use while the block lasts; it keeps running afterwards."""
    with _lock:
        server = _find(plan) or _start(plan)
        server.users += 1
        server.visits += 1
    try:
        yield server
    finally:
        with _lock:
            server.users -= 1


def _find(plan: LlamaServerOptions) -> LlamaServer | None:
    for server in _running:
        other = server.plan
        same = (other.file, other.threads) == (plan.file, plan.threads)
        if same and other.slots >= plan.slots and other.slot >= plan.slot:
            return server
    return None


def _start(plan: LlamaServerOptions) -> LlamaServer:
    free = available()
    idle = [server for server in _running if not server.users]
    _stop([server for server in idle if server.plan.file == plan.file])
    if free is not None and free < plan.bytes:
        _stop([server for server in _running if not server.users])
        free = available()
    if free is not None and free < plan.bytes:
        raise UsageError(
            f"memory is short: {plan.file.name} with {plan.slots} paths of {plan.slot:,} tokens takes about "
            f"{shown(plan.bytes)}, and {shown(free)} are available; run fewer paths in parallel, shorter ones "
            "(max_path_tokens), or a smaller model",
            argument="max_path_tokens",
        )
    server = LlamaServer(plan)
    _running.append(server)
    return server


def _stop(servers: list[LlamaServer]) -> None:
    for server in servers:
        _running.remove(server)
        server.stop()


@atexit.register
def stop_all() -> None:
    with _lock:
        _stop(list(_running))


def _library() -> Any:
    """Import xllamacpp with short spins: llama.cpp's threads wait for each other at every layer.

    On two cores with five busy processes: 1,800 tokens/s with short spins, 110 with the default of unlimited ones. The
    library reads the setting only while it is loaded.
    """
    before = os.environ.get(SPIN_VARIABLE)
    os.environ.setdefault(SPIN_VARIABLE, "1000")
    try:
        import xllamacpp
    except ImportError:
        raise UsageError(INSTALL) from None
    finally:
        if before is None:
            del os.environ[SPIN_VARIABLE]
    return xllamacpp


def parameters(params: Any, plan: LlamaServerOptions, key: str) -> Any:
    params.api_keys = [key]
    params.model.path, params.model_alias = str(plan.file), {plan.file.stem}  # the name in replies, without its folder
    params.n_parallel, params.n_ctx = plan.slots, plan.slots * plan.slot  # the slots share it evenly
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = plan.threads
    params.hostnames, params.port = ["127.0.0.1"], 0  # any free port
    params.endpoint_metrics = params.endpoint_slots = True
    params.cors_origins, params.ui = "", False
    params.verbosity = 0  # else its log overwrites the terminal
    params.cache_ram_mib = 0  # else up to 8 GB of old prompts are kept
    params.fit_params = False  # else it changes sizes by itself
    params.warmup = False
    params.sse_ping_interval = 1  # seconds between looks whether to stop; 30 would delay an exit
    return params


MEMINFO: Final = Path("/proc/meminfo")
CGROUP: Final = Path("/sys/fs/cgroup")


def available(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """Bytes available without swapping; the installed memory if only that is known, else None."""
    known = []
    with contextlib.suppress(OSError):
        match = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo.read_text("ascii"), re.MULTILINE)
        known += [int(match[1]) * 1024] if match else []
    # What a container's limit leaves. Cached pages of files can be dropped, so they count as available.
    with contextlib.suppress(OSError, ValueError):  # no limit is the word max
        limit, used = (int((cgroup / name).read_text()) for name in ("memory.max", "memory.current"))
        files = re.search(r"^inactive_file (\d+)", (cgroup / "memory.stat").read_text(), re.MULTILINE)
        known.append(max(0, limit - used + int(files[1] if files else 0)))
    if not known:
        with contextlib.suppress(AttributeError, OSError, ValueError):
            known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(known, default=None)


def shown(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
