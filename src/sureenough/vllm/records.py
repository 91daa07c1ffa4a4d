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
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sureenough.core.confidence import Floats
from sureenough.engines.watch.protocol import (
    KEY_PATTERN,
    MAX_KEYS,
    MAX_REPORTS_PER_SECOND,
    PROGRESS_SECONDS,
    UNKNOWN_PATH,
    MissingRecord,
    PathRecord,
    Progress,
    record_bytes,
)
from sureenough.vllm.kernels.batched import RESULT_COLUMNS, RESULT_CONF, RESULT_LOWEST, Ints

BLOCK: Final = 512
"""Tokens of a path in a block."""


class Traces:
    """Peak and conf of all tokens of the paths in some slots."""

    def __init__(self, slots: int) -> None:
        self._rows: Ints = np.full(slots, -1, dtype=np.int64)  # by slot; -1: its path is not traced
        self._free: list[int] = []
        self._count = 0  # rows of the blocks
        self._blocks: list[Floats] = []

    def __bool__(self) -> bool:
        """Whether any path is traced."""
        return self._count > len(self._free)

    def start(self, slot: int) -> None:
        """Trace the path that starts in this slot."""
        if not self._free:
            more = max(16, self._count)
            self._free = list(range(self._count, self._count + more))[::-1]
            self._count += more
            self._blocks = [np.concatenate((block, self._empty(more))) for block in self._blocks]
        self._rows[slot] = self._free.pop()

    def add(self, slots: Ints, tokens_before: Ints, signals: Floats) -> None:
        """One token of each of these paths, by their tokens before it; those that are not traced are left out."""
        traced = self._rows[slots] >= 0
        rows, tokens = self._rows[slots[traced]], tokens_before[traced]
        numbers, places = np.divmod(tokens, BLOCK)
        for number in set(numbers.tolist()):
            while number >= len(self._blocks):
                self._blocks.append(self._empty(self._count))
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
            self._free, self._count, self._blocks = [], 0, []

    def _empty(self, rows: int) -> Floats:
        return np.empty((rows, BLOCK, 2))


MAX_FINISHED: Final = 4096
"""Finished paths whose records are kept, at most."""
FINISHED_BYTES: Final = 512
"""Memory of a finished path's record without its signals, roughly."""
MAX_PENDING: Final = 64
"""Updates not yet applied. Beyond half of it the engine applies those that have arrived; near the end it waits."""

_NO_SLOTS: Final[Ints] = np.empty(0, dtype=np.int64)


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


class _PendingUpdate(NamedTuple):
    """The results of one step, or a change of the paths in the slots; not yet applied."""

    slots: Ints = _NO_SLOTS  # the same object until a path starts, ends or moves
    tokens_before: NDArray[np.int32] = _NO_SLOTS.astype(np.int32)
    results: Any = None
    copied: Any = None  # the event of the results' arrival; None if they are here
    change: Callable[[], None] | None = None

    def is_overwritten_by(self, later: _PendingUpdate) -> bool:
        """Whether the update two places later replaces these states: the same rows, two tokens on."""
        same_rows = later.slots is self.slots and self.change is None
        return same_rows and bool((later.tokens_before - self.tokens_before == 2).all())


