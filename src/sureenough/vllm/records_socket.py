"""Serves records at a Unix socket beside the engine, one line of JSON each way, and reads them.

The socket's folder belongs to the server. A path's key is its client's secret: whoever sends it gets the record. With
data parallelism every engine has a socket of its own; a path's record is where it ran.
"""

from __future__ import annotations

import asyncio
import glob
import json
import os
import socketserver
import threading
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from sureenough.engines.watch.protocol import KEY_PATTERN, MAX_KEYS, MAX_REPORTS_PER_SECOND, PROGRESS_SECONDS
from sureenough.engines.watch.record import MissingRecord, Progress
from sureenough.vllm.records import PathRecords

T = TypeVar("T")
TIMEOUT: Final = 10.0
SHARED_TIMEOUT: Final = 2.0
"""Seconds that paths wait for an engine that does not respond, if it may concern only some of them."""
MAX_RECORDS: Final = 64
"""Records in one reply: each may have 22 bytes for every token of its path."""


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        with suppress(ConnectionError):  # the reader has what it needs from another engine, or has gone
            for line in self.rfile:
                self.wfile.write(json.dumps(self._reply(json.loads(line))).encode() + b"\n")

    def _reply(self, request: dict[str, Any]) -> Any:
        server = cast(_RecordsServer, self.server)
        if "keys" in request:
            return server.records.read_progress(request["keys"])
        if "paths" in request:
            arrived = server.records.read_arrived(request["paths"])
            return [None if record is None else {**record.to_json(), "engine": server.engine} for record in arrived]
        return {**server.records.read(str(request["key"]), request.get("tokens")).to_json(), "engine": server.engine}


class _RecordsServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 1024  # many paths end at once, and a full queue refuses connections

    def __init__(self, socket_path: str, records: PathRecords, engine: int) -> None:
        self.records, self.engine = records, engine
        super().__init__(socket_path, _Handler)


def engine_number(parallel: Any) -> int:
    """Which of the engines that share the requests this is.

    Engines of models without experts are told that they are alone (rank 0 of 1); only the index tells them apart.
    """
    return int(getattr(parallel, "data_parallel_index", None) or parallel.data_parallel_rank or 0)


def serve_records(records: PathRecords, socket_path: str, engine: int = 0) -> None:
    """Serve the records of this engine until the process ends."""
    socket_path = f"{socket_path}.{engine}" if engine else socket_path
    Path(socket_path).unlink(missing_ok=True)
    server = _RecordsServer(socket_path, records, engine)
    os.chmod(socket_path, 0o600)
    threading.Thread(target=server.serve_forever, name="sureenough-records", daemon=True).start()


async def request_record(socket_path: str, key: str, tokens: int | None) -> dict[str, Any]:
    """A record as JSON, with the number of the engine that ran the path, or {"lost": reason}."""
    if KEY_PATTERN.fullmatch(key) is None:
        return MissingRecord("that is not a key").to_json()
    try:
        async with asyncio.timeout(TIMEOUT):
            socket_path = await _engine_socket(socket_path, key)
            return cast("dict[str, Any]", await _exchange(socket_path, {"key": key, "tokens": tokens}))
    except (OSError, TimeoutError, ValueError) as error:
        return MissingRecord(f"the monitor does not respond ({type(error).__name__})").to_json()
    except EOFError:
        return MissingRecord("the monitor closed the connection").to_json()


class RecordReader:
    """Records of the paths of one process. Reads that arrive while a request runs share the next request.

    Paths of a question often end together, and a connection for each would take longer than the records themselves.
    """

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._waiting: list[tuple[str, int | None, asyncio.Future[dict[str, Any] | None]]] = []
        self._reading: asyncio.Task[None] | None = None

    async def read(self, key: str, tokens: int | None) -> dict[str, Any]:
        """The same as `request_record`, which also waits for tokens that have not arrived."""
        record = None
        if KEY_PATTERN.fullmatch(key) is not None:
            loop = asyncio.get_running_loop()
            arrived: asyncio.Future[dict[str, Any] | None] = loop.create_future()
            if not _is_running(self._reading):
                self._waiting.clear()  # of an event loop that has ended
                self._reading = loop.create_task(self._read())
            self._waiting.append((key, tokens, arrived))
            record = await arrived
        return await request_record(self._socket_path, key, tokens) if record is None else record

    async def _read(self) -> None:
        while self._waiting:
            paths, self._waiting = self._waiting[:MAX_RECORDS], self._waiting[MAX_RECORDS:]
            records = await self._request([(key, tokens) for key, tokens, _ in paths])
            for (_, _, arrived), record in zip(paths, records, strict=True):
                if not arrived.done():
                    arrived.set_result(record)

    async def _request(self, paths: Sequence[tuple[str, int | None]]) -> list[dict[str, Any] | None]:
        nothing: list[dict[str, Any] | None] = [None] * len(paths)
        if len(_engine_sockets(self._socket_path)) > 1:
            return nothing
        try:
            async with asyncio.timeout(SHARED_TIMEOUT):
                records = await _exchange(self._socket_path, {"paths": list(paths)})
        except (OSError, TimeoutError, ValueError, EOFError):
            return nothing
        return records if isinstance(records, list) and len(records) == len(paths) else nothing


