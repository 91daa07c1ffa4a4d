"""A vLLM server with the monitor inside, started by a runner on its node: the runner's paths are sampled from it.

The server is a child of the runner and ends with it, however that ends; a runner whose server ends, ends too, so that
both are started again.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from sureenough.engines.base import Engine
from sureenough.errors import EngineRejected
from sureenough.redact import redact

HOST: Final = "127.0.0.1"
PR_SET_PDEATHSIG: Final = 1
POLL_SECONDS: Final = 0.5
STOP_SECONDS: Final = 10.0
GUARD: Final = """
import os, shutil, signal, sys, time
sys.stdin.read()
for number in (signal.SIGTERM, signal.SIGKILL):
    try:
        os.killpg(int(sys.argv[1]), number)
    except ProcessLookupError:
        break
    time.sleep(10)
shutil.rmtree(sys.argv[2], ignore_errors=True)
"""
SHOWN: Final = 1_000
"""Characters of the end of a server's log that an error quotes."""


@dataclass(frozen=True)
class VllmServer:
    """How a runner starts its server, and makes the engine that samples from it."""

    model: str
    words: tuple[str, ...]  # further options of vLLM
    resources: Mapping[str, float]  # of a node, for one server
    engine_at: Callable[[str], Engine]  # by the server's URL

    @property
    def actor_options(self) -> dict[str, Any]:
        """The resources in Ray's words."""
        own = dict(self.resources)
        return {"num_cpus": own.pop("CPU", 1), "num_gpus": own.pop("GPU", 0), "resources": own}

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Engine]:
        """The engine of a server that is ready."""
        with tempfile.TemporaryDirectory(prefix="sureenough-") as folder, socket.create_server((HOST, 0)) as free:
            port = free.getsockname()[1]
            free.close()
            log = Path(folder) / "log"
            process = await self._start(port, log, Path(folder))
            watch: asyncio.Task[None] | None = None
            guard = _guard(process.pid, folder)
            try:
                await self._ready(process, port, log)
                watch = asyncio.create_task(_end_with(process))
                yield self.engine_at(f"http://{HOST}:{port}/v1")
            finally:
                if watch is not None:
                    watch.cancel()
                await _stop(process)
                assert guard.stdin is not None
                guard.stdin.close()

    async def _start(self, port: int, log: Path, folder: Path) -> asyncio.subprocess.Process:
        words = ["-m", "sureenough", "serve-vllm", self.model, "--host", HOST, "--port", str(port), *self.words]
        variables = {"SUREENOUGH_VLLM_SOCKET": str(folder / "records.sock")}
        with log.open("wb") as output:
            return await asyncio.create_subprocess_exec(
                sys.executable, *words, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
                env=os.environ | variables, start_new_session=True, preexec_fn=_die_with_parent,
            )  # fmt: skip

    async def _ready(self, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
        """Wait until it responds: loading a model takes as long as it takes."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as client:
            while process.returncode is None:
                with suppress(aiohttp.ClientError, TimeoutError):
                    async with client.get(f"http://{HOST}:{port}/health") as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(POLL_SECONDS)
        raise EngineRejected(f"vLLM did not start with {self.model} (exit code {process.returncode}): {_end_of(log)}")


def _end_of(log: Path) -> str:
    """Of a log of any length, in which vLLM may have printed its options."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4 * SHOWN))
        return redact(file.read(4 * SHOWN).decode("utf-8", "replace"))[-SHOWN:]


def _die_with_parent() -> None:
    """Runs in the child: it receives SIGTERM when the runner is gone, even if that was killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _guard(group: int, folder: str) -> subprocess.Popen[bytes]:
    """End a group of processes, and remove its folder, when this process is gone and its end of the pipe is closed.

    Processes that a server started were seen to outlive a runner that Ray had killed. A shell that ends at once makes
    the guard a process that Ray does not take for a child.
    """
    shell = 'exec 3<&0; "$@" <&3 &'
    words = ["sh", "-c", shell, "sh", sys.executable, "-c", GUARD, str(group), folder]
    guard = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    guard.wait()
    return guard


async def _end_with(process: asyncio.subprocess.Process) -> None:
    """End this process, a runner, when its server ends."""
    await process.wait()
    os._exit(1)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End the server and what it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