class PathRecords:
    """Written by the engine's thread, read by any other."""

    def __init__(self, slots: int, max_bytes: int | None = None) -> None:
        self._tokens = np.zeros(slots, dtype=np.int64)
        self._states = np.zeros((slots, 2, RESULT_COLUMNS - RESULT_LOWEST))
        self._traces = Traces(slots)
        self._keys: dict[int, str] = {}
        self._slots: dict[str, int] = {}
        self._finished: OrderedDict[str, _StoredPath | MissingRecord] = OrderedDict()
        self._finished_bytes, self._max_bytes = 0, max_bytes or record_bytes()
        self._pending: deque[_PendingUpdate] = deque()
        self._lock = threading.Lock()

    # -- the engine's thread

    def start_path(self, slot: int, key: str, trace: bool) -> None:
        """A path starts in this slot, whose last path has ended."""
        self._pending.append(_PendingUpdate(change=partial(self._start_path, slot, key, trace)))

    def lose_path(self, key: str, reason: str) -> None:
        """A path can no longer be watched."""
        self._pending.append(_PendingUpdate(change=partial(self._lose_path, key, reason)))

    def add_step(self, slots: Ints, tokens_before: NDArray[np.int32], results: Any, copied: Any = None) -> None:
        """One step's result columns, which may be read once the event `copied` has happened."""
        self._pending.append(_PendingUpdate(slots, tokens_before, results, copied))
        full = len(self._pending) >= MAX_PENDING - 2
        if len(self._pending) > MAX_PENDING // 2 and self._lock.acquire(blocking=full):
            try:
                self._apply_pending(wait=full)
            finally:
                self._lock.release()

    # -- any thread

    def read(self, key: str, tokens: int | None = None, timeout: float = 5.0) -> PathRecord | MissingRecord:
        """A path's record after so many tokens (by default the latest), once these have arrived."""
        end = time.monotonic() + timeout
        while (record := self.read_arrived([(key, tokens)])[0]) is None:
            if time.monotonic() > end:
                is_known = self.read_progress([key])[0] is not None
                return MissingRecord("its last tokens did not arrive" if is_known else UNKNOWN_PATH)
            time.sleep(0.002)
        return record

    def read_arrived(self, paths: Sequence[tuple[str, int | None]]) -> list[PathRecord | MissingRecord | None]:
        """Records of paths after so many tokens each; None for one that is not known or not that far yet."""
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
        return [_progress(path) if isinstance(path, _StoredPath) else None for path in paths]

    def _path(self, key: str, *, trace: bool = False) -> _StoredPath | MissingRecord | None:
        slot = self._slots.get(key)
        if slot is None:
            return self._finished.get(key)
        tokens = int(self._tokens[slot])
        return _StoredPath(tokens, self._states[slot].copy(), self._traces.read(slot, tokens) if trace else None)

    # -- with the lock held

    def _apply_pending(self, *, wait: bool = True) -> None:
        pending = self._pending
        while pending and (wait or pending[0].copied is None or pending[0].copied.query()):
            self._apply(pending[0], states=not (len(pending) > 2 and pending[0].is_overwritten_by(pending[2])))
            pending.popleft()

    def _apply(self, update: _PendingUpdate, *, states: bool) -> None:
        if update.change is not None:
            update.change()
            return
        if not states and not self._traces:
            return
        if update.copied is not None:
            update.copied.synchronize()
        rows: Floats = np.asarray(update.results)
        tokens_before = update.tokens_before.astype(np.int64)
        if states:
            self._tokens[update.slots] = tokens_before + 1
            self._states[update.slots, (tokens_before + 1) & 1] = rows[:, RESULT_LOWEST:]
        if self._traces:
            self._traces.add(update.slots, tokens_before, rows[:, : RESULT_CONF + 1])

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
            path = self._path(key, trace=True)
            del self._slots[key]
            if isinstance(path, _StoredPath):
                self._keep(key, path)
        self._traces.stop(slot)

    # -- finished paths, the oldest first

    def _keep(self, key: str, path: _StoredPath | MissingRecord) -> None:
        self._drop(key)
        self._finished[key] = path
        self._finished_bytes += _size(path)
        # The latest is kept even if it is larger than the limit: it is about to be read.
        while len(self._finished) > MAX_FINISHED or (
            self._finished_bytes > self._max_bytes and len(self._finished) > 1
        ):
            self._drop(next(iter(self._finished)))

    def _drop(self, key: str) -> None:
        path = self._finished.pop(key, None)
        if path is not None:
            self._finished_bytes -= _size(path)


def _progress(path: _StoredPath) -> Progress:
    return Progress(path.tokens, float(path.states[path.tokens & 1][1]) if path.tokens else 0.0)


def _size(path: _StoredPath | MissingRecord) -> int:
    trace = path.trace if isinstance(path, _StoredPath) else None
    return FINISHED_BYTES + (0 if trace is None else trace.nbytes)


# -- the socket

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
            self._waiting.append((key, tokens, arrived))
            if self._reading is None or self._reading.done():
                self._reading = loop.create_task(self._read())
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
        if self._reading is None or (self._reading.done() and loop.time() - self._read_at > self.interval / 2):
            self._reading = loop.create_task(self._read())
        await asyncio.shield(self._reading)
        return self._progress.get(key)

    async def _read(self) -> None:
        keys = list(self._keys)[:MAX_KEYS]
        self._progress = dict(zip(keys, await request_progress(self._socket_path, keys), strict=True))
        self._read_at = asyncio.get_running_loop().time()


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