async def request_progress(socket_path: str, keys: Sequence[str]) -> list[Progress | None]:
    """How far these paths are, whichever engine runs them."""
    if len(keys) > MAX_KEYS or not all(KEY_PATTERN.fullmatch(key) for key in keys):
        return [None] * len(keys)
    sockets = _engine_sockets(socket_path)
    progress: list[Progress | None] = [None] * len(keys)
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(TIMEOUT if len(sockets) == 1 else SHARED_TIMEOUT),
            _as_completed([_progress_at(path, keys) for path in sockets]) as replies,
        ):
            for reply in replies:
                progress = [old if new is None else new for old, new in zip(progress, await reply, strict=True)]
                if None not in progress:
                    break
    return progress


class ProgressReader:
    """How far the paths of one process are: asked for all of them at once, and only every so often."""

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._keys: set[str] = set()
        self._progress: dict[str, Progress | None] = {}
        self._read_at = 0.0
        self._reading: asyncio.Task[None] | None = None

    @property
    def interval(self) -> float:
        """Seconds between two reports of a path: longer if there are many, whose reports would fill a core."""
        return max(PROGRESS_SECONDS, len(self._keys) / MAX_REPORTS_PER_SECOND)

    @contextmanager
    def following(self, key: str) -> Iterator[None]:
        """Ask for this path as long as the block runs."""
        self._keys.add(key)
        try:
            yield
        finally:
            self._keys.discard(key)
            self._progress.pop(key, None)

    async def progress(self, key: str) -> Progress | None:
        """How far this path is; None if the monitor does not know it (yet)."""
        loop = asyncio.get_running_loop()
        if not _is_running(self._reading):
            is_due = loop.time() - self._read_at > self.interval / 2
            self._reading = loop.create_task(self._read()) if is_due else None
        if self._reading is not None:
            await asyncio.shield(self._reading)
        return self._progress.get(key)

    async def _read(self) -> None:
        keys = list(self._keys)[:MAX_KEYS]
        self._progress = dict(zip(keys, await request_progress(self._socket_path, keys), strict=True))
        self._read_at = asyncio.get_running_loop().time()


def _is_running(task: asyncio.Task[None] | None) -> bool:
    """Whether a task will end; one whose event loop has ended may never have started."""
    return task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop()


def _engine_sockets(socket_path: str) -> list[str]:
    return [socket_path, *sorted(glob.glob(glob.escape(socket_path) + ".[0-9]*"))]


async def _engine_socket(socket_path: str, key: str) -> str:
    """The socket of the engine that ran this path; the first one's if none knows it."""
    sockets = _engine_sockets(socket_path)
    if len(sockets) > 1:
        async with _as_completed([_if_known(path, key) for path in sockets]) as replies:
            for reply in replies:  # in any order: an engine that hangs does not keep the others from replying
                if (known := await reply) is not None:
                    return known
    return socket_path


async def _if_known(socket_path: str, key: str) -> str | None:
    for _ in range(20):  # its first tokens may not have arrived yet
        if (await _progress_at(socket_path, [key]))[0] is not None:
            return socket_path
        await asyncio.sleep(0.05)
    return None


@asynccontextmanager
async def _as_completed(requests: Sequence[Coroutine[Any, Any, T]]) -> AsyncIterator[Iterator[Awaitable[T]]]:
    """Send requests at once; those without a reply at the end of the block are given up."""
    tasks = [asyncio.ensure_future(request) for request in requests]
    try:
        yield asyncio.as_completed(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _progress_at(socket_path: str, keys: Sequence[str]) -> list[Progress | None]:
    try:
        async with asyncio.timeout(TIMEOUT):
            reply = await _exchange(socket_path, {"keys": list(keys)})
            return [None if one is None else Progress(*one) for one, _ in zip(reply, keys, strict=True)]
    except (OSError, TimeoutError, ValueError, TypeError, EOFError):
        return [None] * len(keys)


async def _exchange(socket_path: str, request: dict[str, Any]) -> Any:
    reader, writer = await asyncio.open_unix_connection(socket_path, limit=1 << 26)
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise EOFError
    return json.loads(line)
