"""Records of watched paths, in host memory; a Unix socket serves them beside the engine.

A step only appends an update; readers apply the updates. An update may be a copy that is still on its way from the
device, with the event of its arrival; only readers wait for it. The last two states of every path are kept, since an
engine that schedules ahead samples one more token after a path's end.

At the socket, requests and replies are one line of JSON each. Its folder belongs to the server. A path's key is its
client's secret: whoever sends it gets the record. With data parallelism every engine has a socket of its own; a path's
record is where it ran.
"""

from __future__ import annotations

import asyncio
import glob
import json
import os
import socketserver
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sureenough.core.confidence import Floats
from sureenough.engines.watch.protocol import (
    MAX_KEYS,
    MAX_REPORTS_PER_SECOND,
    PROGRESS_SECONDS,
    UNKNOWN_PATH,
    MissingRecord,
    PathRecord,
    Progress,
)
from sureenough.vllm.kernels.steps import RESULT_COLUMNS, RESULT_CONF, RESULT_LOWEST

Ints = NDArray[np.int64]

BLOCK: Final = 512
"""Tokens of a path in a block."""


class Traces:
    """Peak and conf of all tokens of the paths in some slots."""

    def __init__(self, slots: int) -> None:
        self._rows: Ints = np.full(slots, -1, dtype=np.int64)  # by slot; -1: its path is not traced
        self._free = list(range(slots))  # rows of the blocks; only those that are written to take memory
        self._blocks: list[Floats] = []

    def __bool__(self) -> bool:
        """Whether any path is traced."""
        return len(self._free) < len(self._rows)

    def start(self, slot: int) -> None:
        """Trace the path that starts in this slot."""
        self._rows[slot] = self._free.pop()

    def add(self, slots: Ints, tokens_before: Ints, signals: Floats) -> None:
        """One token of each of these paths, by their tokens before it; those that are not traced are left out."""
        traced = self._rows[slots] >= 0
        rows, tokens = self._rows[slots[traced]], tokens_before[traced]
        numbers, places = np.divmod(tokens, BLOCK)
        for number in set(numbers.tolist()):
            while number >= len(self._blocks):
                self._blocks.append(np.empty((len(self._rows), BLOCK, 2)))
            mine = numbers == number
            self._blocks[number][rows[mine], places[mine]] = signals[traced][mine]

    def read(self, slot: int, tokens: int) -> Floats | None:
        """A copy of the signals of a path's first tokens; None if it is not traced."""
        row = int(self._rows[slot])
        if row < 0:
            return None
        parts = [block[row] for block in self._blocks[: -(-tokens // BLOCK)]]
        return np.concatenate([np.empty((0, 2)), *parts])[:tokens]

    def stop(self, slot: int) -> None:
        """Forget the path in this slot; without any, the memory is given back."""
        row = int(self._rows[slot])
        if row >= 0:
            self._rows[slot] = -1
            self._free.append(row)
        if not self:
            self._blocks = []


FINISHED_BYTES: Final = 512
"""Memory of a finished path's record without its signals, roughly."""
MAX_FINISHED_BYTES: Final = 256 << 20
"""Of all finished paths whose records are kept."""
MAX_PENDING: Final = 64
"""Updates not yet applied. Beyond half of it the engine applies those that have arrived; near the end it waits."""


class _StoredPath(NamedTuple):
    """What is kept of a path."""

    tokens: int
    states: Floats  # lowest, tail, tier, sums of all signals after an even and an odd number of tokens
    trace: Floats | None  # peak and conf of every token

    def record(self, tokens: int | None) -> PathRecord | MissingRecord | None:
        """The record after so many tokens; None if they have not arrived yet."""
        tokens = self.tokens if tokens is None else tokens
        if tokens > self.tokens:
            return None
        if self.tokens - tokens > 1:
            return MissingRecord(f"the path has {self.tokens} tokens, and only its last two states are kept")
        lowest, tail, tier, *sums = self.states[tokens & 1].tolist() if tokens else (0.0,) * 5
        signals = None if self.trace is None else self.trace[:tokens]
        return PathRecord(tokens, lowest, tail, int(tier), signals, *(total / max(1, tokens) for total in sums))

    def progress(self) -> Progress:
        return Progress(self.tokens, float(self.states[self.tokens & 1, 1]) if self.tokens else 0.0)


class _Step(NamedTuple):
    """The results of one step, not yet applied."""

    slots: Ints
    tokens_before: NDArray[np.int32]
    results: Floats
    copied: Any  # the event of the results' arrival; None if they are here


class PathRecords:
    """Written by the engine's thread, read by any other."""

    def __init__(self, slots: int) -> None:
        self._tokens = np.zeros(slots, dtype=np.int64)
        self._states = np.zeros((slots, 2, RESULT_COLUMNS - RESULT_LOWEST))
        self._traces = Traces(slots)
        self._keys: dict[int, str] = {}
        self._slots: dict[str, int] = {}
        self._finished: dict[str, _StoredPath | MissingRecord] = {}  # the oldest first
        self._finished_bytes = 0
        self._pending: deque[_Step | Callable[[], None]] = deque()  # steps, and changes of the paths in the slots
        self._lock = threading.Lock()

    # -- the engine's thread

    def start_path(self, slot: int, key: str, trace: bool) -> None:
        """A path starts in this slot, whose last path has ended."""
        self._pending.append(partial(self._start_path, slot, key, trace))

    def lose_path(self, key: str, reason: str) -> None:
        """A path can no longer be watched."""
        self._pending.append(partial(self._lose_path, key, reason))

    def add_step(self, slots: Ints, tokens_before: NDArray[np.int32], results: Floats, copied: Any = None) -> None:
        """One step's result columns, which may be read once the event `copied` has happened."""
        self._pending.append(_Step(slots, tokens_before, results, copied))
        full = len(self._pending) >= MAX_PENDING - 2
        if len(self._pending) > MAX_PENDING // 2 and self._lock.acquire(blocking=full):
            try:
                self._apply_pending(wait=full)
            finally:
                self._lock.release()

    # -- any thread

    def read(self, paths: Sequence[tuple[str, int | None]]) -> list[PathRecord | MissingRecord | None]:
        """Records of paths after so many tokens each (None: all); None for one that is not known or not that far."""
        with self._lock:
            self._apply_pending()
            stored = [self._path(key, trace=True) for key, _ in paths]
        return [
            path.record(tokens) if isinstance(path, _StoredPath) else path
            for path, (_, tokens) in zip(stored, paths, strict=True)
        ]

    def read_progress(self, keys: Sequence[str]) -> list[Progress | None]:
        """How far these paths are, by what has arrived; None for a path that is not known or not watched."""
        with self._lock:
            self._apply_pending(wait=False)
            paths = [self._path(key) for key in keys]
        return [path.progress() if isinstance(path, _StoredPath) else None for path in paths]

    # -- with the lock held

    def _path(self, key: str, *, trace: bool = False) -> _StoredPath | MissingRecord | None:
        slot = self._slots.get(key)
        return self._finished.get(key) if slot is None else self._stored(slot, trace=trace)

    def _stored(self, slot: int, *, trace: bool) -> _StoredPath:
        tokens = int(self._tokens[slot])
        return _StoredPath(tokens, self._states[slot].copy(), self._traces.read(slot, tokens) if trace else None)

    def _apply_pending(self, *, wait: bool = True) -> None:
        while self._pending:
            update = self._pending[0]
            if not isinstance(update, _Step):
                update()
            elif wait or update.copied is None or update.copied.query():
                self._apply(update)
            else:
                return
            self._pending.popleft()

    def _apply(self, step: _Step) -> None:
        if step.copied is not None:
            step.copied.synchronize()
        tokens_before = step.tokens_before.astype(np.int64)
        self._tokens[step.slots] = tokens_before + 1
        self._states[step.slots, (tokens_before + 1) & 1] = step.results[:, RESULT_LOWEST:]
        if self._traces:
            self._traces.add(step.slots, tokens_before, step.results[:, : RESULT_CONF + 1])

    def _start_path(self, slot: int, key: str, trace: bool) -> None:
        self._finish_path(slot)
        self._drop(key)
        self._slots[key], self._keys[slot] = slot, key
        self._tokens[slot] = 0
        if trace:
            self._traces.start(slot)

    def _lose_path(self, key: str, reason: str) -> None:
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._keys.pop(slot, None)
            self._traces.stop(slot)
        self._keep(key, MissingRecord(reason))

    def _finish_path(self, slot: int) -> None:
        key = self._keys.pop(slot, None)
        if key is not None and self._slots.get(key) == slot:  # a request may have come back in another slot
            del self._slots[key]
            self._keep(key, self._stored(slot, trace=True))
        self._traces.stop(slot)

    def _keep(self, key: str, path: _StoredPath | MissingRecord) -> None:
        self._drop(key)
        self._finished[key] = path
        self._finished_bytes += _size(path)
        # The latest is kept even if it is larger than the limit: it is about to be read.
        while self._finished_bytes > MAX_FINISHED_BYTES and len(self._finished) > 1:
            self._drop(next(iter(self._finished)))

    def _drop(self, key: str) -> None:
        path = self._finished.pop(key, None)
        if path is not None:
            self._finished_bytes -= _size(path)


def _size(path: _StoredPath | MissingRecord) -> int:
    trace = path.trace if isinstance(path, _StoredPath) else None
    return FINISHED_BYTES + (0 if trace is None else trace.nbytes)


# -- the socket

TIMEOUT: Final = 2.0
"""Seconds that the paths of a request wait for an engine that does not respond: it may concern only some of them."""
ARRIVAL_SECONDS: Final = 10.0
"""Time in which a path's record must arrive."""
MAX_RECORDS: Final = 64
"""Records in one reply: each may have 22 bytes for every token of its path."""


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        with suppress(ConnectionError):  # the reader has what it needs from another engine, or has gone
            for line in self.rfile:
                self.wfile.write(json.dumps(self._reply(json.loads(line))).encode() + b"\n")

    def _reply(self, request: dict[str, Any]) -> list[Any]:
        server = cast(_RecordsServer, self.server)
        if "keys" in request:
            return server.records.read_progress(request["keys"])
        records = server.records.read(request["paths"])
        return [None if record is None else {**record.to_json(), "engine": server.engine} for record in records]


class _RecordsServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 1024  # many paths end at once, and a full queue refuses connections
    records: PathRecords
    engine: int


def serve_records(records: PathRecords, socket_path: str, engine: int = 0) -> None:
    """Serve the records of this engine until the process ends."""
    socket_path = f"{socket_path}.{engine}" if engine else socket_path
    Path(socket_path).unlink(missing_ok=True)
    server = _RecordsServer(socket_path, _Handler)
    server.records, server.engine = records, engine
    os.chmod(socket_path, 0o600)
    threading.Thread(target=server.serve_forever, name="sureenough-records", daemon=True).start()


def engine_sockets(socket_path: str) -> list[str]:
    """The sockets of the engines that share the requests."""
    sockets = [socket_path, *sorted(glob.glob(glob.escape(socket_path) + ".[0-9]*"))]
    return [path for path in sockets if os.path.exists(path)]


async def _ask_engines(socket_path: str, request: dict[str, Sequence[Any]], paths: int) -> list[Any]:
    """What the engine that runs it knows of each path of a request; None if none knows it."""
    asking = [asyncio.ensure_future(_ask(path, request)) for path in engine_sockets(socket_path)]
    merged: list[Any] = [None] * paths
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT):
                for next_reply in asyncio.as_completed(asking):  # an engine that hangs does not stop the others
                    if (reply := await next_reply) is not None:
                        merged = [new if old is None else old for old, new in zip(merged, reply, strict=True)]
                    if None not in merged:
                        break
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    return merged


async def _ask(socket_path: str, request: dict[str, Sequence[Any]]) -> list[Any] | None:
    """The reply of one engine; None if it has gone."""
    try:
        reader, writer = await asyncio.open_unix_connection(socket_path, limit=1 << 26)
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            reply: list[Any] = json.loads(await reader.readline())
        finally:
            writer.close()
    except (OSError, ValueError):
        return None
    return reply


class MonitorReader:
    """Records and progress of the paths of one process, requested for many paths at once.

    Paths of a question often end together, and a connection for each would take longer than the records themselves.
    """

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._waiting: list[tuple[str, int | None, asyncio.Future[dict[str, Any] | None]]] = []  # for their records
        self._reading: asyncio.Task[None] | None = None
        self._followed: set[str] = set()
        self._progress: dict[str, Progress | None] = {}
        self._progress_at = 0.0
        self._reading_progress: asyncio.Task[None] | None = None

    async def record(self, key: str, tokens: int | None) -> dict[str, Any]:
        """A record as JSON, with the number of the engine that ran the path, or {"lost": reason}."""
        loop = asyncio.get_running_loop()
        end = loop.time() + ARRIVAL_SECONDS
        while loop.time() < end:
            arrived: asyncio.Future[dict[str, Any] | None] = loop.create_future()
            self._waiting.append((key, tokens, arrived))
            if self._reading is None or self._reading.done():
                self._reading = loop.create_task(self._read_records())
            if (record := await arrived) is not None:
                return record
            await asyncio.sleep(0.02)
        known = (await self.request_progress([key]))[0] is not None
        return MissingRecord("its last tokens did not arrive" if known else UNKNOWN_PATH).to_json()

    async def _read_records(self) -> None:
        while self._waiting:
            paths, self._waiting = self._waiting[:MAX_RECORDS], self._waiting[MAX_RECORDS:]
            records = await _ask_engines(self._socket_path, {"paths": [path[:2] for path in paths]}, len(paths))
            for (_, _, arrived), record in zip(paths, records, strict=True):
                if not arrived.done():
                    arrived.set_result(record)

    @property
    def interval(self) -> float:
        """Seconds between two reports of a path: longer if there are many, whose reports would fill a core."""
        return max(PROGRESS_SECONDS, len(self._followed) / MAX_REPORTS_PER_SECOND)

    @contextmanager
    def following(self, key: str) -> Iterator[None]:
        """Ask for the progress of this path as long as the block runs."""
        self._followed.add(key)
        try:
            yield
        finally:
            self._followed.discard(key)
            self._progress.pop(key, None)

    async def progress(self, key: str) -> Progress | None:
        """How far this path was a moment ago; None if the monitor does not know it (yet)."""
        loop, reading = asyncio.get_running_loop(), self._reading_progress
        if reading is None or (reading.done() and loop.time() - self._progress_at > self.interval / 2):
            reading = self._reading_progress = loop.create_task(self._read_progress())
        await asyncio.shield(reading)
        return self._progress.get(key)

    async def _read_progress(self) -> None:
        keys = list(self._followed)[:MAX_KEYS]
        self._progress = dict(zip(keys, await self.request_progress(keys), strict=True))
        self._progress_at = asyncio.get_running_loop().time()

    async def request_progress(self, keys: Sequence[str]) -> list[Progress | None]:
        """How far these paths are now, whichever engine runs them."""
        paths = await _ask_engines(self._socket_path, {"keys": keys}, len(keys))
        return [None if path is None else Progress(*path) for path in paths]
